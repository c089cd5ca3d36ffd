// Package provider is the vocabulary between an agent's loop and a language
// model: messages, tools, requests, responses, and errors with a category. It
// knows no wire format and imports no net/http; the formats live in the
// packages below it, and every one of them passes the suite in providertest.
//
// A Response holds either text or tool calls (or both); len(ToolCalls) > 0 is
// what makes a turn a tool turn, never StopReason, which is informational.
package provider

import (
	"context"
	"encoding/json"
)

// Provider sends one request to a model and returns its complete answer. Send
// is safe for concurrent use and returns an *Error for everything that the
// model or the way to it did wrong. It returns promptly when ctx ends: with a
// Timeout if a deadline passed, with an error that is context.Canceled, and no
// *Error, if the caller cancelled.
type Provider interface {
	Send(ctx context.Context, req *Request) (*Response, error)
}

// Role says who speaks in a Message.
type Role string

// The roles of a conversation. System text is not a message: it is
// Request.System.
const (
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool"
)

// Request is one send to a model.
type Request struct {
	Model    string    `json:"model"` // without the provider's name
	System   string    `json:"system,omitzero"`
	Messages []Message `json:"messages"`
	// none: no tools are sent at all
	Tools []Tool `json:"tools,omitempty"`
	// nil: the provider's own default
	Temperature *float64 `json:"temperature,omitzero"`
	// 0: the provider's own default
	MaxTokens int `json:"max_tokens,omitzero"`
}

// Message is one entry of a conversation. An Assistant message may carry
// ToolCalls; a ToolRole message carries ToolResults and its Content is ignored.
type Message struct {
	Role        Role         `json:"role"`
	Content     string       `json:"content,omitzero"`
	ToolCalls   []ToolCall   `json:"tool_calls,omitempty"`
	ToolResults []ToolResult `json:"tool_results,omitempty"`
}

// Response is a model's complete answer.
type Response struct {
	Content    string     `json:"content,omitzero"`
	Model      string     `json:"model,omitzero"` // as the provider reported it
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	StopReason string     `json:"stop_reason,omitzero"`
	Usage
}

// Usage counts the tokens of one or many responses.
type Usage struct {
	InputTokens  int `json:"input_tokens"`
	OutputTokens int `json:"output_tokens"`
	// the part of InputTokens read from a prompt cache
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
	Parameters  map[string]ToolParameter `json:"parameters"`
}

// ToolParameter describes one argument of a tool; Type is a JSON Schema type.
type ToolParameter struct {
	Type        string `json:"type"`
	Description string `json:"description"`
	Required    bool   `json:"required,omitzero"`

	// Schema holds further keywords of JSON Schema, as one object: what the
	// elements of an array are, say.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// ToolCall is one invocation that a model asked for.
//
// Raw is the arguments object exactly as the model wrote it, so that history is
// echoed back byte for byte; Arguments is the same with every value as a string
// (strings as they are, everything else as its JSON text, null left out).
// Arguments is empty when the model wrote something that is no JSON object.
type ToolCall struct {
	ID        string            `json:"id"`
	Name      string            `json:"name"`
	Arguments map[string]string `json:"-"`
	Raw       json.RawMessage   `json:"-"`
}

// ToolResult answers the ToolCall with the same id.
type ToolResult struct {
	CallID  string `json:"call_id"`
	Content string `json:"content"`
	IsError bool   `json:"is_error,omitzero"`
}
