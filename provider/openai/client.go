// Package openai speaks OpenAI's Chat Completions API, and that of the many
// servers that imitate it: POST {base}/v1/chat/completions.
//
//	c := openai.New(openai.Config{Key: os.Getenv("OPENAI_API_KEY")})
//	resp, err := c.Send(ctx, &provider.Request{Model: "gpt-4o", Messages: messages})
package openai

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/internal/wire"
)

const defaultBase = "https://api.openai.com"

// Config says where the API is and how to get in.
type Config struct {
	Key string // required: OPENAI_API_KEY
	// empty: https://api.openai.com; with or without the /v1 that OpenAI's
	// own SDKs want
	BaseURL string
	HTTP    *http.Client // nil: a client of its own
}

// Client implements provider.Provider. It is safe for concurrent use.
type Client struct {
	endpoint *wire.Endpoint
	// OpenAI itself, not a server that imitates it
	original bool
}

// New makes a Client. What is wrong with cfg is reported by Send.
func New(cfg Config) *Client {
	key := strings.TrimSpace(cfg.Key)
	base := strings.TrimSuffix(strings.TrimRight(cmp.Or(cfg.BaseURL, defaultBase), "/"), "/v1")
	return &Client{original: base == defaultBase, endpoint: wire.New(wire.Config{
		Name:   "openai",
		Base:   base,
		Path:   "v1/chat/completions",
		Key:    key,
		Header: http.Header{"Authorization": {"Bearer " + key}},
		HTTP:   cfg.HTTP,
	})}
}

// Send implements provider.Provider.
func (c *Client) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	in := newRequest(req)
	if c.original {
		// OpenAI's newer models refuse max_tokens; most imitations know
		// nothing else.
		in.MaxTokens, in.MaxCompletionTokens = 0, in.MaxTokens
	}
	var out answer
	if err := c.endpoint.Post(ctx, in, &out); err != nil {
		return nil, err
	}
	return out.response(), nil
}
