package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/toolset"
	"github.com/axebus/axe/internal/traceparent"
)

// TestCall: a server gets the arguments of a call, byte for byte, and its key.
// The call returns the server's text. One connection is enough.
func TestCall(t *testing.T) {
	transports(t, func(t *testing.T, def configs.Toolset) {
		t.Helper()
		s := open(t, def)
		want := `{"b":1,"a":12345678901234567890} tree.r-1-0`
		if got := callText(t, s, "echo", ` {"b":1,"a":12345678901234567890} `); got != want {
			t.Errorf("text %s, want %s", got, want)
		}
		if got := callText(t, s, "echo", ""); got != "{} tree.r-1-0" {
			t.Errorf("text without arguments: %s, want {} tree.r-1-0", got)
		}
		traced := traceparent.With(t.Context(), "00-1-2-01")
		r, err := s.Call(traced, toolset.Call{Tool: "echo", Key: "tree.r-1-0"})
		if want := "{} tree.r-1-0 in 00-1-2-01"; err != nil || r.Text != want {
			t.Errorf("text of a call in a trace: %s, error %v; want %s", r.Text, err, want)
		}
		if s.connections != 1 {
			t.Errorf("%d connections, want 1", s.connections)
		}
		protocol := "2026-07-28"
		if strings.HasSuffix(t.Name(), "2025-11-25") {
			protocol = "2025-11-25"
		}
		if got := s.current.client.InitializeResult().ProtocolVersion; got != protocol {
			t.Errorf("protocol %s, want %s", got, protocol)
		}
	})
}

// TestCallErrors: a failure and a refusal of the server are errors that say
// why, and so are malformed arguments. None of these calls is lost.
func TestCallErrors(t *testing.T) {
	transports(t, func(t *testing.T, def configs.Toolset) {
		t.Helper()
		s := open(t, def)
		for _, tt := range []struct{ tool, arguments, want string }{
			{"fail", `{}`, "no such city"},
			{"refuse", `{}`, "refused by the server"},
			{"missing", `{}`, "missing"},
			{"echo", `[1]`, "no JSON object"},
			{"echo", `{`, "no JSON object"},
		} {
			err := callError(t, s, tt.tool, tt.arguments)
			if !strings.Contains(err.Error(), tt.want) || errors.Is(err, toolset.ErrLost) {
				t.Errorf("%s %s: error %v, want %q", tt.tool, tt.arguments, err, tt.want)
			}
		}
	})
}

// TestCallAsks: the questions of a tool that asks for input come in the order
// of their keys. A call with the answers has the arguments, the key and the
// state of the first one, whichever connection makes it. A person who declines
// all questions is no error of axe's. Over the protocol before, a server asks
// within the call, and axe refuses.
func TestCallAsks(t *testing.T) {
	transports(t, func(t *testing.T, def configs.Toolset) {
		t.Helper()
		err := callError(t, open(t, def), "ask", `{"a":1}`)
		if errors.Is(err, toolset.ErrLost) {
			t.Errorf("error %v, want one that is not lost", err)
		}
		if strings.HasSuffix(t.Name(), "2025-11-25") {
			if want := "does not support"; !strings.Contains(err.Error(), want) {
				t.Errorf("error %v, want %q", err, want)
			}
			return
		}
		asks, ok := errors.AsType[*toolset.InputError](err)
		if !ok {
			t.Fatalf("error %v, want the tool's questions", err)
		}
		want := run.Form{State: "s", Questions: []run.Question{
			{Key: "p", Text: "log in", URL: "https://example.com/login"},
			{Key: "q", Text: "which city?", Schema: json.RawMessage(`{"type":"object"}`)},
		}}
		if diff := cmp.Diff(want, asks.Form); diff != "" {
			t.Errorf("form (-want +got):\n%s", diff)
		}
		city := map[string]json.RawMessage{"q": json.RawMessage(`{"city":"Bern"}`)}
		for _, tt := range []struct {
			filled *run.FilledForm
			want   string
		}{
			{
				&run.FilledForm{Form: want, Declined: true},
				`s {"p":{"action":"decline"},"q":{"action":"decline"}} {"a":1} tree.r-1-0`,
			},
			{
				&run.FilledForm{Form: want, Answers: city},
				`s {"p":{"action":"accept"},"q":{"action":"accept","content":{"city":"Bern"}}} {"a":1} tree.r-1-0`,
			},
		} {
			call := toolset.Call{Tool: "ask", Arguments: json.RawMessage(`{"a":1}`), Key: "tree.r-1-0"}
			call.Filled = tt.filled
			if res, err := open(t, def).Call(t.Context(), call); err != nil || res.Text != tt.want {
				t.Errorf("with the answers: %q, %v, want %q", res.Text, err, tt.want)
			}
		}
		half := &run.FilledForm{Form: want}
		_, err = open(t, def).Call(t.Context(), toolset.Call{Tool: "ask", Filled: half})
		if want := `the answer to "q" is no JSON object`; !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("without an answer: %v, want %q", err, want)
		}
	})
}

