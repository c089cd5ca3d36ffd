package anthropic_test

import "testing"

// These are the tests that 7.3 of axe's M5 specification names. The number in a
// sub-test's name is that of a requirement in 3.2, or in 3.1 for 1.N.
// cmd/testdata/spec.txt lists them. Exchange checks the whole request and the
// whole response. Has and Lacks check the part that a requirement is about.

// TestAnthropic_Send_WithTools: each tool of a request is sent with its schema.
func TestAnthropic_Send_WithTools(t *testing.T) {
	x := subject().Exchange(t, "tool_call")
	x.Has("req 2.1 tools with an input_schema", "sent.tools.0", `{
		"name": "call_agent",
		"description": "Delegate a task.",
		"input_schema": {
			"type": "object",
			"properties": {
				"agent": {"type": "string", "description": "Who does it."},
				"task": {"type": "string", "description": "What to do."},
				"context": {"type": "string", "description": "What helps."}
			},
			"required": ["agent", "task"]
		}
	}`)
	x.Has("req 2.2 required parameters, sorted", "sent.tools.0.input_schema.required", `["agent", "task"]`)
	x.Has("req 2.2 a tool without parameters", "sent.tools.1.input_schema", `{"type": "object", "properties": {}}`)
}

func TestAnthropic_Send_WithoutTools(t *testing.T) {
	subject().Exchange(t, "defaults").Lacks("req 1.8, 2.3 nil", "sent.tools")
	subject().Exchange(t, "empty_tools").Lacks("req 1.8, 2.3 empty", "sent.tools")
}

func TestAnthropic_Send_ToolCallResponse(t *testing.T) {
	x := subject().Exchange(t, "tool_call")
	x.Has("req 2.4 id", "got.tool_calls.0.id", `"toolu_1"`)
	x.Has("req 2.4 name", "got.tool_calls.0.name", `"call_agent"`)
	x.Has("req 2.4 arguments", "got.tool_calls.0.arguments", `{"agent": "reviewer", "task": "look at it"}`)
	x = subject().Exchange(t, "tool_calls")
	x.Has("req 2.4 every block, in order", "got.tool_calls.2.id", `"toolu_3"`)
	x.Has("req 2.4 values as strings", "got.tool_calls.2.arguments",
		`{"agent": "c", "deep": "{\"n\": [12345678901234567890, 1.50]}"}`)
}

func TestAnthropic_Send_ToolCallWithText(t *testing.T) {
	x := subject().Exchange(t, "tool_calls")
	x.Has("req 2.5 the text of all blocks", "got.content", `"I ask everybody."`)
	x.Has("req 2.5 the calls beside the text", "got.tool_calls.1.name", `"now"`)
}

func TestAnthropic_Send_ToolCallNoText(t *testing.T) {
	x := subject().Exchange(t, "tool_call")
	x.Has("req 2.5 no text", "got.content", `""`)
	x.Has("req 2.5 the call without a text", "got.tool_calls.0.name", `"call_agent"`)
}

func TestAnthropic_Send_ToolResultMessage(t *testing.T) {
	x := subject().Exchange(t, "history")
	x.Has("req 2.6 tool_result in a user message", "sent.messages.2", `{"role": "user", "content": [
		{"type": "tool_result", "tool_use_id": "id_0", "content": "done", "is_error": false}
	]}`)
	x.Has("req 2.6 several results, errors among them", "sent.messages.4", `{"role": "user", "content": [
		{"type": "tool_result", "tool_use_id": "id_0", "content": "", "is_error": false},
		{"type": "tool_result", "tool_use_id": "id_1", "content": "no such agent", "is_error": true}
	]}`)
}

func TestAnthropic_Send_AssistantToolCallMessage(t *testing.T) {
	x := subject().Exchange(t, "history")
	x.Has("req 2.7 text and tool_use", "sent.messages.1", `{"role": "assistant", "content": [
		{"type": "text", "text": "I ask one."},
		{"type": "tool_use", "id": "id_0", "name": "call_agent", "input": {"agent": "a", "task": "b"}}
	]}`)
	x.Has("req 2.7 no text block for an empty text", "sent.messages.3.content.0.type", `"tool_use"`)
	x.Has("req 2.7 a call without arguments has the input {}", "sent.messages.3.content.0.input", `{}`)
}

func TestAnthropic_Send_ToolsStopReason(t *testing.T) {
	subject().Exchange(t, "tool_call").Has("req 1.9 tool_use", "got.stop_reason", `"tool_use"`)
}
