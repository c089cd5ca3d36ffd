package toolset

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/traceparent"
)

// HTTP returns the toolset of a file of the kind http. Each call of a tool is a
// request. Arguments that the URL names become parts of it. The others are the
// query of a GET, HEAD or DELETE request, and the JSON body of any other
// request.
func HTTP(def configs.Toolset) Set {
	return &httpSet{static: static{defined(def)}, def: def, client: &http.Client{
		// A connection that is used again may break under a request,
		// and the library then sends a request with an Idempotency-Key
		// once more.
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true},
		CheckRedirect: sameHost,
	}}
}

type httpSet struct {
	static

	def    configs.Toolset
	client *http.Client
}

const maxRedirects = 10

// sameHost refuses a redirect to another host: the headers of the file are for
// the host that it names.
func sameHost(req *http.Request, via []*http.Request) error {
	switch {
	case len(via) > maxRedirects:
		return fmt.Errorf("more than %d redirects", maxRedirects)
	case req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme:
		return fmt.Errorf("a redirect to another host (%s) is not followed", req.URL.Host)
	}
	return nil
}

// Call makes the request of a tool.
func (s *httpSet) Call(ctx context.Context, c Call) (Result, error) {
	tool, ok := s.def.Tools[c.Tool]
	if !ok {
		return Result{}, noTool(c.Tool)
	}
	var sent atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := s.request(traced, tool, c)
	if err != nil {
		return Result{}, err
	}
	resp, err := s.client.Do(req)
	if err == nil {
		defer func() { _ = resp.Body.Close() }()
		var r Result
		if r, err = answer(c.Tool, resp); err == nil {
			return r, nil
		}
	}
	var failed *statusError
	switch {
	case ctx.Err() != nil:
		return Result{}, context.Cause(ctx)
	case errors.As(err, &failed), !sent.Load():
		return Result{}, withoutURL(err)
	}
	return Result{}, fmt.Errorf("%w: %w", ErrLost, withoutURL(err))
}

// withoutURL returns an error of the client without the URL: it may have a
// secret in it.
func withoutURL(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

func (s *httpSet) request(ctx context.Context, tool configs.ToolsetTool, c Call) (*http.Request, error) {
	args, err := c.arguments()
	if err != nil {
		return nil, err
	}
	method := cmp.Or(tool.Method, http.MethodGet)
	target, err := fillURL(tool.URL, args)
	if err != nil {
		return nil, err
	}
	var body io.Reader
	inQuery := slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodDelete}, method)
	if inQuery {
		if err := addQuery(target, args); err != nil {
			return nil, err
		}
	} else {
		b, err := json.Marshal(args)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), body)
	if err != nil {
		return nil, err
	}
	if !inQuery {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, headers := range []map[string]string{s.def.Headers, tool.Headers} {
		for name, value := range headers {
			req.Header.Set(name, value)
		}
	}
	req.Header.Set("Idempotency-Key", c.Key)
	traceparent.Set(ctx, req.Header)
	return req, nil
}

// fillURL replaces the placeholders of a URL. An argument never changes the
// host, nor does it add a segment to the path.
func fillURL(template string, args map[string]any) (*url.URL, error) {
	path, query, hasQuery := strings.Cut(template, "?")
	path, err := fill(path, args, func(name, value string) (string, error) {
		if value == "" || value == "." || value == ".." {
			return "", fmt.Errorf("%s must not be %q", name, value)
		}
		return url.PathEscape(value), nil
	})
	if err != nil {
		return nil, err
	}
	if hasQuery {
		query, err = fill(query, args, func(_, value string) (string, error) { return url.QueryEscape(value), nil })
		if err != nil {
			return nil, err
		}
		path += "?" + query
	}
	return url.Parse(path)
}

// addQuery adds arguments to the query of a URL. A list is one parameter for
// each of its elements.
func addQuery(target *url.URL, args map[string]any) error {
	query := target.Query()
	for _, name := range slices.Sorted(maps.Keys(args)) {
		values, ok := args[name].([]any)
		if !ok {
			values = []any{args[name]}
		}
		for _, v := range values {
			if v == nil {
				continue
			}
			text, err := scalar(name, map[string]any{name: v})
			if err != nil {
				return err
			}
			query.Add(name, text)
		}
	}
	target.RawQuery = query.Encode()
	return nil
}

// statusError is an answer that is no success.
type statusError struct{ text string }

func (e *statusError) Error() string { return e.text }

// maxErrorText bounds the bytes of an error page that a model reads.
const maxErrorText = 4 << 10

// answer reads a response. One with another status than 2xx is a statusError.
func answer(tool string, resp *http.Response) (Result, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxResult+1))
	switch {
	case err != nil:
		return Result{}, err
	case len(body) > MaxResult:
		return Result{}, &statusError{fmt.Sprintf("the answer has more than %d MiB", MaxResult>>20)}
	case resp.StatusCode < 200 || resp.StatusCode > 299:
		page := text(string(body[:min(len(body), maxErrorText)]))
		return Result{}, &statusError{fmt.Sprintf("HTTP %d: %s", resp.StatusCode, page)}
	}
	return content(tool, resp.Header.Get("Content-Type"), body), nil
}

// content returns the result for a body: its text, or a file.
func content(tool, contentType string, body []byte) Result {
	media, _, _ := mime.ParseMediaType(contentType)
	if isText(media, body) {
		return Result{Text: text(string(body))}
	}
	name := tool
	if all, _ := mime.ExtensionsByType(media); len(all) > 0 {
		name += all[0]
	}
	note := fmt.Sprintf("[%s: %d bytes of %s]", name, len(body), cmp.Or(media, "an unknown type"))
	return Result{Text: note, Files: []File{{Name: name, MediaType: media, Bytes: body}}}
}

// isText reports whether a body of a media type is text for a model.
func isText(media string, body []byte) bool {
	switch {
	case strings.HasPrefix(media, "text/"), strings.HasSuffix(media, "json"), strings.HasSuffix(media, "xml"):
		return true
	case media == "" || media == "application/octet-stream":
		return strings.HasPrefix(http.DetectContentType(body), "text/")
	}
	return media == "application/x-www-form-urlencoded" || media == "application/javascript"
}
