// Package openai speaks OpenAI's Chat Completions API, POST
// {base}/v1/chat/completions. Many other servers imitate that API.
//
//	c := openai.New(openai.Config{Key: secret.Text(os.Getenv("OPENAI_API_KEY"))})
//	req := &provider.Request{Model: "gpt-4o", Messages: messages}
//	resp, err := c.Send(ctx, req)
package openai

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/internal/wire"
	"github.com/axebus/axe/secret"
)

const defaultBase = "https://api.openai.com"

// Config has the address of the API and the key.
type Config struct {
	// Key is required.
	Key secret.Text
	// BaseURL is https://api.openai.com by default. It may end with the /v1
	// that OpenAI's own SDKs require.
	BaseURL string
	// HTTP is a new client by default.
	HTTP *http.Client
	// IdleTimeout ends a request with an answer that has begun and brings
	// less than a kilobyte in that time. 0 stands for a minute, and a
	// negative value for no timeout.
	IdleTimeout time.Duration
}

// Client implements provider.Provider. It is safe for concurrent use.
type Client struct {
	endpoint *wire.Endpoint
	// original reports that the server is OpenAI's own.
	original bool
}

// New makes a Client. Send returns the errors in cfg.
func New(cfg Config) *Client {
	key := strings.TrimSpace(cfg.Key.Reveal())
	base := strings.TrimSuffix(strings.TrimRight(cmp.Or(cfg.BaseURL, defaultBase), "/"), "/v1")
	return &Client{original: base == defaultBase, endpoint: wire.New(wire.Config{
		Name:        "openai",
		Base:        base,
		Path:        "v1/chat/completions",
		Key:         key,
		Header:      http.Header{"Authorization": {"Bearer " + key}},
		HTTP:        cfg.HTTP,
		IdleTimeout: cfg.IdleTimeout,
	})}
}

// Send implements provider.Provider.
func (c *Client) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	in := newRequest(req)
	if c.original {
		// OpenAI's newer models refuse max_tokens. Most imitations know
		// only max_tokens.
		in.MaxTokens, in.MaxCompletionTokens = 0, in.MaxTokens
	}
	return c.endpoint.Post(ctx, in, &answer{})
}
