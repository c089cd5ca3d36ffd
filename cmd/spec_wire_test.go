package cmd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/axebus/axe/provider"
)

// format encodes and decodes one provider's API.
type format struct {
	name string
	// id returns the id of the i-th call of an answer.
	id func(a *modelRequest, i int) string
	// read decodes a request, and write encodes an answer.
	read  func(*modelRequest, http.Header, []byte) error
	write func(model string, r reply) any
}

// formats maps the path of an API to its format.
var formats = map[string]format{
	"/v1/chat/completions": {"openai", numbered("call"), readOpenAI, writeOpenAI},
	"/v1/messages":         {"anthropic", numbered("toolu"), readAnthropic, writeAnthropic},
	"/api/chat": {
		"ollama", func(_ *modelRequest, i int) string { return ollamaID(i) }, readOllama, writeOllama,
	},
}

// numbered returns a function that makes the id of a call from a prefix, the
// agent, its turn, and the number of the call.
func numbered(prefix string) func(*modelRequest, int) string {
	return func(a *modelRequest, i int) string { return fmt.Sprintf("%s_%s_%d_%d", prefix, a.agent, a.turn, i) }
}

// ollamaID returns the id that axe makes, since the format has no ids.
func ollamaID(i int) string { return "ollama_" + strconv.Itoa(i) }

