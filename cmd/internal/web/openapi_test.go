package web

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/axebus/axe/internal/httpguard"
)

// document is the part of openapi.json that the tests read.
type document struct {
	OpenAPI    string                          `json:"openapi"`
	Paths      map[string]map[string]operation `json:"paths"`
	Components struct {
		Schemas map[string]json.RawMessage `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	ID         string            `json:"operationId"`
	Role       httpguard.Role    `json:"x-role"`
	Responses  map[string]answer `json:"responses"`
	Parameters []struct {
		Name string `json:"name"`
		In   string `json:"in"`
	} `json:"parameters"`
}

type answer struct {
	Content map[string]struct {
		Schema map[string]any `json:"schema"`
	} `json:"content"`
}

func readDocument(t *testing.T) (d document) {
	t.Helper()
	if err := json.Unmarshal(openAPI, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// schema returns a schema of the document that permits no other members than
// those that it names.
func (d document) schema(t *testing.T, of map[string]any) *jsonschema.Resolved {
	t.Helper()
	defs := map[string]any{}
	for name, text := range d.Components.Schemas {
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		defs[name] = closed(v)
	}
	whole := map[string]any{"$defs": defs}
	maps.Copy(whole, of)
	text, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	local := strings.ReplaceAll(string(text), "#/components/schemas/", "#/$defs/")
	if err := json.Unmarshal([]byte(local), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

// closed makes all objects of a schema refuse members that it does not name.
func closed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		_, named := v["properties"]
		if _, open := v["additionalProperties"]; named && !open {
			v["additionalProperties"] = false
		}
		for k, below := range v {
			v[k] = closed(below)
		}
	case []any:
		for i, below := range v {
			v[i] = closed(below)
		}
	}
	return v
}

// TestRoutesAndDocument: every route is in the document, with its role, and the
// document has no other operations. Each variable of a path is a parameter.
func TestRoutesAndDocument(t *testing.T) {
	d := readDocument(t)
	if d.OpenAPI != "3.1.0" {
		t.Errorf("version %q, want 3.1.0", d.OpenAPI)
	}
	var routes, described []string
	for _, r := range new(Server).routes() {
		routes = append(routes, fmt.Sprint(r.pattern, " ", r.role))
	}
	for path, operations := range d.Paths {
		for method, op := range operations {
			described = append(described, fmt.Sprint(strings.ToUpper(method), " ", path, " ", op.Role))
			for _, p := range op.Parameters {
				if p.In == "path" && !strings.Contains(path, "{"+p.Name+"}") {
					t.Errorf("%s has the parameter %s, which is not in the path", path, p.Name)
				}
			}
			for part := range strings.SplitSeq(path, "{") {
				name, _, variable := strings.Cut(part, "}")
				is := func(p struct {
					Name string `json:"name"`
					In   string `json:"in"`
				},
				) bool {
					return p.In == "path" && p.Name == name
				}
				if variable && !slices.ContainsFunc(op.Parameters, is) {
					t.Errorf("%s %s has no parameter %s", method, path, name)
				}
			}
		}
	}
	slices.Sort(routes)
	slices.Sort(described)
	if !slices.Equal(routes, described) {
		t.Errorf("routes:\n%s\nin the document:\n%s", strings.Join(routes, "\n"), strings.Join(described, "\n"))
	}
}

// sample is a request to an operation, with the status of its answer.
type sample struct {
	id, method, path, body string
	status                 int
}

// TestAnswersFitTheDocument: every operation of the document answers, and the
// bodies of the answers fit their schemas. So do the answers to bad requests.
func TestAnswersFitTheDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	d := readDocument(t)
	h.submit("lead", "words", "lead1")
	<-h.gate.asked
	h.submit("bad", "x", "bad1")
	h.submit("guarded", "pay", "held1")
	h.submit("guarded", "pay", "held2")
	h.submit("writer", "x", "written1")
	h.submit("echo", "x", "echo1")
	for _, id := range []string{"bad1", "written1", "echo1"} {
		h.outcome(id)
	}
	h.held("held1")
	h.held("held2")
	letter := h.deadLetter("dead1")
	id := "/v1/dead-letters/" + strconv.FormatUint(letter.ID, 10)
	get, post := http.MethodGet, http.MethodPost
	asked := map[string]int{}
	for _, s := range []sample{
		{"describe", get, "/v1/openapi.json", "", 200},
		{"submitTask", post, "/v1/agents/echo/tasks", "hello", 202},
		{
			"submitTask", post, "/v1/agents/echo/tasks?wait=30s",
			`{"task":"x","timeout":"1m","limits":{"max_turns":9}}`, 200,
		},
		{"submitTask", post, "/v1/agents/bad/tasks?wait=30s", `{"task":"x","timeout":60}`, 200},
		{"submitTask", post, "/v1/agents/echo/tasks", `{"tsk":"x"}`, 400},
		{"listAgents", get, "/v1/agents", "", 200},
		{"countRuns", get, "/v1/statistics?since=1h&sort=failed", "", 200},
		{"listWorkers", get, "/v1/workers", "", 200},
		{"listTrees", get, "/v1/trees?all=true", "", 200},
		{"listTrees", get, "/v1/trees?status=gone", "", 400},
		{"showTree", get, "/v1/trees/lead1", "", 200},
		{"showTree", get, "/v1/trees/written1", "", 200},
		{"showTree", get, "/v1/trees/none", "", 404},
		{"watchTree", get, "/v1/trees/echo1/events", "", 200},
		{"watchTree", get, "/v1/trees/none/events", "", 404},
		{"showRun", get, "/v1/trees/lead1/runs/r", "", 200},
		{"showRun", get, "/v1/trees/bad1/runs/r", "", 200},
		{"showRun", get, "/v1/trees/lead1/runs/r-9-9", "", 404},
		{"showRun", get, "/v1/trees/lead1/runs/x", "", 400},
		{"diffTrees", get, "/v1/trees/lead1/diff/echo1", "", 200},
		{"listArtifacts", get, "/v1/trees/written1/artifacts", "", 200},
		{"readArtifact", get, "/v1/trees/written1/artifacts/report.html", "", 200},
		{"readArtifact", get, "/v1/trees/written1/artifacts/none", "", 404},
		{"listHeld", get, "/v1/held", "", 200},
		{"listHeld", get, "/v1/held?tree=held1", "", 200},
		{"approveTurn", post, "/v1/trees/held1/approve", `{"turn":1,"by":"ann"}`, 204},
		{"approveTurn", post, "/v1/trees/lead1/approve", `{}`, 409},
		{"denyTurn", post, "/v1/trees/held2/deny", `{"reason":"not on a Sunday"}`, 204},
		{"settleCall", post, "/v1/trees/lead1/settle", `{"as":"again"}`, 409},
		{"settleCall", post, "/v1/trees/lead1/settle", `{"as":"never"}`, 400},
		{"sendMail", post, "/v1/trees/lead1/mail", `{"from":"ann","text":"Be quick"}`, 204},
		{"sendMail", post, "/v1/trees/lead1/mail", `{"text":" "}`, 400},
		{"interruptRun", post, "/v1/trees/lead1/interrupt", `{}`, 204},
		{"cancelRun", post, "/v1/trees/lead1/cancel", `{"path":"r","reason":"enough"}`, 204},
		{"cancelRun", post, "/v1/trees/echo1/cancel", `{}`, 409},
		{"listDeadLetters", get, "/v1/dead-letters", "", 200},
		{"showDeadLetter", get, id, "", 200},
		{"showDeadLetter", get, "/v1/dead-letters/1", "", 404},
		{"retryDeadLetter", post, id + "/retry", "", 202},
	} {
		asked[s.id]++
		status, header, body := h.do(h.request(s.method, s.path, s.body))
		if status != s.status {
			t.Errorf("%s %s: status %d, want %d: %s", s.method, s.path, status, s.status, body)
			continue
		}
		op, found := d.operation(s.id)
		of, described := op.Responses[strconv.Itoa(status)]
		if !described && status >= http.StatusBadRequest {
			of, described = op.Responses["default"]
		}
		if !found || !described {
			t.Errorf("%s: the document has no answer %d of %s", s.path, status, s.id)
			continue
		}
		kind := strings.TrimSuffix(header.Get("Content-Type"), "; charset=utf-8")
		content, described := of.Content[kind]
		if status != http.StatusNoContent && !described {
			t.Errorf("%s: the answer %d has the type %q, and the document does not say so", s.path, status, kind)
		}
		if !strings.HasSuffix(kind, "json") {
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Errorf("%s: %v", s.path, err)
		} else if err := d.schema(t, content.Schema).Validate(v); err != nil {
			t.Errorf("%s: the answer does not fit its schema: %v\n%s", s.path, err, body)
		}
	}
	for path, operations := range d.Paths {
		for method, op := range operations {
			if asked[op.ID] == 0 {
				t.Errorf("%s %s has no sample", method, path)
			}
		}
	}
	if o := h.outcome(letter.RetryTree().String()); o.Result != "echo: again" {
		t.Errorf("the retry ended with %q, want the echo of the letter's task", o.Result)
	}
	if o := h.outcome("held1"); o.Result != "after: echo: pay" {
		t.Errorf("the approved tree ended with %q, want the echo", o.Result)
	}
	if o := h.outcome("held2"); !strings.Contains(o.Result, "not on a Sunday") {
		t.Errorf("the denied tree ended with %q, want the reason", o.Result)
	}
	if o := h.outcome("lead1"); o.Error != "enough" {
		t.Errorf("the cancelled tree ended with %q, want the reason", o.Error)
	}
}

func (d document) operation(id string) (operation, bool) {
	for _, operations := range d.Paths {
		for _, op := range operations {
			if op.ID == id {
				return op, true
			}
		}
	}
	return operation{}, false
}
