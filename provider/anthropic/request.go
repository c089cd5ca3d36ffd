package anthropic

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/internal/wire"
)

// defaultMaxTokens replaces a Request.MaxTokens of 0, because this API requires
// a limit.
const defaultMaxTokens = 4096

type request struct {
	Model       string    `json:"model"`
	MaxTokens   int       `json:"max_tokens"`
	System      string    `json:"system,omitempty"`
	Messages    []message `json:"messages"`
	Tools       []tool    `json:"tools,omitempty"`
	Temperature *float64  `json:"temperature,omitempty"`
}

type message struct {
	Role provider.Role `json:"role"`
	// Content is a string or a list of blocks.
	Content any `json:"content"`
}

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type useBlock struct {
	Type  string          `json:"type"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type resultBlock struct {
	Type      string `json:"type"`
	ToolUseID string `json:"tool_use_id"`
	Content   string `json:"content"`
	IsError   bool   `json:"is_error"`
}

type tool struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	InputSchema wire.Schema `json:"input_schema"`
}

func newRequest(req *provider.Request) request {
	r := request{
		Model:       req.Model,
		MaxTokens:   cmp.Or(req.MaxTokens, defaultMaxTokens),
		System:      req.System,
		Messages:    []message{},
		Temperature: req.Temperature,
	}
	for _, m := range req.Messages {
		content := contentOf(m)
		if m.Role == provider.ToolRole {
			m.Role = provider.User // this API's role of tool results
		}
		if content != nil {
			r.Messages = append(r.Messages, message{m.Role, content})
		}
	}
	for _, t := range req.Tools {
		r.Tools = append(r.Tools, tool{Name: t.Name, Description: t.Description, InputSchema: wire.SchemaOf(t)})
	}
	return r
}

// contentOf returns the content of a message. It is nil for messages that the
// API refuses: tool messages without a result, and assistant messages with
// neither text nor tool calls.
func contentOf(m provider.Message) any {
	var blocks []any
	switch {
	case m.Role == provider.ToolRole:
		for _, r := range m.ToolResults {
			blocks = append(blocks, resultBlock{"tool_result", r.CallID, r.Content, r.IsError})
		}
	case m.Role == provider.Assistant && len(m.ToolCalls) > 0:
		if !isBlank(m.Content) {
			blocks = append(blocks, textBlock{"text", m.Content})
		}
		for _, c := range m.ToolCalls {
			blocks = append(blocks, useBlock{"tool_use", c.ID, c.Name, c.RawArguments()})
		}
	case m.Role == provider.Assistant && isBlank(m.Content):
		return nil
	default:
		return m.Content
	}
	if len(blocks) == 0 {
		return nil
	}
	return blocks
}

// isBlank reports whether the API refuses text as a block. It refuses white
// space too, although its models write it.
func isBlank(text string) bool { return strings.TrimSpace(text) == "" }
