package providertest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// Exchange is one request and its answer. Both were checked as a whole. Has and
// Lacks check parts of them. They find a part by its path, which has keys and
// indices with dots between them, in the document
//
//	{
//	  "sent": the body of the request,
//	  "got": {
//	    "content": "…", "stop_reason": "…",
//	    "tool_calls": [{"id": "…", "name": "…", "arguments": {…}, "raw": "…"}]
//	  }
//	}
type Exchange struct {
	t   *testing.T
	doc json.RawMessage
}

// Exchange sends the request of a fixture. The server checks the method, the
// path, the headers and the whole body, and sends the fixture's answer.
// Exchange then checks the whole response.
func (s Subject) Exchange(t *testing.T, name string) Exchange {
	t.Helper()
	f := s.fixture(t, name)
	var sent json.RawMessage
	p := s.serve(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
		sent = body
		sameJSON(t, f.Sent, body)
		if bytes.Contains(body, []byte(`\u003c`)) {
			t.Error("the body has HTML escapes")
		}
		_, _ = w.Write(f.Answer)
	})
	resp := send(t, p, requests()[name])
	f.check(t, resp)
	var calls []map[string]any
	for _, c := range resp.ToolCalls {
		call := map[string]any{"id": c.ID, "name": c.Name, "arguments": c.Arguments, "raw": string(c.Raw)}
		calls = append(calls, call)
	}
	got := map[string]any{"content": resp.Content, "stop_reason": resp.StopReason, "tool_calls": calls}
	doc, err := json.Marshal(map[string]any{"sent": sent, "got": got})
	if err != nil {
		t.Fatal(err)
	}
	return Exchange{t, doc}
}

// Has is a sub-test. It fails unless the document has the JSON want at the
// path.
func (x Exchange) Has(name, path, want string) {
	x.t.Helper()
	x.t.Run(name, func(t *testing.T) {
		v, ok := lookup(x.doc, path)
		if !ok {
			t.Fatalf("nothing at %s in %s", path, x.doc)
		}
		sameJSON(t, []byte(want), v)
	})
}

// Lacks is a sub-test. It fails if the document has a value at the path.
func (x Exchange) Lacks(name, path string) {
	x.t.Helper()
	x.t.Run(name, func(t *testing.T) {
		if v, ok := lookup(x.doc, path); ok {
			t.Errorf("at %s: %s", path, v)
		}
	})
}

// lookup returns the JSON at a path.
func lookup(doc json.RawMessage, path string) (json.RawMessage, bool) {
	for step := range strings.SplitSeq(path, ".") {
		var object map[string]json.RawMessage
		var list []json.RawMessage
		if json.Unmarshal(doc, &object) == nil {
			v, ok := object[step]
			if !ok {
				return nil, false
			}
			doc = v
			continue
		}
		i, err := strconv.Atoi(step)
		if err != nil || json.Unmarshal(doc, &list) != nil || i >= len(list) {
			return nil, false
		}
		doc = list[i]
	}
	return doc, true
}
