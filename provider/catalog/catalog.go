// Package catalog opens a model by its full name, provider/model, for example
// "anthropic/claude-sonnet-4-5", "ollama/llama3.1", or "script/review". A
// script is an offline model. It never replaces a real one.
//
// Addresses and keys come from the environment variables
// AXE_<PROVIDER>_BASE_URL and <PROVIDER>_API_KEY. Open reads them each time, so
// that a new key needs no new Catalog. Missing ones come from Config.Settings,
// and a key before that from the file <provider>_api_key of the credentials
// that systemd gives a service. The last choice for an address is the
// provider's default. No error shows a key of 8 bytes or more. Open reads a
// script once.
//
//	c := catalog.New(catalog.Config{ScriptDir: "scripts"})
//	p, name, err := c.Open("openai/gpt-4o")
//	resp, err := p.Send(ctx, &provider.Request{Model: name, Messages: messages})
package catalog

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/anthropic"
	"github.com/axebus/axe/provider/internal/wire"
	"github.com/axebus/axe/provider/ollama"
	"github.com/axebus/axe/provider/openai"
	"github.com/axebus/axe/provider/script"
	"github.com/axebus/axe/secret"
)

// Config has the settings of a Catalog. The zero value opens the models of real
// providers.
type Config struct {
	// Getenv is os.Getenv by default.
	Getenv func(string) string
	// Settings, by provider, apply where the environment has no value.
	Settings map[string]Settings
	// HTTP is the client of all providers. Nil stands for a new one.
	HTTP *http.Client
	// MaxConns bounds the connections to one host. 0 stands for 128. A
	// Catalog with HTTP ignores it.
	MaxConns int
	// ScriptDir is the directory of the scripts.
	ScriptDir string
	// ScriptSlowdown multiplies the latencies of scripts. 0 stands for 1.
	ScriptSlowdown int
}

// Settings are a machine's settings of one provider.
type Settings struct {
	// APIKey is the key. Without it the key is in APIKeyFile, or
	// APIKeyCommand prints it: a program with its arguments, which may take
	// 10 seconds. The command runs once, and again after the provider has
	// refused the key. The file is read at each Open.
	APIKey        secret.Text
	APIKeyFile    string
	APIKeyCommand []string

	BaseURL string
	// IdleTimeout ends a request with an answer that has begun and brings
	// less than a kilobyte in that time. 0 stands for a minute, and a
	// negative value for no timeout.
	IdleTimeout time.Duration
}

// Catalog opens models. It is safe for concurrent use.
type Catalog struct {
	cfg Config
	// scripts has each *script.Script read so far, by name.
	scripts sync.Map

	commands *keyCommands

	mu      sync.Mutex
	clients map[string]*client
}

// client is an opened provider with its settings.
type client struct {
	settings
	provider.Provider
}

// send asks without a renewing.
func (c *client) send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	if r, ok := c.Provider.(renewing); ok {
		return r.Provider.Send(ctx, req)
	}
	return c.Send(ctx, req)
}

// settings converts to the Config of each real provider.
type settings struct {
	Key     secret.Text
	BaseURL string
	HTTP    *http.Client

	IdleTimeout time.Duration
}

// New makes a Catalog.
func New(cfg Config) *Catalog {
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	if cfg.HTTP == nil {
		cfg.HTTP = &http.Client{Transport: wire.Transport(cfg.MaxConns)}
	}
	return &Catalog{cfg: cfg, commands: newKeyCommands(), clients: map[string]*client{}}
}

// Open returns the provider of a model, and the model's name without the
// provider. The name may contain slashes. A missing key is not an error of
// Open, but of Send.
func (c *Catalog) Open(model string) (p provider.Provider, name string, err error) {
	vendor, name, err := provider.SplitModel(model)
	if err != nil {
		return nil, "", err
	}
	switch vendor {
	case "anthropic", "openai", "ollama":
		if p, err = c.real(vendor); err != nil {
			return nil, "", fmt.Errorf("model %q: %w", model, err)
		}
	case "script":
		if p, err = c.script(name); err != nil {
			return nil, "", fmt.Errorf("model %q: %w", model, err)
		}
	default:
		const supported = "anthropic, openai, ollama (and script, offline)"
		return nil, "", fmt.Errorf("unsupported provider %q: supported providers are %s", vendor, supported)
	}
	return p, name, nil
}

