// Package catalog opens a model by its name, provider/model:
// "anthropic/claude-sonnet-4-5", "ollama/llama3.1", "script/review" (an offline
// stand-in, never chosen in place of a real model).
//
// Addresses and keys come from the environment, AXE_<PROVIDER>_BASE_URL and
// <PROVIDER>_API_KEY, read anew at each Open, so that a new key needs no new
// Catalog; what is not there comes from Config.Settings, and addresses then
// from the provider's default. They go no further than the client: no error
// shows a key. A script is read once.
//
//	c := catalog.New(catalog.Config{ScriptDir: "scripts"})
//	p, name, err := c.Open("openai/gpt-4o")
//	resp, err := p.Send(ctx, &provider.Request{Model: name, Messages: messages})
package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/anthropic"
	"github.com/axebus/axe/provider/internal/wire"
	"github.com/axebus/axe/provider/ollama"
	"github.com/axebus/axe/provider/openai"
	"github.com/axebus/axe/provider/script"
)

// Config says where a Catalog finds things. The zero value serves the real
// providers.
type Config struct {
	Getenv func(string) string // nil: os.Getenv
	// by provider, for what the environment does not say
	Settings map[string]Settings
	HTTP     *http.Client // nil: one that all providers share
	// connections to one host, 0: 128; unused with HTTP
	MaxConns  int
	ScriptDir string // where script/<name> is looked up
}

// Settings are what a machine's configuration says of a provider.
type Settings struct{ APIKey, BaseURL string }

// Catalog opens models. It is safe for concurrent use.
type Catalog struct {
	getenv    func(string) string
	file      map[string]Settings
	http      *http.Client
	scriptDir string

	mu   sync.Mutex
	open map[string]*client
	read map[string]*script.Script
}

// client is an opened provider and what it was opened with.
type client struct {
	settings
	provider.Provider
}

// settings convert to the Config of any real provider.
type settings struct {
	Key     string
	BaseURL string
	HTTP    *http.Client
}

// New makes a Catalog.
func New(cfg Config) *Catalog {
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{Transport: wire.Transport(cfg.MaxConns)}
	}
	return &Catalog{
		getenv:    cfg.Getenv,
		file:      cfg.Settings,
		http:      cfg.HTTP,
		scriptDir: cfg.ScriptDir,
		open:      map[string]*client{},
		read:      map[string]*script.Script{},
	}
}

// Open returns the provider of a model and the model's name there, which may
// hold slashes of its own. A missing key is no error here but one of Send.
func (c *Catalog) Open(model string) (p provider.Provider, name string, err error) {
	vendor, name, err := provider.SplitModel(model)
	if err != nil {
		return nil, "", err
	}
	switch vendor {
	case "anthropic":
		return c.client(
			vendor,
			func(s settings) provider.Provider { return anthropic.New(anthropic.Config(s)) },
		), name, nil
	case "openai":
		return c.client(vendor, func(s settings) provider.Provider { return openai.New(openai.Config(s)) }), name, nil
	case "ollama":
		return c.client(vendor, func(s settings) provider.Provider { return ollama.New(ollama.Config(s)) }), name, nil
	case "script":
		s, err := c.script(name)
		if err != nil {
			return nil, "", fmt.Errorf("model %q: %w", model, err)
		}
		return s, name, nil
	}
	return nil, "", fmt.Errorf(
		"unsupported provider %q: supported providers are anthropic, openai, ollama (and script, offline)",
		vendor,
	)
}

// Account names the provider and the key that a model is asked with, the same
// on every machine and without telling either key or address:
// "openai-0a1b2c3d4e5f". It is empty for what has no account.
func (c *Catalog) Account(model string) string {
	vendor, _, err := provider.SplitModel(model)
	if err != nil || vendor == "script" {
		return ""
	}
	s := c.settings(vendor)
	sum := sha256.Sum256(
		[]byte("axe limiter\x00" + vendor + "\x00" + strings.TrimRight(s.BaseURL, "/") + "\x00" + s.Key),
	)
	return vendor + "-" + hex.EncodeToString(sum[:6])
}

// settings are those of a real provider as they are now.
func (c *Catalog) settings(vendor string) settings {
	env := strings.ToUpper(vendor)
	return settings{
		Key:     cmp.Or(c.getenv(env+"_API_KEY"), c.file[vendor].APIKey),
		BaseURL: cmp.Or(c.getenv("AXE_"+env+"_BASE_URL"), c.file[vendor].BaseURL),
		HTTP:    c.http,
	}
}

// client opens a real provider once, and again when its environment has
// changed.
func (c *Catalog) client(vendor string, open func(settings) provider.Provider) provider.Provider {
	s := c.settings(vendor)
	c.mu.Lock()
	defer c.mu.Unlock()
	have, ok := c.open[vendor]
	if !ok || have.settings != s {
		have = &client{s, open(s)}
		c.open[vendor] = have
	}
	return have.Provider
}

// script reads a script once. Two that want it at the same time may both read
// it.
func (c *Catalog) script(name string) (*script.Script, error) {
	c.mu.Lock()
	s, ok := c.read[name]
	c.mu.Unlock()
	if ok {
		return s, nil
	}
	s, err := script.Load(c.scriptDir, name)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read[name] = s
	return s, nil
}
