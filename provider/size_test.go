package provider_test

import (
	"testing"

	"github.com/axebus/axe/provider"
)

// TestRequestBytes: all text counts, and behind the model's last answer only
// what is new.
func TestRequestBytes(t *testing.T) {
	t.Parallel()
	call := provider.NewToolCall("1", "look", []byte(`{"at":"x"}`))
	req := provider.Request{System: "1234", Messages: []provider.Message{
		{Role: provider.User, Content: "12345678"},
	}}
	if all, fresh := req.Bytes(), req.NewBytes(); all != 12 || fresh != 8 {
		t.Errorf("first turn: %d bytes, %d new", all, fresh)
	}
	req.Messages = append(
		req.Messages,
		provider.Message{Role: provider.Assistant, Content: "12", ToolCalls: []provider.ToolCall{call}},
		provider.Message{Role: provider.ToolRole, ToolResults: []provider.ToolResult{{Content: "123"}, {Content: "1"}}},
		provider.Message{Role: provider.User, Content: "12345"},
	)
	if all, fresh := req.Bytes(), req.NewBytes(); all != 12+2+len(`look{"at":"x"}`)+4+5 || fresh != 4+5 {
		t.Errorf("second turn: %d bytes, %d new", all, fresh)
	}
	before := req.Bytes()
	req.Tools = []provider.Tool{{Name: "look"}}
	if req.Bytes() <= before {
		t.Error("tools have no size")
	}
}