// rawServers runs a test with the raw server: over standard input and output,
// and over HTTP with a JSON answer and with a stream of events.
func rawServers(t *testing.T, test func(t *testing.T, s *Set)) {
	t.Helper()
	t.Run("stdio", func(t *testing.T) { test(t, open(t, program(t, "raw"))) })
	t.Run("json", func(t *testing.T) { test(t, open(t, service(t, rawHandler(false)))) })
	t.Run("events", func(t *testing.T) { test(t, open(t, service(t, rawHandler(true)))) })
}

// TestCallUnknownResult: a result without content for the model is an error,
// and not an empty result.
func TestCallUnknownResult(t *testing.T) {
	rawServers(t, func(t *testing.T, s *Set) {
		t.Helper()
		for result, want := range map[string]string{
			`{"resultType":"task","status":"working","pollIntervalMs":50}`:                  "an id of 0 bytes",
			`{"resultType":"task","taskId":7}`:                                              "a task that is malformed",
			`{"resultType":"parcel","content":[]}`:                                          `type "parcel"`,
			`{"resultType":"input_required","inputRequests":{},"requestState":"s"}`:         "called again later",
			`{"resultType":"input_required","inputRequests":{"k":{"method":"roots/list"}}}`: `input by "roots/list"`,
			`{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create",` +
				`"params":{"mode":"smoke","message":"?"}}}}`: `in the mode "smoke"`,
			`{"toolResult":"old"}`: "without content",
			`{"content":"text"}`:   "malformed",
		} {
			err := callError(t, s, "a", `{"result":`+result+`}`)
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want %q", result, err, want)
			}
		}
		if got := callText(t, s, "a", `{"result":{"content":[]}}`); got != "" {
			t.Errorf("text %q of an empty result, want none", got)
		}
	})
}

// TestCallContent: numbers and the order of keys of structured content reach
// the model as the server sent them, and a part of an unknown type is named.
func TestCallContent(t *testing.T) {
	rawServers(t, func(t *testing.T, s *Set) {
		t.Helper()
		for result, want := range map[string]string{
			`{"resultType":"complete","content":[],"structuredContent":{"z":1.50,"a":12345678901234567890}}`://
			`{"z":1.50,"a":12345678901234567890}`,
			`{"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}],"structuredContent":[1]}`://
			"one\n\ntwo",
			`{"content":[{"type":"hologram"}]}`://
			`[a part of the type "hologram", which axe does not know, is left out]`,
		} {
			if got := callText(t, s, "a", `{"result":`+result+`}`); got != want {
				t.Errorf("%s: text %s, want %s", result, got, want)
			}
		}
	})
}

