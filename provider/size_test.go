package provider_test

import (
	"testing"

	"github.com/axebus/axe/provider"
)

// TestRequestBytes: Bytes counts all texts and the tools of a request. NewBytes
// counts the messages after the model's last answer.
func TestRequestBytes(t *testing.T) {
	t.Parallel()
	call := provider.NewToolCall("1", "look", []byte(`{"at":"x"}`))
	req := provider.Request{System: "1234", Messages: []provider.Message{
		{Role: provider.User, Content: "12345678"},
	}}
	if all, fresh := req.Bytes(), req.NewBytes(); all != 4+8 || fresh != 8 {
		t.Errorf("first turn: %d bytes, %d new; want 12 and 8", all, fresh)
	}
	req.Messages = append(
		req.Messages,
		provider.Message{Role: provider.Assistant, Content: "12", ToolCalls: []provider.ToolCall{call}},
		provider.Message{Role: provider.ToolRole, ToolResults: []provider.ToolResult{{Content: "123"}, {Content: "1"}}},
		provider.Message{Role: provider.User, Content: "12345"},
	)
	const results, text = 3 + 1, 5
	want := 4 + 8 + 2 + len(`look{"at":"x"}`) + results + text
	if all, fresh := req.Bytes(), req.NewBytes(); all != want || fresh != results+text {
		t.Errorf("second turn: %d bytes, %d new; want %d and %d", all, fresh, want, results+text)
	}
	req.Tools = []provider.Tool{{Name: "look"}}
	if all := req.Bytes(); all <= want {
		t.Errorf("with a tool: %d bytes, want more than %d", all, want)
	}
}
