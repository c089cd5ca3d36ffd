// Package ollama speaks Ollama's native chat API: POST {base}/api/chat.
//
// Ollama names no tool calls and refers to none in results: order is all that
// connects them. A call's id is ollama_<index>, unique in its turn only.
//
//	c := ollama.New(ollama.Config{})
//	resp, err := c.Send(ctx, &provider.Request{Model: "llama3.1", Messages: messages})
package ollama

import (
	"cmp"
	"context"
	"net/http"
	"strings"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/internal/wire"
)

const defaultBase = "http://localhost:11434"

// Config says where the API is.
type Config struct {
	// optional: a bearer token for a proxy in front of Ollama
	Key     string
	BaseURL string       // empty: http://localhost:11434
	HTTP    *http.Client // nil: a client of its own
}

// Client implements provider.Provider. It is safe for concurrent use.
type Client struct {
	endpoint *wire.Endpoint
}

// New makes a Client. What is wrong with cfg is reported by Send.
func New(cfg Config) *Client {
	header := http.Header{}
	key := strings.TrimSpace(cfg.Key)
	if key != "" {
		header.Set("Authorization", "Bearer "+key)
	}
	return &Client{endpoint: wire.New(wire.Config{
		Name:   "ollama",
		Base:   cmp.Or(cfg.BaseURL, defaultBase),
		Path:   "api/chat",
		Key:    key,
		NoKey:  true,
		Hint:   "is Ollama running?",
		Header: header,
		HTTP:   cfg.HTTP,
	})}
}

// Send implements provider.Provider.
func (c *Client) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	var out answer
	if err := c.endpoint.Post(ctx, newRequest(req), &out); err != nil {
		return nil, err
	}
	return out.response(), nil
}
