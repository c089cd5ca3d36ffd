// Package wire is the one HTTP exchange that every provider makes: JSON out,
// JSON in, and each way in which that can fail mapped to one *provider.Error.
// The formats themselves live with the providers.
//
// Nothing that Post returns shows the key, and a key is never sent anywhere but
// to the configured base URL: redirects are not followed.
//
//	e := wire.New(wire.Config{Name: "ollama", Base: "http://localhost:11434", Path: "api/chat", NoKey: true})
//	var out answer
//	err := e.Post(ctx, request{Model: "llama3"}, &out)
package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/axebus/axe/provider"
)

// maxBody bounds what one answer may hold in memory.
const maxBody = 64 << 20

// Config is one endpoint of one provider.
type Config struct {
	// of the provider, as models are named: "openai"
	Name  string
	Base  string // http(s)://host[:port][/path]
	Path  string // below Base
	Key   string // kept out of every error
	NoKey bool   // a Key is not needed
	// what an error asks when nobody listens at Base
	Hint string
	// sent with every request, the key included
	Header http.Header
	// nil: a client of its own over Transport
	HTTP *http.Client
}

// Endpoint sends requests to one URL. It is safe for concurrent use.
type Endpoint struct {
	base   string // as it may be shown
	url    string
	key    string
	hint   string
	header http.Header
	http   *http.Client
	// what makes every Post fail before anything is sent
	err error
}

// Answer is what a response body is decoded into. Check says what is missing
// from it.
type Answer interface {
	Check() error
}

// New makes an Endpoint. What is wrong with cfg is reported by Post.
func New(cfg Config) *Endpoint {
	e := &Endpoint{key: cfg.Key, hint: cfg.Hint, header: cfg.Header.Clone(), http: client(cfg.HTTP)}
	if e.header == nil {
		e.header = http.Header{}
	}
	e.header.Set("Content-Type", "application/json")
	e.header.Set("Accept", "application/json")
	e.header.Set("User-Agent", "axe")
	e.url, e.base, e.err = join(cfg.Base, cfg.Path)
	if err := checkKey(cfg); err != nil {
		e.err = err
	}
	return e
}

// Post sends in as JSON and decodes the body of a successful response into out.
func (e *Endpoint) Post(ctx context.Context, in any, out Answer) error {
	if e.err != nil {
		return e.err
	}
	req, err := e.request(ctx, in)
	if err != nil {
		return err
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return e.unreachable(ctx, err)
	}
	defer resp.Body.Close()
	body, err := read(resp.Body, maxBody)
	if err != nil && ctx.Err() != nil {
		return ended(ctx)
	}
	if resp.StatusCode/100 != 2 {
		return e.refused(resp, body)
	}
	if err != nil {
		return e.fail(network(err), resp.StatusCode, "the answer broke off", err)
	}
	if err := decode(body, out); err != nil {
		return e.malformed(resp.StatusCode, body, err)
	}
	return nil
}

func (e *Endpoint) request(ctx context.Context, in any) (*http.Request, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(in); err != nil {
		return nil, e.fail(provider.BadRequest, 0, "the request is no JSON", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, &body)
	if err != nil {
		return nil, e.fail(provider.BadRequest, 0, "the request is malformed", err)
	}
	req.Header = e.header.Clone()
	return req, nil
}

func decode(body []byte, out Answer) error {
	if err := json.Unmarshal(body, out); err != nil {
		return err
	}
	return out.Check()
}

// read returns what there is even when it fails: an error's body is worth
// showing in part.
func read(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(body)) > limit {
		return body[:limit], fmt.Errorf("longer than %d bytes", limit)
	}
	return body, err
}

// checkKey refuses a key that is missing or that cannot stand in a header,
// without showing it.
func checkKey(cfg Config) error {
	env := strings.ToUpper(cfg.Name) + "_API_KEY"
	var problem string
	switch {
	case cfg.Key == "" && !cfg.NoKey:
		problem = "is not configured (set " + env + " or add to config.toml)"
	case strings.ContainsFunc(cfg.Key, func(r rune) bool { return r < ' ' || r == 0x7f }):
		problem = "holds control characters (check " + env + " or config.toml)"
	default:
		return nil
	}
	return &provider.Error{
		Category: provider.Auth,
		Message:  fmt.Sprintf("API key for provider %q %s", cfg.Name, problem),
	}
}