// TestResultFiles: parts that are no text become files with unique names, and
// the text names each with its type and size.
func TestResultFiles(t *testing.T) {
	res, err := resultOf("draw/map", json.RawMessage(`{"content":[
		{"type":"text","text":"two maps"},
		{"type":"image","mimeType":"image/png","data":"AAEC"},
		{"type":"audio","mimeType":"audio/wav; rate=8000","data":"AAEC"},
		{"type":"resource","resource":{"uri":"file:///m.xyz","blob":"AAECAw=="}},
		{"type":"resource","resource":{"uri":"file:///n.txt","text":"a note"}},
		{"type":"resource_link","uri":"db://maps/3","name":"map 3","description":"the third map"}
	]}`))
	if err != nil {
		t.Fatal(err)
	}
	text := "two maps\n\n[file draw_map-1.png: image/png, 3 bytes]\n\n" +
		"[file draw_map-2.wav: audio/wav; rate=8000, 3 bytes]\n\n" +
		"[file draw_map-3.bin of file:///m.xyz: unknown type, 4 bytes]\n\n" +
		"[resource file:///n.txt]\na note\n\n" +
		`[link to db://maps/3, "map 3": the third map]`
	want := toolset.Result{Text: text, Files: []toolset.File{
		{Name: "draw_map-1.png", MediaType: "image/png", Bytes: []byte{0, 1, 2}},
		{Name: "draw_map-2.wav", MediaType: "audio/wav; rate=8000", Bytes: []byte{0, 1, 2}},
		{Name: "draw_map-3.bin", Bytes: []byte{0, 1, 2, 3}},
	}}
	if diff := cmp.Diff(want, res); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

// TestResultError: the error of a failed call has the text of all parts of its
// result.
func TestResultError(t *testing.T) {
	for raw, want := range map[string]string{
		`{"isError":true}`: "the tool failed, and gave no reason",
		`{"isError":true,"content":[],"structuredContent":{"code":7}}`: `{"code":7}`,
		`{"isError":true,"content":[{"type":"image","mimeType":"image/gif","data":""}]}`://
		"[file t-1.gif: image/gif, 0 bytes]",
	} {
		if _, err := resultOf("t", json.RawMessage(raw)); err == nil || err.Error() != want {
			t.Errorf("%s: error %v, want %q", raw, err, want)
		}
	}
}

// TestCallTooLarge: an answer over the limit is an error of its own call. The
// connection and another call on it go on.
func TestCallTooLarge(t *testing.T) {
	rawServers(t, func(t *testing.T, s *Set) {
		t.Helper()
		newServer := s.newServer
		s.newServer = func() server {
			made := newServer()
			switch made := made.(type) {
			case *process:
				made.limit = 1 << 20
			case *remote:
				made.HTTPClient.Transport.(*wire).limit = 1 << 20
			}
			return made
		}
		err := callError(t, s, "a", `{"size":1100000}`)
		if !errors.Is(err, errTooLarge) || errors.Is(err, toolset.ErrLost) {
			t.Errorf("error %v, want %v", err, errTooLarge)
		}
		if n := len(callText(t, s, "a", `{"size":1000000}`)); n != 1000000 {
			t.Errorf("%d bytes, want 1000000", n)
		}
		if s.connections != 1 {
			t.Errorf("%d connections, want 1", s.connections)
		}
	})
}

// TestHeaders: every request has the headers of the definition. Without them
// the server refuses the call.
func TestHeaders(t *testing.T) {
	inner := streamable(testServer(), false)
	def := service(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	def.Headers = map[string]string{"Authorization": "Bearer secret"}
	if got := callText(t, open(t, def), "echo", `{}`); got != "{} tree.r-1-0" {
		t.Errorf("text %q, want {} tree.r-1-0", got)
	}
	def.Headers = nil
	err := callError(t, open(t, def), "echo", `{}`)
	if !strings.Contains(err.Error(), "Unauthorized") {
		t.Errorf("error %v, want Unauthorized", err)
	}
}

// TestHeadersStay: a redirect to another host does not take the headers along.
func TestHeadersStay(t *testing.T) {
	other := service(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != "" {
			t.Error("the other host got the header")
		}
		rawHandler(false)(w, r)
	}))
	def := service(t, http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	def.Headers = map[string]string{"X-Key": "secret"}
	if got := callText(t, open(t, def), "a", `{"result":{"content":[{"type":"text","text":"here"}]}}`); got != "here" {
		t.Errorf("text %q, want here", got)
	}
}

// TestCallEndedContext: a call does not connect after the end of its context.
func TestCallEndedContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := open(t, program(t, "tools"))
	if _, err := s.Call(ctx, toolset.Call{Tool: "echo"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if s.connections != 0 {
		t.Errorf("%d connections, want 0", s.connections)
	}
}
