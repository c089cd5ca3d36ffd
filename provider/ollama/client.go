// Package ollama speaks Ollama's native chat API: POST {base}/api/chat.
//
// Ollama gives tool calls no ids, and results name no call: only their order
// connects them. This package gives a call the id ollama_<index>, which is
// unique within its turn.
//
//	c := ollama.New(ollama.Config{})
//	req := &provider.Request{Model: "llama3.1", Messages: messages}
//	resp, err := c.Send(ctx, req)
package ollama

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

const defaultBase = "http://localhost:11434"

// Config has the address of the API.
type Config struct {
	// Key is an optional bearer token for a proxy in front of Ollama.
	Key secret.Text
	// BaseURL is http://localhost:11434 by default.
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
	header := http.Header{}
	key := strings.TrimSpace(cfg.Key.Reveal())
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	return &Client{endpoint: wire.New(wire.Config{
		Name:        "ollama",
		Base:        cmp.Or(cfg.BaseURL, defaultBase),
		Path:        "api/chat",
		Key:         key,
		KeyOptional: true,
		RefusedHint: "is Ollama running?",
		Header:      header,
		HTTP:        cfg.HTTP,
		IdleTimeout: cfg.IdleTimeout,
	})}
}

// Send implements provider.Provider.
func (c *Client) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	return c.endpoint.Post(ctx, newRequest(req), &answer{})
}
