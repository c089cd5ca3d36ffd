package providertest

import (
	"bytes"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
)

const model = "family/model-1" // a model's name may hold slashes

// requests are what is sent, by the name of the fixture.
func requests() map[string]*provider.Request {
	return map[string]*provider.Request{
		"text": {
			Model: model, System: "Be brief.", Messages: said("Hello?"),
			Temperature: new(0.2), MaxTokens: 100,
		},
		"zero_temperature": {Model: model, Messages: said("Hello?"), Temperature: new(0.0)},
		"defaults":         hello(),
		"silence":          hello(),
		"tool_call":        {Model: model, Messages: said("Ask the reviewer."), Tools: tools()},
		"tool_calls":       {Model: model, Messages: said("Ask everybody."), Tools: tools()},
		"tools_ignored":    {Model: model, Messages: said("Ask nobody."), Tools: tools()},
		"odd_arguments":    {Model: model, Messages: said("Ask badly."), Tools: tools()},
		"history":          {Model: model, Messages: history(), Tools: tools()},
		"unicode":          {Model: model, System: "<b>&amp; é 😀 \u2028</b>", Messages: unicode()},
		"lossless":         {Model: model, Messages: numbers()},
	}
}

func hello() *provider.Request {
	return &provider.Request{Model: model, Messages: said("Hello?")}
}

func said(text string) []provider.Message {
	return []provider.Message{{Role: provider.User, Content: text}}
}

func tools() []provider.Tool {
	return []provider.Tool{
		{Name: "call_agent", Description: "Delegate a task.", Parameters: map[string]provider.ToolParameter{
			"task":    {Type: "string", Description: "What to do.", Required: true},
			"agent":   {Type: "string", Description: "Who does it.", Required: true},
			"context": {Type: "string", Description: "What helps."},
		}},
		{Name: "now", Description: "Tell the time."},
	}
}

// history holds every kind of message; ids repeat from turn to turn, as Ollama's do.
func history() []provider.Message {
	return []provider.Message{
		{Role: provider.User, Content: "Ask."},
		{Role: provider.Assistant, Content: "I ask one.", ToolCalls: []provider.ToolCall{
			provider.NewToolCall("id_0", "call_agent", []byte(`{"agent":"a","task":"b"}`)),
		}},
		{Role: provider.ToolRole, Content: "never sent", ToolResults: []provider.ToolResult{{CallID: "id_0", Content: "done"}}},
		{Role: provider.Assistant, ToolCalls: []provider.ToolCall{
			provider.NewToolCall("id_0", "now", nil),
			{ID: "id_1", Name: "call_agent", Arguments: map[string]string{"task": "d", "agent": "c"}},
		}},
		{Role: provider.ToolRole, ToolResults: []provider.ToolResult{
			{CallID: "id_0", Content: ""},
			{CallID: "id_1", Content: "no such agent", IsError: true},
		}},
		{Role: provider.User, Content: "And now?"},
		{Role: provider.Assistant, Content: "Nothing."},
		{Role: provider.User, Content: "Go on."},
	}
}

func unicode() []provider.Message {
	return []provider.Message{
		{Role: provider.User, Content: "日本語 \"quoted\" \\ \n\t \u0001 <script>"},
		{Role: provider.Assistant, ToolCalls: []provider.ToolCall{
			provider.NewToolCall("id_0", "call_agent", []byte(`{"task":"<é> & \u00e9 😀"}`)),
		}},
		{Role: provider.ToolRole, ToolResults: []provider.ToolResult{{CallID: "id_0", Content: "👩‍👩‍👧 ≤ </tag>"}}},
	}
}

func numbers() []provider.Message {
	const arguments = `{"n": 12345678901234567890, "f": 1.50, "e": -1e-7, "o": {"b": [1, {"c": null}], "a": "x"}}`
	return []provider.Message{
		{Role: provider.User, Content: "Count."},
		{Role: provider.Assistant, ToolCalls: []provider.ToolCall{provider.NewToolCall("id_0", "count", []byte(arguments))}},
		{Role: provider.ToolRole, ToolResults: []provider.ToolResult{{CallID: "id_0", Content: "counted"}}},
	}
}

func (s Subject) exchanges(t *testing.T) {
	for name, req := range requests() {
		t.Run(name, func(t *testing.T) {
			f := s.fixture(t, name)
			p := s.serve(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
				sameJSON(t, f.Sent, body)
				if bytes.Contains(body, []byte(`\u003c`)) {
					t.Error("escaped as if for HTML")
				}
				_, _ = w.Write(f.Answer)
			})
			if diff := cmp.Diff(&f.Want, send(t, p, req)); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

// ownClient: without an http.Client the provider brings one.
func (s Subject) ownClient(t *testing.T) {
	f := s.fixture(t, "defaults")
	open := s.New
	s.New = func(base string, _ *http.Client) provider.Provider { return open(base, nil) }
	p := s.serve(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) { _, _ = w.Write(f.Answer) })
	if diff := cmp.Diff(&f.Want, send(t, p, hello())); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

// sameBytes: prompt caches miss when a definition's parameters move.
func (s Subject) sameBytes(t *testing.T) {
	f := s.fixture(t, "history")
	var first []byte
	p := s.serve(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
		if first == nil {
			first = body
		}
		if !bytes.Equal(first, body) {
			t.Errorf("first\n%s\nthen\n%s", first, body)
		}
		_, _ = w.Write(f.Answer)
	})
	for range 20 {
		send(t, p, requests()["history"])
	}
}

// large sends and receives a text of several MiB.
func (s Subject) large(t *testing.T) {
	const placeholder = "LARGE"
	text := strings.Repeat("0123456789abcde\n", 1<<18)
	f := s.fixture(t, "large")
	grow := func(b []byte) []byte {
		return bytes.ReplaceAll(b, []byte(placeholder), []byte(strings.ReplaceAll(text, "\n", `\n`)))
	}
	p := s.serve(t, func(w http.ResponseWriter, _ *http.Request, body []byte) {
		sameJSON(t, grow(f.Sent), body)
		_, _ = w.Write(grow(f.Answer))
	})
	resp := send(t, p, &provider.Request{Model: model, Messages: said(text)})
	if want := strings.ReplaceAll(f.Want.Content, placeholder, text); resp.Content != want {
		t.Errorf("got %d bytes, want %d", len(resp.Content), len(want))
	}
}

// concurrent: one provider serves all runs of a worker. The race detector watches.
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
			} else if diff := cmp.Diff(&f.Want, resp); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
	wg.Wait()
}
