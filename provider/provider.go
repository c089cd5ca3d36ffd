// Package provider defines the interface between a worker and a language model:
// messages, tools, requests, responses, and errors with a category. It knows no
// wire format and does not import net/http. The packages anthropic, openai and
// ollama have the wire formats, and pass the suite in providertest.
//
// A Response holds text, tool calls, or both. ToolCalls alone says whether the
// model called tools. StopReason decides nothing but Truncated.
package provider

import (
	"context"
	"encoding/json"
	"slices"
)

// Provider sends one request to a model and returns the complete answer. Send
// is safe for concurrent use. It returns an *Error for each failure of the
// model or of the connection to it.
//
// Send returns promptly when ctx ends, with the error of ContextError.
type Provider interface {
	Send(ctx context.Context, req *Request) (*Response, error)
}

// Role names the speaker of a Message.
type Role string

// The roles of a conversation. System text has no role: it is Request.System.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Request is one request to a model.
type Request struct {
	// Model is the model's name without the provider's name before it.
	Model    string    `json:"model"`
	System   string    `json:"system,omitzero"`
	Messages []Message `json:"messages"`
	// Tools are the tools that the model may call. Providers leave an empty
	// list out.
	Tools []Tool `json:"tools,omitempty"`
	// Temperature is for sampling. Nil stands for the provider's default.
	Temperature *float64 `json:"temperature,omitzero"`
	// MaxTokens bounds the answer. 0 stands for the provider's default.
	MaxTokens int `json:"max_tokens,omitzero"`
}

// Message is one message of a conversation. An Assistant message may carry
// ToolCalls. A ToolRole message carries ToolResults, and providers ignore its
// Content.
type Message struct {
	Role        Role         `json:"role"`
	Content     string       `json:"content,omitzero"`
	ToolCalls   []ToolCall   `json:"tool_calls,omitempty"`
	ToolResults []ToolResult `json:"tool_results,omitempty"`
}

// Response is a model's complete answer.
type Response struct {
	Content string `json:"content,omitzero"`
	// Model is the name that the provider reported.
	Model      string     `json:"model,omitzero"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	StopReason string     `json:"stop_reason,omitzero"`
	Usage
}

// Truncated reports whether the answer was cut at MaxTokens, or at the end of
// the model's context window. "length" is a stop reason of OpenAI and
// Ollama. The others are Anthropic's.
func (r *Response) Truncated() bool {
	return slices.Contains([]string{"length", "max_tokens", "model_context_window_exceeded"}, r.StopReason)
}

// Usage counts the tokens of one or more responses.
type Usage struct {
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
	// CachedTokens is the part of InputTokens read from a prompt cache.
	CachedTokens int `json:"cached_tokens,omitzero"`
}

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{u.InputTokens + v.InputTokens, u.OutputTokens + v.OutputTokens, u.CachedTokens + v.CachedTokens}
}

// Tool is a definition offered to the model.
type Tool struct {
	Name        string                   `json:"name"`
	Description string                   `json:"description"`
	Parameters  map[string]ToolParameter `json:"parameters,omitempty"`
	// Schema is the JSON Schema of the arguments, an object. A tool has
	// either a Schema or Parameters.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// ToolNames returns the names of tools, in their order.
func ToolNames(tools []Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return names
}

// ToolParameter describes one parameter of a tool.
type ToolParameter struct {
	// Type is a JSON Schema type.
	Type        string `json:"type"`
	Description string `json:"description"`
	Required    bool   `json:"required,omitzero"`

	// Schema holds further keywords of JSON Schema as one object, for
	// example the items of an array.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// ToolCall is one call of a tool in a model's answer.
type ToolCall struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments has every argument as a string. A JSON string stands for
	// itself, another value for its JSON text, and null is left out.
	// Arguments is empty if the model did not write a JSON object.
	Arguments map[string]string `json:"-"`
	// Raw is the arguments object as the model wrote it, with U+FFFD for
	// invalid UTF-8. Later requests repeat it byte for byte. It is empty if
	// the model did not write a JSON object.
	Raw json.RawMessage `json:"-"`
}

// ToolResult answers the ToolCall with the same id.
type ToolResult struct {
	CallID  string `json:"call_id"`
	Content string `json:"content"`
	IsError bool   `json:"is_error,omitzero"`
}
