package ollama

import (
	"encoding/json"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/internal/wire"
)

type request struct {
	Model    string          `json:"model"`
	Messages []message       `json:"messages"`
	Tools    []wire.Function `json:"tools,omitempty"`
	Options  options         `json:"options,omitzero"`
	// Stream is always false. Without the field, Ollama streams.
	Stream bool `json:"stream"`
}

type options struct {
	Temperature *float64 `json:"temperature,omitempty"`
	NumPredict  int      `json:"num_predict,omitempty"`
}

type message struct {
	Role      provider.Role `json:"role"`
	Content   string        `json:"content"`
	ToolCalls []call        `json:"tool_calls,omitempty"`
}

type call struct {
	Function function `json:"function"`
}

type function struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

func newRequest(req *provider.Request) request {
	settings := options{Temperature: req.Temperature, NumPredict: req.MaxTokens}
	r := request{Model: req.Model, Messages: []message{}, Tools: wire.Functions(req.Tools), Options: settings}
	if req.System != "" {
		r.Messages = append(r.Messages, message{Role: "system", Content: req.System})
	}
	for _, m := range req.Messages {
		r.Messages = append(r.Messages, messagesOf(m)...)
	}
	return r
}

// messagesOf returns one message, or one for each tool result.
func messagesOf(m provider.Message) (out []message) {
	if m.Role == provider.ToolRole {
		for _, r := range m.ToolResults {
			out = append(out, message{Role: m.Role, Content: r.Content})
		}
		return out
	}
	var calls []call
	for _, c := range m.ToolCalls {
		calls = append(calls, call{Function: function{Name: c.Name, Arguments: c.RawArguments()}})
	}
	return []message{{Role: m.Role, Content: m.Content, ToolCalls: calls}}
}
