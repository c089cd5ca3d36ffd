package openai

import (
	"encoding/json"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/internal/wire"
)

type request struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
	Tools               []wire.Function `json:"tools,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
}

type message struct {
	Role provider.Role `json:"role"`
	// Content is null only beside tool calls.
	Content    *string `json:"content"`
	ToolCalls  []call  `json:"tool_calls,omitempty"`
	ToolCallID string  `json:"tool_call_id,omitempty"`
}

type call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string    `json:"name"`
	Arguments arguments `json:"arguments"`
}

// arguments are JSON in a string. Some imitations send the object itself.
type arguments string

// UnmarshalJSON accepts both forms.
func (a *arguments) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(a))
	}
	*a = arguments(b)
	return nil
}

func newRequest(req *provider.Request) request {
	r := request{
		Model:       req.Model,
		Messages:    []message{},
		Tools:       wire.Functions(req.Tools),
		Temperature: req.Temperature,
		MaxTokens:   req.MaxTokens,
	}
	if req.System != "" {
		r.Messages = append(r.Messages, message{Role: "system", Content: &req.System})
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
			out = append(out, message{Role: m.Role, Content: &r.Content, ToolCallID: r.CallID})
		}
		return out
	}
	one := message{Role: m.Role, Content: &m.Content}
	if m.Content == "" && len(m.ToolCalls) > 0 {
		one.Content = nil
	}
	for _, c := range m.ToolCalls {
		f := function{Name: c.Name, Arguments: arguments(c.RawArguments())}
		one.ToolCalls = append(one.ToolCalls, call{ID: c.ID, Type: "function", Function: f})
	}
	return []message{one}
}
