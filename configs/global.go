package configs

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Global is what config.toml says of a machine. Every key may be missing, and
// so may the file.
//
//	[providers.openai]
//	api_key = "sk-…"
//	base_url = "https://example.com"   # of any provider; the environment goes before the file
//	max_concurrent = 8                 # limits of all workers together; none is set by default
//	requests_per_minute = 500
//	tokens_per_minute = 200000
//	respect_retry_after = true
//
//	[memory]
//	store = "bus"                      # "file" is the default
type Global struct {
	// by name; all of Vendors, whether the file has them or not
	Providers map[string]Provider
	Memory    MemoryStore

	File string
	// the file holds a key and others than its owner may read it
	Exposed bool
}

// Provider is how a provider is reached; empty values leave it to the
// environment and the defaults.
type Provider struct {
	APIKey  string
	BaseURL string

	// What all workers on a bus together may ask of the provider, with this
	// key; 0: no limit.
	MaxConcurrent     int // requests in flight
	RequestsPerMinute int // of the clock
	TokensPerMinute   int // input and output
	// one that is told to wait makes all wait; the limits above imply it
	RespectRetryAfter bool
}

// rateLimits are the keys of what may be asked of a provider.
func (p *Provider) rateLimits(name string) map[string]*int {
	return map[string]*int{
		"providers." + name + ".max_concurrent":      &p.MaxConcurrent,
		"providers." + name + ".requests_per_minute": &p.RequestsPerMinute,
		"providers." + name + ".tokens_per_minute":   &p.TokensPerMinute,
	}
}

// MemoryStore says where agents' memory is kept.
type MemoryStore string

// The two places.
const (
	// one file for each agent below DataDir, on the worker's machine
	MemoryInFiles MemoryStore = "file"
	// a key-value bucket that all workers share
	MemoryOnBus MemoryStore = "bus"
)

// GlobalFile is the name of the file in ConfigDir.
const GlobalFile = "config.toml"

// ProviderNames are the providers that may be configured.
func ProviderNames() []string { return []string{"anthropic", "openai", "ollama"} }

// LoadGlobal reads a config.toml; one that does not exist is empty. Its error
// is an *Error.
func LoadGlobal(file string) (Global, error) {
	g := Global{Providers: map[string]Provider{}, Memory: MemoryInFiles, File: file}
	b, err := read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return g, nil
	}
	if err != nil {
		return Global{}, &Error{File: file, Message: withoutPath(err), cause: err}
	}
	doc, err := newDocument(file, string(b))
	if err != nil {
		return Global{}, err
	}
	store := string(g.Memory)
	into := map[string]any{"memory.store": &store}
	providers := map[string]*Provider{}
	for _, name := range ProviderNames() {
		p := &Provider{}
		providers[name] = p
		into["providers."+name+".api_key"], into["providers."+name+".base_url"] = &p.APIKey, &p.BaseURL
		into["providers."+name+".respect_retry_after"] = &p.RespectRetryAfter
		for key, value := range p.rateLimits(name) {
			into[key] = value
		}
	}
	if err := doc.decode(into); err != nil {
		return Global{}, err
	}
	switch g.Memory = MemoryStore(store); g.Memory {
	case MemoryInFiles, MemoryOnBus:
	default:
		return Global{}, doc.locate(invalid("memory.store", `want "file" or "bus"`))
	}
	for _, name := range ProviderNames() {
		if err := checkRateLimits(name, providers[name]); err != nil {
			return Global{}, doc.locate(err)
		}
	}
	for name, p := range providers {
		g.Providers[name] = *p
		g.Exposed = g.Exposed || p.APIKey != "" && readableByOthers(file)
	}
	return g, nil
}

func checkRateLimits(name string, p *Provider) *Error {
	values := p.rateLimits(name)
	for _, key := range slices.Sorted(maps.Keys(values)) {
		if err := nonNegative(setting{key, *values[key]}); err != nil {
			return err
		}
	}
	return nil
}

// DefaultGlobal reads the config.toml of ConfigDir. Without a home directory
// there is none, as for many a service.
func DefaultGlobal() (Global, error) {
	dir, err := ConfigDir()
	if err != nil {
		return Global{Memory: MemoryInFiles}, nil //nolint:nilerr // see above
	}
	return LoadGlobal(filepath.Join(dir, GlobalFile))
}

func readableByOthers(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().Perm()&0o077 != 0
}
