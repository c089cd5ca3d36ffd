package openai

import (
	"cmp"
	"errors"
	"strconv"

	"github.com/axebus/axe/provider"
)

type answer struct {
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   usage    `json:"usage"`
}

type choice struct {
	Message      *message `json:"message"`
	FinishReason string   `json:"finish_reason"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// Response implements wire.Answer.
func (a *answer) Response() (*provider.Response, error) {
	if len(a.Choices) == 0 {
		return nil, errors.New("no choices")
	}
	first := a.Choices[0]
	if first.Message == nil {
		return nil, errors.New("a choice without a message")
	}
	r := &provider.Response{Model: a.Model, StopReason: first.FinishReason, Usage: provider.Usage{
		InputTokens:  a.Usage.Prompt,
		OutputTokens: a.Usage.Completion,
		CachedTokens: a.Usage.Details.Cached,
	}}
	if first.Message.Content != nil {
		r.Content = *first.Message.Content
	}
	for i, c := range first.Message.ToolCalls {
		// Some imitations leave out ids. Results have to name one.
		id := cmp.Or(c.ID, "openai_"+strconv.Itoa(i))
		r.ToolCalls = append(r.ToolCalls, provider.NewToolCall(id, c.Function.Name, []byte(c.Function.Arguments)))
	}
	return r, nil
}
