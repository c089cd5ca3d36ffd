// Package wire makes the HTTP exchange that all providers share. It sends JSON,
// receives JSON, and maps each failure to a *provider.Error. The packages of
// the providers have the formats.
//
// The invariant: no error of Post shows a key of 8 bytes or more, and the key
// goes only to the configured base URL. Redirects are not followed.
//
//	e := wire.New(wire.Config{Name: "openai", Base: base, Path: path, Key: key})
//	resp, err := e.Post(ctx, request{Model: "gpt-4o"}, &answer{})
package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/axebus/axe/internal/traceparent"
	"github.com/axebus/axe/provider"
)

// Config describes one endpoint of one provider.
type Config struct {
	// Name is the provider's name as in a model's full name: "openai".
	Name string
	// Base is http(s)://host[:port][/path].
	Base string
	// Path is the path of the endpoint below Base.
	Path string
	// Key is the API key. No error shows it if it has 8 bytes or more.
	Key string
	// KeyOptional permits an empty Key.
	KeyOptional bool
	// RefusedHint is the question in an error if no server listens at Base.
	RefusedHint string
	// Header is sent with every request. It includes the key.
	Header http.Header
	// HTTP is the client. Nil stands for a new client with a Transport.
	HTTP *http.Client
	// IdleTimeout ends a request with an answer that has begun and brings
	// less than a kilobyte in that time. 0 stands for DefaultIdleTimeout,
	// and a negative value for no timeout. Before the answer begins, only
	// the context bounds its time: a model may think for minutes.
	IdleTimeout time.Duration
}

// Endpoint sends requests to one URL. It is safe for concurrent use.
type Endpoint struct {
	// base is the base URL as errors may show it.
	base        string
	url         string
	key         string
	refusedHint string
	header      http.Header
	http        *http.Client
	idle        time.Duration
	// err is the error in the Config. Post returns it before it sends.
	err error
}

// Answer is the value that a response body is decoded into.
type Answer interface {
	// Response returns an error if a part of the answer is missing.
	Response() (*provider.Response, error)
}

// New makes an Endpoint. Post returns the errors in cfg.
func New(cfg Config) *Endpoint {
	const mime = "application/json"
	header := http.Header{"Content-Type": {mime}, "Accept": {mime}, "User-Agent": {"axe"}}
	maps.Copy(header, cfg.Header)
	e := &Endpoint{
		key: cfg.Key, refusedHint: cfg.RefusedHint, header: header, http: withoutRedirects(cfg.HTTP),
		idle: cmp.Or(cfg.IdleTimeout, DefaultIdleTimeout),
	}
	e.url, e.base, e.err = resolveURL(cfg.Base, cfg.Path)
	e.err = cmp.Or(checkKey(cfg), e.err)
	return e
}

// Post sends in as JSON and decodes the body of a successful response into out.
func (e *Endpoint) Post(ctx context.Context, in any, out Answer) (*provider.Response, error) {
	if e.err != nil {
		return nil, e.err
	}
	reading, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	req, err := e.request(reading, in)
	if err != nil {
		return nil, err
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return nil, e.unreachable(ctx, err, req.ContentLength)
	}
	defer resp.Body.Close()
	body, err := e.readBody(resp, abort)
	if err != nil && ctx.Err() != nil {
		return nil, provider.ContextError(ctx)
	}
	if resp.StatusCode/100 != 2 {
		return nil, e.refused(resp, body, req.ContentLength)
	}
	if errors.Is(context.Cause(reading), errStalled) {
		return nil, e.stalled(resp.StatusCode, len(body), err)
	}
	if err != nil {
		return nil, e.fail(networkCategory(err), resp.StatusCode, "the answer broke off: "+err.Error(), err)
	}
	answer, err := decode(body, out)
	if err != nil {
		return nil, e.malformed(resp.StatusCode, body, err)
	}
	return answer, nil
}

func (e *Endpoint) request(ctx context.Context, in any) (*http.Request, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(in); err != nil {
		return nil, e.fail(provider.BadRequest, 0, "the request cannot be encoded as JSON: "+err.Error(), err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, &body)
	if err != nil {
		return nil, e.fail(provider.BadRequest, 0, "the request is malformed: "+err.Error(), err)
	}
	req.Header = e.header.Clone()
	traceparent.Set(ctx, req.Header)
	return req, nil
}

func decode(body []byte, out Answer) (*provider.Response, error) {
	if err := json.Unmarshal(body, out); err != nil {
		return nil, err
	}
	return out.Response()
}

// checkKey returns an error for a key that is missing, or that a header cannot
// hold. The error does not show the key.
func checkKey(cfg Config) error {
	env := strings.ToUpper(cfg.Name) + "_API_KEY"
	var problem string
	switch {
	case cfg.Key == "" && !cfg.KeyOptional:
		problem = "is not configured (set " + env + " or add to config.toml)"
	case strings.ContainsFunc(cfg.Key, func(r rune) bool { return r < ' ' || r == 0x7f }):
		problem = "holds control characters (check " + env + " or config.toml)"
	default:
		return nil
	}
	message := fmt.Sprintf("API key for provider %q %s", cfg.Name, problem)
	return &provider.Error{Category: provider.Auth, Message: message}
}
