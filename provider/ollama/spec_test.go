package ollama_test

import "testing"

// These are the tests that 7.5 of axe's M5 specification names. The number in a
// sub-test's name is that of a requirement in 3.4, or in 3.1 for 1.N.
// cmd/testdata/spec.txt lists them. Exchange checks the whole request and the
// whole response. Has and Lacks check the part that a requirement is about.

// TestOllama_Send_WithTools: each tool of a request is sent as a function.
func TestOllama_Send_WithTools(t *testing.T) {
	x := subject().Exchange(t, "tool_call")
	x.Has("req 4.1 tools of type function", "sent.tools.0", `{
		"type": "function",
		"function": {
			"name": "call_agent",
			"description": "Delegate a task.",
			"parameters": {
				"type": "object",
				"properties": {
					"agent": {"type": "string", "description": "Who does it."},
					"task": {"type": "string", "description": "What to do."},
					"context": {"type": "string", "description": "What helps."}
				},
				"required": ["agent", "task"]
			}
		}
	}`)
	x.Has("req 4.1 every tool", "sent.tools.1.function.name", `"now"`)
}

func TestOllama_Send_WithoutTools(t *testing.T) {
	subject().Exchange(t, "defaults").Lacks("req 1.8, 4.2 nil", "sent.tools")
	subject().Exchange(t, "empty_tools").Lacks("req 1.8, 4.2 empty", "sent.tools")
}

func TestOllama_Send_ToolCallResponse(t *testing.T) {
	x := subject().Exchange(t, "tool_calls")
	x.Has("req 4.3 the first id", "got.tool_calls.0.id", `"ollama_0"`)
	x.Has("req 4.3 the last id", "got.tool_calls.3.id", `"ollama_3"`)
	x.Has("req 4.3 name", "got.tool_calls.0.name", `"call_agent"`)
	x.Has("req 4.3 values as strings", "got.tool_calls.2.arguments",
		`{"agent": "c", "deep": "{\"n\": [12345678901234567890, 1.50]}"}`)
	x = subject().Exchange(t, "tool_call")
	x.Has("req 4.3 arguments", "got.tool_calls.0.arguments", `{"agent": "reviewer", "task": "look at it"}`)
}

func TestOllama_Send_NoToolCallsWithTools(t *testing.T) {
	x := subject().Exchange(t, "tools_ignored")
	x.Has("req 4.6 tools were sent", "sent.tools.0.function.name", `"call_agent"`)
	x.Has("req 4.6 a text", "got.content", `"Fine."`)
	x.Has("req 4.6 no calls", "got.tool_calls", `null`)
}

func TestOllama_Send_ToolResultMessage(t *testing.T) {
	x := subject().Exchange(t, "history")
	x.Has("req 4.4 one result", "sent.messages.2", `{"role": "tool", "content": "done"}`)
	x.Has("req 4.4 the first of two", "sent.messages.4", `{"role": "tool", "content": ""}`)
	x.Has("req 4.4 the second, an error", "sent.messages.5", `{"role": "tool", "content": "no such agent"}`)
}

func TestOllama_Send_AssistantToolCallMessage(t *testing.T) {
	x := subject().Exchange(t, "history")
	x.Has("req 4.5 text and tool_calls", "sent.messages.1", `{
		"role": "assistant", "content": "I ask one.",
		"tool_calls": [{"function": {"name": "call_agent", "arguments": {"agent": "a", "task": "b"}}}]
	}`)
	x.Has("req 4.5 no arguments are {}", "sent.messages.3.tool_calls.0.function.arguments", `{}`)
}

func TestOllama_Send_ToolsStopReason(t *testing.T) {
	subject().Exchange(t, "tool_call").Has("req 1.9 tool_calls", "got.stop_reason", `"tool_calls"`)
}