// decode decodes JSON. A field that v does not have is an error.
func decode(body []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// The parts of the formats of OpenAI and Ollama. Anthropic's format has the
// schema too.
type (
	schema struct {
		Type       string `json:"type"`
		Properties map[string]struct {
			Type        string `json:"type"`
			Description string `json:"description"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitzero"`
		Parameters  *schema         `json:"parameters,omitzero"`
		Arguments   json.RawMessage `json:"arguments,omitzero"`
	}
	functionCall struct {
		ID       string   `json:"id,omitzero"`
		Type     string   `json:"type,omitzero"`
		Function function `json:"function"`
	}
	chatMessage struct {
		Role       provider.Role  `json:"role"`
		Content    *string        `json:"content"`
		ToolCalls  []functionCall `json:"tool_calls,omitempty"`
		ToolCallID string         `json:"tool_call_id,omitzero"`
	}
	chat struct {
		Model       string          `json:"model"`
		Messages    []chatMessage   `json:"messages"`
		Tools       *[]functionCall `json:"tools"`
		Temperature *float64        `json:"temperature"`
		MaxTokens   int             `json:"max_tokens"`
		Stream      *bool           `json:"stream"`
		Options     struct {
			Temperature *float64 `json:"temperature"`
			NumPredict  int      `json:"num_predict"`
		} `json:"options"`
	}
)

// tool returns the tool with the parameters that the schema describes.
func (s schema) tool(name, description string) provider.Tool {
	t := provider.Tool{Name: name, Description: description, Parameters: map[string]provider.ToolParameter{}}
	for name, p := range s.Properties {
		t.Parameters[name] = provider.ToolParameter{Type: p.Type, Description: p.Description}
	}
	for _, name := range s.Required {
		p := t.Parameters[name]
		p.Required = true
		t.Parameters[name] = p
	}
	return t
}

// readChat decodes the part that OpenAI and Ollama share. call reads the
// arguments of the i-th call.
func readChat(a *modelRequest, in chat, call func(i int, c functionCall) provider.ToolCall) error {
	a.request = provider.Request{Model: in.Model, Temperature: in.Temperature, MaxTokens: in.MaxTokens}
	a.offered = in.Tools != nil
	if a.offered {
		for _, t := range *in.Tools {
			if t.Type != "function" || t.Function.Parameters == nil || t.Function.Parameters.Type != "object" {
				return fmt.Errorf("malformed tool %+v", t)
			}
			a.request.Tools = append(
				a.request.Tools,
				t.Function.Parameters.tool(t.Function.Name, t.Function.Description),
			)
		}
	}
	for _, m := range in.Messages {
		text := ""
		if m.Content != nil {
			text = *m.Content
		} else if len(m.ToolCalls) == 0 {
			return errors.New("a message without content and calls")
		}
		msgs := &a.request.Messages
		switch m.Role {
		case "system":
			a.request.System = text
			continue
		case provider.ToolRole: // one message for each result
			if n := len(*msgs); n == 0 || (*msgs)[n-1].Role != provider.ToolRole {
				*msgs = append(*msgs, provider.Message{Role: provider.ToolRole})
			}
			last := &(*msgs)[len(*msgs)-1]
			id := m.ToolCallID
			if a.format == "ollama" {
				id = ollamaID(len(last.ToolResults))
			}
			last.ToolResults = append(last.ToolResults, provider.ToolResult{CallID: id, Content: text})
			continue
		case provider.User, provider.Assistant:
		}
		out := provider.Message{Role: m.Role, Content: text}
		for i, c := range m.ToolCalls {
			out.ToolCalls = append(out.ToolCalls, call(i, c))
		}
		*msgs = append(*msgs, out)
	}
	return nil
}

// readOpenAI decodes a request. The arguments of a call are JSON in a string.
func readOpenAI(a *modelRequest, h http.Header, body []byte) error {
	a.key = strings.TrimPrefix(h.Get("Authorization"), "Bearer ")
	var in chat
	if err := decode(body, &in); err != nil {
		return err
	}
	return readChat(a, in, func(_ int, c functionCall) provider.ToolCall {
		var args string
		if err := json.Unmarshal(c.Function.Arguments, &args); err != nil || c.Type != "function" {
			args = "not JSON in a string"
		}
		return provider.NewToolCall(c.ID, c.Function.Name, []byte(args))
	})
}

// readOllama decodes a request. The arguments of a call are a JSON object. A
// call has no id.
func readOllama(a *modelRequest, _ http.Header, body []byte) error {
	var in chat
	if err := decode(body, &in); err != nil {
		return err
	}
	if in.Stream == nil || *in.Stream {
		return errors.New("stream must be false")
	}
	in.Temperature, in.MaxTokens = in.Options.Temperature, in.Options.NumPredict
	return readChat(a, in, func(i int, c functionCall) provider.ToolCall {
		return provider.NewToolCall(ollamaID(i), c.Function.Name, c.Function.Arguments)
	})
}

// readAnthropic decodes a request. The content of a message is a string or a
// list of blocks.
func readAnthropic(a *modelRequest, h http.Header, body []byte) error {
	a.key = h.Get("X-Api-Key")
	var in struct {
		Model    string `json:"model"`
		System   string `json:"system"`
		Messages []struct {
			Role    provider.Role   `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools *[]struct {
			Name        string `json:"name"`
			Description string `json:"description"`
			InputSchema schema `json:"input_schema"`
		} `json:"tools"`
		Temperature *float64 `json:"temperature"`
		MaxTokens   int      `json:"max_tokens"`
	}
	if err := decode(body, &in); err != nil {
		return err
	}
	a.request = provider.Request{
		Model:       in.Model,
		System:      in.System,
		Temperature: in.Temperature,
		MaxTokens:   in.MaxTokens,
	}
	a.offered = in.Tools != nil
	if a.offered {
		for _, t := range *in.Tools {
			a.request.Tools = append(a.request.Tools, t.InputSchema.tool(t.Name, t.Description))
		}
	}
	for _, m := range in.Messages {
		out := provider.Message{Role: m.Role}
		if json.Unmarshal(m.Content, &out.Content) != nil {
			if err := readBlocks(&out, m.Content); err != nil {
				return err
			}
		}
		a.request.Messages = append(a.request.Messages, out)
	}
	return nil
}

// readBlocks reads the content of an Anthropic message. Tool results come in a
// message of the user.
func readBlocks(out *provider.Message, content []byte) error {
	var blocks []struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
		ToolUseID string          `json:"tool_use_id"`
		Content   string          `json:"content"`
		IsError   bool            `json:"is_error"`
	}
	if err := decode(content, &blocks); err != nil {
		return err
	}
	for _, b := range blocks {
		switch b.Type {
		case "text":
			out.Content += b.Text
		case "tool_use":
			out.ToolCalls = append(out.ToolCalls, provider.NewToolCall(b.ID, b.Name, b.Input))
		case "tool_result":
			out.Role = provider.ToolRole
			out.ToolResults = append(
				out.ToolResults,
				provider.ToolResult{CallID: b.ToolUseID, Content: b.Content, IsError: b.IsError},
			)
		default:
			return fmt.Errorf("unknown type of block %q", b.Type)
		}
	}
	return nil
}

func writeOpenAI(model string, r reply) any {
	stop, content := "stop", any(r.text)
	var tcs []functionCall
	for _, c := range r.calls {
		stop = "tool_calls"
		args, err := json.Marshal(string(c.Raw))
		if err != nil {
			panic(err)
		}
		tcs = append(tcs, functionCall{c.ID, "function", function{Name: c.Name, Arguments: args}})
	}
	if r.text == "" {
		content = nil
	}
	in, out := r.tokens()
	message := map[string]any{"role": "assistant", "content": content}
	if len(tcs) > 0 {
		message["tool_calls"] = tcs
	}
	return map[string]any{
		"model": model, "usage": map[string]int{"prompt_tokens": in, "completion_tokens": out},
		"choices": []any{map[string]any{"index": 0, "finish_reason": stop, "message": message}},
	}
}

func writeAnthropic(model string, r reply) any {
	stop, blocks := "end_turn", []any{}
	if r.text != "" {
		blocks = append(blocks, map[string]any{"type": "text", "text": r.text})
	}
	for _, c := range r.calls {
		stop = "tool_use"
		blocks = append(blocks, map[string]any{"type": "tool_use", "id": c.ID, "name": c.Name, "input": c.Raw})
	}
	in, out := r.tokens()
	return map[string]any{
		"model": model, "type": "message", "role": "assistant", "content": blocks, "stop_reason": stop,
		"usage": map[string]int{"input_tokens": in, "output_tokens": out},
	}
}

func writeOllama(model string, r reply) any {
	message := map[string]any{"role": "assistant", "content": r.text}
	var tcs []functionCall
	for _, c := range r.calls {
		tcs = append(tcs, functionCall{Function: function{Name: c.Name, Arguments: c.Raw}})
	}
	if len(tcs) > 0 {
		message["tool_calls"] = tcs
	}
	in, out := r.tokens()
	return map[string]any{
		"model":             model,
		"message":           message,
		"done":              true,
		"done_reason":       "stop",
		"prompt_eval_count": in,
		"eval_count":        out,
	}
}
