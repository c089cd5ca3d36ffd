package anthropic

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/axebus/axe/provider"
)

type answer struct {
	Model      string  `json:"model"`
	Content    []block `json:"content"`
	StopReason string  `json:"stop_reason"`
	Usage      usage   `json:"usage"`
}

type block struct {
	Type  string          `json:"type"`
	Text  string          `json:"text"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

type usage struct {
	Input       int `json:"input_tokens"`
	Output      int `json:"output_tokens"`
	CacheRead   int `json:"cache_read_input_tokens"`
	CacheCreate int `json:"cache_creation_input_tokens"`
}

// Response implements wire.Answer. An answer may have an empty list of blocks.
// An answer without a list is malformed. Response leaves out blocks of other
// types, for example thinking.
func (a *answer) Response() (*provider.Response, error) {
	if a.Content == nil {
		return nil, errors.New("no content")
	}
	r := &provider.Response{Model: a.Model, StopReason: a.StopReason, Usage: provider.Usage{
		InputTokens:  a.Usage.Input + a.Usage.CacheRead + a.Usage.CacheCreate,
		OutputTokens: a.Usage.Output,
		CachedTokens: a.Usage.CacheRead,
	}}
	var text strings.Builder
	for _, b := range a.Content {
		switch b.Type {
		case "text":
			text.WriteString(b.Text)
		case "tool_use":
			if b.ID == "" || b.Name == "" {
				return nil, errors.New("a tool_use without an id or a name")
			}
			r.ToolCalls = append(r.ToolCalls, provider.NewToolCall(b.ID, b.Name, b.Input))
		}
	}
	r.Content = text.String()
	return r, nil
}
