package providertest

import "github.com/axebus/axe/provider"

// model has a slash, as the names of models may have.
const model = "family/model-1"

// requests returns the requests of the suite by the name of their fixture.
func requests() map[string]*provider.Request {
	return map[string]*provider.Request{
		"text": {
			Model: model, System: "Be brief.", Messages: userMessage("Hello?"),
			Temperature: new(0.2), MaxTokens: 100,
		},
		"zero_temperature": {Model: model, Messages: userMessage("Hello?"), Temperature: new(0.0)},
		"defaults":         hello(),
		"empty_tools":      {Model: model, Messages: userMessage("Hello?"), Tools: []provider.Tool{}},
		"silence":          hello(),
		"tool_call":        {Model: model, Messages: userMessage("Ask the reviewer."), Tools: tools()},
		"tool_calls":       {Model: model, Messages: userMessage("Ask everybody."), Tools: tools()},
		"tools_ignored":    {Model: model, Messages: userMessage("Ask nobody."), Tools: tools()},
		"odd_arguments":    {Model: model, Messages: userMessage("Ask badly."), Tools: tools()},
		"history":          {Model: model, Messages: history(), Tools: tools()},
		"unicode":          {Model: model, System: "<b>&amp; é 😀 \u2028</b>", Messages: unicode()},
		"lossless":         {Model: model, Messages: numbers()},
	}
}

func hello() *provider.Request {
	return &provider.Request{Model: model, Messages: userMessage("Hello?")}
}

func userMessage(text string) []provider.Message {
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

// history returns messages of every kind. Ids repeat in later turns, as those
// of Ollama do.
func history() []provider.Message {
	return []provider.Message{
		{Role: provider.User, Content: "Ask."},
		{Role: provider.Assistant, Content: "I ask one.", ToolCalls: []provider.ToolCall{
			provider.NewToolCall("id_0", "call_agent", []byte(`{"agent":"a","task":"b"}`)),
		}},
		{Role: provider.ToolRole, Content: "never sent", ToolResults: []provider.ToolResult{
			{CallID: "id_0", Content: "done"},
		}},
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
		{Role: provider.User, Content: "日本語 \"quoted\" \\ \n\t \u0001 <script> \x00 e\u0301 𝒳"},
		{Role: provider.Assistant, ToolCalls: []provider.ToolCall{
			provider.NewToolCall("id_0", "call_agent", []byte("{\"task\":\"<é> & \\u00e9 😀 \\u0000 e\u0301 𝒳\"}")),
		}},
		{Role: provider.ToolRole, ToolResults: []provider.ToolResult{{CallID: "id_0", Content: "👩‍👩‍👧 ≤ </tag>"}}},
	}
}

func numbers() []provider.Message {
	const arguments = `{"n": 12345678901234567890, "f": 1.50, "e": -1e-7, "o": {"b": [1, {"c": null}], "a": "x"}}`
	return []provider.Message{
		{Role: provider.User, Content: "Count."},
		{Role: provider.Assistant, ToolCalls: []provider.ToolCall{
			provider.NewToolCall("id_0", "count", []byte(arguments)),
		}},
		{Role: provider.ToolRole, ToolResults: []provider.ToolResult{{CallID: "id_0", Content: "counted"}}},
	}
}
