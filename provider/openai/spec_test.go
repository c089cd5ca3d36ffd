package openai_test

import (
	"strconv"
	"testing"
)

// These are the tests that 7.4 of axe's M5 specification names. The number in a
// sub-test's name is that of a requirement in 3.3, or in 3.1 for 1.N.
// cmd/testdata/spec.txt lists them. Exchange checks the whole request and the
// whole response. Has and Lacks check the part that a requirement is about.

// TestOpenAI_Send_WithTools: each tool of a request is sent as a function.
func TestOpenAI_Send_WithTools(t *testing.T) {
	x := subject().Exchange(t, "tool_call")
	x.Has("req 3.1 tools of type function", "sent.tools.0", `{
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
	x.Has("req 3.1 every tool", "sent.tools.1.function.name", `"now"`)
}

func TestOpenAI_Send_WithoutTools(t *testing.T) {
	subject().Exchange(t, "defaults").Lacks("req 1.8, 3.2 nil", "sent.tools")
	subject().Exchange(t, "empty_tools").Lacks("req 1.8, 3.2 empty", "sent.tools")
}

func TestOpenAI_Send_ToolCallResponse(t *testing.T) {
	x := subject().Exchange(t, "tool_call")
	x.Has("req 3.3 id", "got.tool_calls.0.id", `"call_1"`)
	x.Has("req 3.3 name", "got.tool_calls.0.name", `"call_agent"`)
	x.Has("req 3.3 arguments", "got.tool_calls.0.arguments", `{"agent": "reviewer", "task": "look at it"}`)
	x = subject().Exchange(t, "tool_calls")
	x.Has("req 3.3 every call, in order", "got.tool_calls.2.id", `"call_3"`)
	x.Has("req 3.3 values as strings", "got.tool_calls.2.arguments",
		`{"agent": "c", "deep": "{\"n\": [12345678901234567890, 1.50]}"}`)
}

func TestOpenAI_Send_ToolCallNullContent(t *testing.T) {
	for name, fixture := range map[string]string{"null": "tool_call", "empty": "odd_arguments", "absent": "lossless"} {
		x := subject().Exchange(t, fixture)
		x.Has("req 3.5 content is "+name, "got.content", `""`)
		x.Has("req 3.5 and there are calls beside "+name, "got.tool_calls.0.id", `"call_1"`)
	}
}

func TestOpenAI_Send_ToolResultMessage(t *testing.T) {
	x := subject().Exchange(t, "history")
	x.Has("req 3.6 one result", "sent.messages.2", `{"role": "tool", "tool_call_id": "id_0", "content": "done"}`)
	x.Has("req 3.6 the first of two", "sent.messages.4", `{"role": "tool", "tool_call_id": "id_0", "content": ""}`)
	x.Has("req 3.6 the second, an error", "sent.messages.5",
		`{"role": "tool", "tool_call_id": "id_1", "content": "no such agent"}`)
}

func TestOpenAI_Send_AssistantToolCallMessage(t *testing.T) {
	x := subject().Exchange(t, "history")
	x.Has("req 3.7 text and tool_calls", "sent.messages.1", `{
		"role": "assistant", "content": "I ask one.", "tool_calls": [{"id": "id_0", "type": "function", "function": {
			"name": "call_agent", "arguments": "{\"agent\":\"a\",\"task\":\"b\"}"
		}}]
	}`)
	x.Has("req 3.7 no text is null", "sent.messages.3.content", `null`)
	x.Has("req 3.7 no arguments are {}", "sent.messages.3.tool_calls.0.function.arguments", `"{}"`)
}

func TestOpenAI_Send_InvalidToolCallArguments(t *testing.T) {
	x := subject().Exchange(t, "odd_arguments")
	for i, text := range []string{"a list", "cut off", "nothing", "null"} {
		call := "got.tool_calls." + strconv.Itoa(i)
		x.Has("req 3.4 no arguments from "+text, call+".arguments", `{}`)
		x.Has("req 3.4 but a name beside "+text, call+".name", `"call_agent"`)
	}
}

func TestOpenAI_Send_ToolsStopReason(t *testing.T) {
	subject().Exchange(t, "tool_call").Has("req 1.9 tool_calls", "got.stop_reason", `"tool_calls"`)
}
