package provider

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// These are the types of axe's M5 specification, 3.1. The declarations do not
// compile if a field is missing or has another type.
var (
	// req 1.1
	_ = Tool{Name: string(""), Description: string(""), Parameters: map[string]ToolParameter(nil)}
	// req 1.2
	_ = ToolParameter{Type: string(""), Description: string(""), Required: bool(false)}
	// req 1.3
	_ = ToolCall{ID: string(""), Name: string(""), Arguments: map[string]string(nil)}
	// req 1.4
	_ = ToolResult{CallID: string(""), Content: string(""), IsError: bool(false)}
	// req 1.5
	_ = Request{Model: string(""), System: string(""), Messages: []Message(nil), Tools: []Tool(nil)}
	// req 1.6
	_ = Response{Content: string(""), Model: string(""), StopReason: string(""), ToolCalls: []ToolCall{}}
	// req 1.7
	_ = Message{Role: "tool", Content: string(""), ToolCalls: []ToolCall(nil), ToolResults: []ToolResult{}}
	_ = [...]int{Response{}.InputTokens, Response{}.OutputTokens, Request{}.MaxTokens}
)

// The specification names the tests below in 7.2.

func TestTool_ZeroValue(t *testing.T) {
	t.Run("req 1.1", func(t *testing.T) {
		if tool := (Tool{}); tool.Name != "" || tool.Description != "" || tool.Parameters != nil {
			t.Errorf("got %+v, want zero fields", tool)
		}
	})
	t.Run("req 1.2", func(t *testing.T) {
		if p := (ToolParameter{}); p.Type != "" || p.Description != "" || p.Required {
			t.Errorf("got %+v, want zero fields", p)
		}
	})
}

func TestToolCall_ZeroValue(t *testing.T) {
	t.Run("req 1.3", func(t *testing.T) {
		if c := (ToolCall{}); c.ID != "" || c.Name != "" || c.Arguments != nil || c.Raw != nil {
			t.Errorf("got %+v, want zero fields", c)
		}
	})
}

func TestToolResult_ZeroValue(t *testing.T) {
	t.Run("req 1.4", func(t *testing.T) {
		if r := (ToolResult{}); r.CallID != "" || r.Content != "" || r.IsError {
			t.Errorf("got %+v, want zero fields", r)
		}
	})
}

func TestRequest_NilTools_BackwardsCompatible(t *testing.T) {
	const want = `{"model":"m","messages":[{"role":"user","content":"Hello?"}]}`
	for name, tools := range map[string][]Tool{"req 1.5, 1.8 nil": nil, "req 1.5, 1.8 empty": {}} {
		t.Run(name, func(t *testing.T) {
			messages := []Message{{Role: "user", Content: "Hello?"}}
			got, err := json.Marshal(Request{Model: "m", Messages: messages, Tools: tools})
			if err != nil || string(got) != want {
				t.Errorf("got %s, %v; want %s", got, err, want)
			}
		})
	}
}

func TestResponse_NilToolCalls_BackwardsCompatible(t *testing.T) {
	resp := Response{Content: "Hello.", StopReason: "end_turn"}
	t.Run("req 1.6", func(t *testing.T) {
		if len(resp.ToolCalls) != 0 {
			t.Errorf("got %+v, want no tool calls", resp)
		}
	})
	t.Run("req 1.8", func(t *testing.T) {
		const want = `{"content":"Hello.","stop_reason":"end_turn","input_tokens":0,"output_tokens":0}`
		if got, err := json.Marshal(resp); err != nil || string(got) != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	})
}

func TestMessage_ToolCallsField(t *testing.T) {
	keeps(t, "req 1.7 tool calls without text", Message{Role: Assistant, ToolCalls: []ToolCall{
		NewToolCall("1", "call_agent", []byte(`{"agent":"a","n":1}`)),
		NewToolCall("2", "now", nil),
	}})
	calls := []ToolCall{NewToolCall("1", "now", []byte(`{}`))}
	keeps(t, "req 1.7 tool calls and text", Message{Role: "assistant", Content: "I ask.", ToolCalls: calls})
}

func TestMessage_ToolResultsField(t *testing.T) {
	keeps(t, "req 1.7 tool results", Message{Role: "tool", ToolResults: []ToolResult{
		{CallID: "1", Content: "done"},
		{CallID: "2", Content: "broken", IsError: true},
	}})
	if ToolRole != "tool" {
		t.Errorf("req 1.7: role %q, want tool", ToolRole)
	}
}

// keeps runs a test for a requirement. A message must be the same after it was
// stored as JSON and read again.
func keeps(t *testing.T, requirement string, m Message) {
	t.Helper()
	t.Run(requirement, func(t *testing.T) {
		stored, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var back Message
		if err := json.Unmarshal(stored, &back); err != nil {
			t.Fatal(err)
		}
		// The arguments of a call without arguments are stored as {}.
		for i, c := range m.ToolCalls {
			m.ToolCalls[i].Raw = c.RawArguments()
		}
		if diff := cmp.Diff(m, back); diff != "" {
			t.Errorf("message (-stored +back):\n%s", diff)
		}
	})
}
