package ollama

import (
	"encoding/json"
	"errors"
	"strconv"

	"github.com/axebus/axe/provider"
)

type answer struct {
	Model      string   `json:"model"`
	Message    *message `json:"message"`
	DoneReason string   `json:"done_reason"`
	Prompt     int      `json:"prompt_eval_count"`
	Eval       int      `json:"eval_count"`
}

// Response implements wire.Answer.
func (a *answer) Response() (*provider.Response, error) {
	if a.Message == nil {
		return nil, errors.New("no message")
	}
	usage := provider.Usage{InputTokens: a.Prompt, OutputTokens: a.Eval}
	r := &provider.Response{Content: a.Message.Content, Model: a.Model, StopReason: a.DoneReason, Usage: usage}
	for i, c := range a.Message.ToolCalls {
		id := "ollama_" + strconv.Itoa(i)
		r.ToolCalls = append(r.ToolCalls, provider.NewToolCall(id, c.Function.Name, object(c.Function.Arguments)))
	}
	if len(r.ToolCalls) > 0 {
		r.StopReason = "tool_calls" // Ollama sends "stop"
	}
	return r, nil
}

// object returns arguments as an object. Some model templates produce the
// object as a JSON string.
func object(raw json.RawMessage) []byte {
	var s string
	if json.Unmarshal(raw, &s) == nil && s != "" {
		return []byte(s)
	}
	return raw
}