// Account returns a name for the provider account of a model:
// "openai-0a1b2c3d4e5f". The same key at the same address has the same name on
// every machine. The name reveals neither. A script has no account and the name
// "".
func (c *Catalog) Account(model string) string {
	vendor, _, err := provider.SplitModel(model)
	if err != nil || vendor == "script" {
		return ""
	}
	// A model without a readable key is not asked.
	s, _ := c.settings(vendor)
	text := strings.Join([]string{"axe limiter", vendor, strings.TrimRight(s.BaseURL, "/"), s.Key.Reveal()}, "\x00")
	sum := sha256.Sum256([]byte(text))
	return vendor + "-" + hex.EncodeToString(sum[:6])
}

// MissingKey returns the environment variable for the API key of a model, if
// the model's provider wants a key and there is none. Otherwise it returns "".
// A key that cannot be read is an error of Open.
func (c *Catalog) MissingKey(model string) string {
	vendor, _, err := provider.SplitModel(model)
	if err != nil || !slices.Contains([]string{"anthropic", "openai"}, vendor) {
		return ""
	}
	if s, err := c.settings(vendor); err != nil || strings.TrimSpace(s.Key.Reveal()) != "" {
		return ""
	}
	return keyVariable(vendor)
}

func keyVariable(vendor string) string { return strings.ToUpper(vendor) + "_API_KEY" }

// UnreadAddress returns an environment variable that holds an address for other
// clients of a model's provider, such as OPENAI_BASE_URL, and the variable that
// this package reads in its place. Both are "" if the first is not set, or if
// the address is set as this package reads it.
func (c *Catalog) UnreadAddress(model string) (unread, read string) {
	vendor, _, err := provider.SplitModel(model)
	if err != nil || c.baseURL(vendor) != "" {
		return "", ""
	}
	unread = map[string]string{
		"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL", "ollama": "OLLAMA_HOST",
	}[vendor]
	if unread == "" || c.cfg.Getenv(unread) == "" {
		return "", ""
	}
	return unread, addressVariable(vendor)
}

func addressVariable(vendor string) string { return "AXE_" + strings.ToUpper(vendor) + "_BASE_URL" }

// settings returns the current settings of a real provider.
func (c *Catalog) settings(vendor string) (settings, error) {
	key, err := c.key(vendor)
	return settings{
		Key: key, BaseURL: c.baseURL(vendor), HTTP: c.cfg.HTTP, IdleTimeout: c.cfg.Settings[vendor].IdleTimeout,
	}, err
}

func (c *Catalog) baseURL(vendor string) string {
	return cmp.Or(c.cfg.Getenv(addressVariable(vendor)), c.cfg.Settings[vendor].BaseURL)
}

// real opens a real provider once, and again after its settings have changed.
func (c *Catalog) real(vendor string) (*client, error) {
	s, err := c.settings(vendor)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	opened, ok := c.clients[vendor]
	if ok && opened.settings == s {
		return opened, nil
	}
	opened = &client{s, s.open(vendor)}
	if len(c.cfg.Settings[vendor].APIKeyCommand) > 0 {
		opened.Provider = renewing{opened.Provider, c, vendor, s.Key}
	}
	c.clients[vendor] = opened
	return opened, nil
}

func (s settings) open(vendor string) provider.Provider {
	switch vendor {
	case "anthropic":
		return anthropic.New(anthropic.Config(s))
	case "openai":
		return openai.New(openai.Config(s))
	}
	return ollama.New(ollama.Config(s))
}

// script reads a script once. Two concurrent callers may both read it.
func (c *Catalog) script(name string) (*script.Script, error) {
	if s, ok := c.scripts.Load(name); ok {
		return s.(*script.Script), nil
	}
	s, err := script.Load(c.cfg.ScriptDir, name)
	if err != nil {
		return nil, err
	}
	s = s.SlowDown(c.cfg.ScriptSlowdown)
	c.scripts.Store(name, s)
	return s, nil
}
