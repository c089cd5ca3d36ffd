// Package anthropic speaks Anthropic's Messages API: POST {base}/v1/messages.
//
//	c := anthropic.New(anthropic.Config{Key: secret.Text(os.Getenv("ANTHROPIC_API_KEY"))})
//	req := &provider.Request{Model: "claude-sonnet-4-5", Messages: messages}
//	resp, err := c.Send(ctx, req)
package anthropic

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

const (
	defaultBase = "https://api.anthropic.com"
	version     = "2023-06-01"
)

// Config has the address of the API and the key.
type Config struct {
	// Key is required.
	Key secret.Text
	// BaseURL is https://api.anthropic.com by default.
	BaseURL string
	// HTTP is a new client by default.
	HTTP *http.Client
	// IdleTimeout ends a request with an answer that has begun and brings
	// less than a kilobyte in that time. 0 stands for a minute, and a
	// negative value for no timeout.
	IdleTimeout time.Duration
}

// Client implements provider.Provider. It is safe for concurrent use.
type Client struct{ endpoint *wire.Endpoint }

// New makes a Client. Send returns the errors in cfg.
func New(cfg Config) *Client {
	key := strings.TrimSpace(cfg.Key.Reveal())
	return &Client{endpoint: wire.New(wire.Config{
		Name:        "anthropic",
		Base:        cmp.Or(cfg.BaseURL, defaultBase),
		Path:        "v1/messages",
		Key:         key,
		Header:      http.Header{"X-Api-Key": {key}, "Anthropic-Version": {version}},
		HTTP:        cfg.HTTP,
		IdleTimeout: cfg.IdleTimeout,
	})}
}

// Send implements provider.Provider.
func (c *Client) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	return c.endpoint.Post(ctx, newRequest(req), &answer{})
}
