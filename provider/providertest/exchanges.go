package providertest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/axebus/axe/provider"
)

func (s Subject) exchanges(t *testing.T) {
	for name := range requests() {
		t.Run(name, func(t *testing.T) { s.Exchange(t, name) })
	}
}

// edgeCases tests the rows of table 5.1 of the specification.
func (s Subject) edgeCases(t *testing.T) {
	s.Exchange(t, "defaults").Lacks("5.1 row 1 Tools is nil", "sent.tools")
	s.Exchange(t, "empty_tools").Lacks("5.1 row 2 Tools is empty", "sent.tools")
	s.Exchange(t, "tools_ignored").Has("5.1 row 3 ToolCalls is nil in a text response", "got.tool_calls", `null`)
	s.Exchange(t, "tool_call").Has("5.1 row 5 tool calls and no text", "got.content", `""`)
	x := s.Exchange(t, "tool_calls")
	x.Has("5.1 row 4 text beside tool calls", "got.content", `"I ask everybody."`)
	x.Has("5.1 row 4 tool calls beside text", "got.tool_calls.0.name", `"call_agent"`)
	x.Has("5.1 row 6 empty arguments are an empty map", "got.tool_calls.1.arguments", `{}`)
	x.Has("5.1 row 7 an unknown tool is left to the dispatcher", "got.tool_calls.3.name", `"no_such_tool"`)
	x = s.Exchange(t, "silence")
	x.Has("5.6 row 7 neither text nor calls is an empty text", "got.content", `""`)
	x.Has("5.6 row 7 neither text nor calls is no call", "got.tool_calls", `null`)
}

// arguments tests that every value becomes a string and loses nothing.
func (s Subject) arguments(t *testing.T) {
	x := s.Exchange(t, "lossless")
	x.Has("as text", "got.tool_calls.0.arguments",
		`{"n": "12345678901234567890", "f": "1.50", "e": "-1e-7", "o": "{\"b\": [1, {\"c\": null}], \"a\": \"x\"}"}`)
	x.Has("as written", "got.tool_calls.0.raw",
		`"{\"n\": 12345678901234567890, \"f\": 1.50, \"e\": -1e-7, \"o\": {\"b\": [1, {\"c\": null}], \"a\": \"x\"}}"`)
	x = s.Exchange(t, "unicode")
	x.Has("unicode", "got.tool_calls.0.arguments", `{"task": "é <é> 😀 & \"\n \u0000 e\u0301 𝒳"}`)
}

// echo tests that a later request repeats the arguments of a call byte for
// byte, if the format has them in a string. As JSON inside JSON they lose only
// the white space between tokens.
func (s Subject) echo(t *testing.T) {
	for _, test := range []struct{ name, raw, want string }{
		{"order and spaces", `{"task": "b","agent":  "a"}`, ""},
		{"lines", "{\n\t\"z\" : [ 1 , 2 ] ,\r\n \"a\" : { } }", ""},
		{"around", " {} ", ""},
		{"numbers", `{"n":12345678901234567890,"f":1.50,"e":-1E-7}`, ""},
		{"escapes", `{"t":"\u00e9 é \ud83d\ude00 \/ <&> \u0000 \t"}`, ""},
		{"characters", "{\"t\":\"\u2028 e\u0301 𝒳\"}", ""},
		{"equal keys", `{"a":1,"a":2}`, ""},
		{"null in it", `{"a":null}`, ""},
		{"empty", `{}`, ""},
		{"nothing", ``, `{}`},
		{"null", `null`, `{}`},
		{"a list", `[1]`, `{}`},
		{"cut off", `{"agent":`, `{}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := cmp.Or(test.want, test.raw)
			got := s.sentArguments(t, provider.NewToolCall("id_0", "call_agent", []byte(test.raw)))
			var text string
			if json.Unmarshal(got, &text) != nil {
				var b bytes.Buffer
				if err := json.Compact(&b, []byte(want)); err != nil {
					t.Fatal(err)
				}
				text, want = string(got), b.String()
			}
			if text != want {
				t.Errorf("sent %s, want %s", text, want)
			}
		})
	}
}

// sentArguments returns the arguments of a call in the history, as sent.
func (s Subject) sentArguments(t *testing.T, c provider.ToolCall) json.RawMessage {
	t.Helper()
	recorder := &Recorder{Status: http.StatusOK, Answer: string(s.fixture(t, "defaults").Answer)}
	req := &provider.Request{Model: model, Messages: []provider.Message{
		{Role: provider.Assistant, ToolCalls: []provider.ToolCall{c}},
		{Role: provider.ToolRole, ToolResults: []provider.ToolResult{{CallID: c.ID}}},
	}}
	send(t, s.open("", &http.Client{Transport: recorder}), req)
	arguments, ok := lookup(json.RawMessage(recorder.Sent), s.Arguments)
	if !ok {
		t.Fatalf("nothing at %s in %s", s.Arguments, recorder.Sent)
	}
	return arguments
}

// ownClient tests a provider without an http.Client, which makes its own.
func (s Subject) ownClient(t *testing.T) {
	open := s.New
	s.New = func(key, base string, _ *http.Client) provider.Provider { return open(key, base, nil) }
	s.Exchange(t, "defaults")
}

// sameBytes tests that equal requests have equal bytes, which prompt caches
// need. Each request is made anew, because Go ranges over a map in another
// order each time.
func (s Subject) sameBytes(t *testing.T) {
	recorder := &Recorder{Status: http.StatusOK, Answer: string(s.fixture(t, "history").Answer)}
	p := s.open("", &http.Client{Transport: recorder})
	first := ""
	for range 100 {
		send(t, p, requests()["history"])
		first = cmp.Or(first, recorder.Sent)
		if recorder.Sent != first {
			t.Fatalf("first\n%s\nthen\n%s", first, recorder.Sent)
		}
	}
}

// large sends and receives a text of several MiB.
func (s Subject) large(t *testing.T) {
	const placeholder = "LARGE"
	text := strings.Repeat("0123456789abcde\n", 1<<18)
	encoded := []byte(strings.ReplaceAll(text, "\n", `\n`))
	f := s.fixture(t, "large")
	answer := bytes.ReplaceAll(f.Answer, []byte(placeholder), encoded)
	p := s.serve(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
		sameJSON(t, f.Sent, bytes.ReplaceAll(body, encoded, []byte(placeholder)))
		_, _ = w.Write(answer)
	})
	resp := send(t, p, &provider.Request{Model: model, Messages: userMessage(text)})
	if want := strings.ReplaceAll(f.Want.Content, placeholder, text); resp.Content != want {
		t.Errorf("got %d bytes, want %d", len(resp.Content), len(want))
	}
}

// concurrent tests parallel requests under the race detector. One provider
// serves all runs of a worker.
func (s Subject) concurrent(t *testing.T) {
	f := s.fixture(t, "tool_calls")
	p := s.serve(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
		sameJSON(t, f.Sent, body)
		_, _ = w.Write(f.Answer)
	})
	req := requests()["tool_calls"]
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			resp, err := p.Send(t.Context(), req)
			if err != nil {
				t.Error(err)
			} else {
				f.check(t, resp)
			}
		})
	}
	wg.Wait()
}

// connections tests that a connection is used again after each kind of answer.
func (s Subject) connections(t *testing.T) {
	const limit = 2
	CheckConnections(t, limit, string(s.fixture(t, "defaults").Answer), func(base string) provider.Provider {
		return s.open(base, &http.Client{Transport: &http.Transport{MaxConnsPerHost: limit}})
	})
}
