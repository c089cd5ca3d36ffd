package wire

import (
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/axebus/axe/internal/traceparent"
	"github.com/axebus/axe/provider"
)

// TestReadBounded: readBounded returns up to the limit of bytes. A longer body
// and a broken read are errors, with the bytes until then.
func TestReadBounded(t *testing.T) {
	for _, n := range []int{0, 9, 10} {
		if b, err := readBounded(strings.NewReader(strings.Repeat("x", n)), 10); err != nil || len(b) != n {
			t.Errorf("%d bytes: got %d, %v; want all and no error", n, len(b), err)
		}
	}
	if b, err := readBounded(strings.NewReader(strings.Repeat("x", 11)), 10); err == nil || len(b) != 10 {
		t.Errorf("11 bytes: got %d, %v; want 10 and an error", len(b), err)
	}
	cut := io.MultiReader(strings.NewReader("some"), iotest.ErrReader(io.ErrUnexpectedEOF))
	if b, err := readBounded(cut, 10); string(b) != "some" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a broken read: got %q, %v; want its bytes and its error", b, err)
	}
}

// TestRetryAfter: the header Retry-After has seconds or a date. The pause is 0
// if it has neither, and maxRetryAfter at most.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]time.Duration{
		"":                               0,
		"0":                              0,
		"-5":                             0,
		"30":                             30 * time.Second,
		"1.5":                            1500 * time.Millisecond,
		"NaN":                            0,
		"Inf":                            maxRetryAfter,
		"-Inf":                           0,
		"1e999":                          maxRetryAfter,
		"99999999999999":                 maxRetryAfter,
		"soon":                           0,
		"Sun, 01 Mar 2026 12:01:30 GMT":  90 * time.Second,
		"Sun, 01 Mar 2026 11:00:00 GMT":  0,
		"Mon, 01 Mar 2027 12:00:00 GMT":  maxRetryAfter,
		"Sunday, 01-Mar-26 12:01:30 GMT": 90 * time.Second,
	}
	for header, want := range tests {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: got %v, want %v", header, got, want)
		}
	}
}

// FuzzRetryAfter: a pause is never negative and never longer than
// maxRetryAfter.
func FuzzRetryAfter(f *testing.F) {
	for _, header := range []string{"7", "1e308", "0x1p-2", "Sun, 01 Mar 2026 12:01:30 GMT", "_1"} {
		f.Add(header, int64(0))
	}
	f.Fuzz(func(t *testing.T, header string, now int64) {
		if got := retryAfter(header, time.Unix(now%math.MaxInt32, 0)); got < 0 || got > maxRetryAfter {
			t.Errorf("%q: got %v, want 0 to %v", header, got, maxRetryAfter)
		}
	})
}

// FuzzPrintable: a text for an error is one printable line within the limit,
// without the key. One more character may be the ellipsis.
func FuzzPrintable(f *testing.F) {
	f.Add("no such key: sk-test-0123456789.\r\n\x1b[31m", 200)
	f.Add(strings.Repeat("é ", 500)+"sk-test-0123456789", 1000)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		const key = "sk-test-0123456789"
		limit = 1 + int(uint(limit)%maxMessage)
		e := &Endpoint{key: key}
		got := e.printable(s, limit)
		if strings.Contains(got, key) || !utf8.ValidString(got) || utf8.RuneCountInString(got) > limit+1 {
			t.Errorf("%q became %q, want valid UTF-8 of at most %d characters, without the key", s, got, limit+1)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r != ' ' && blank(r) }) {
			t.Errorf("%q is not one printable line", got)
		}
	})
}

// TestMalformedURLShowsNoSecret: the error about a malformed base URL shows it
// without userinfo and query, wherever they stand.
func TestMalformedURLShowsNoSecret(t *testing.T) {
	for base, want := range map[string]string{
		"localhost:11434":                   `"localhost:11434"`,
		"http://user:hunter2@host:port/x?k": `"http://host:port/x"`,
		"hunter2@://":                       `"://"`,
		"user:hunter2@host://x":             `"host://x"`,
		"host?key=hunter2://x":              `"host"`,
	} {
		if _, shown, err := resolveURL(base, "api/chat"); err == nil || shown != want {
			t.Errorf("%q is shown as %s, want %s (%v)", base, shown, want, err)
		}
	}
}

// FuzzResolveURL: a base URL gives a URL that a request can have, or an error
// of the category bad_request. The URL for errors does not show the password
// hunter2. The check leaves out base URLs with several @, which may have that
// text elsewhere.
func FuzzResolveURL(f *testing.F) {
	for _, base := range []string{
		"http://user:hunter2@host/x@y", "hunter2@host", "http://user:hun%zzter2@host", "://hunter2@", "hunter2@://",
	} {
		f.Add(base)
	}
	f.Fuzz(func(t *testing.T, base string) {
		target, shown, err := resolveURL(base, "api/chat")
		if err == nil {
			_, err = http.NewRequestWithContext(t.Context(), http.MethodPost, target, http.NoBody)
		}
		if e, ok := errors.AsType[*provider.Error](err); err != nil && (!ok || e.Category != provider.BadRequest) {
			t.Errorf("%q: got %v, want a bad_request or no error", base, err)
		}
		if strings.Contains(shown, "hunter2@") && strings.Count(base, "@") == 1 {
			t.Errorf("%q is shown as %q, want it without the password", base, shown)
		}
	})
}

// TestNetworkTimeoutIsATimeout: a timeout of the network is an error of the
// category timeout, and another failure of it one of the category server. Both
// name the host.
func TestNetworkTimeoutIsATimeout(t *testing.T) {
	for cause, want := range map[error]provider.Category{
		os.ErrDeadlineExceeded: provider.Timeout,
		io.ErrUnexpectedEOF:    provider.Server,
	} {
		broken := roundTripper(func(*http.Request) (*http.Response, error) { return nil, cause })
		cfg := Config{Base: "http://host", KeyOptional: true, HTTP: &http.Client{Transport: broken}}
		_, err := New(cfg).Post(t.Context(), nil, nil)
		e, ok := errors.AsType[*provider.Error](err)
		if !ok || e.Category != want || !errors.Is(err, cause) {
			t.Errorf("%v: got %v, want category %s and the cause", cause, err, want)
		}
		if want := "cannot reach http://host: " + cause.Error(); ok && e.Message != want {
			t.Errorf("message %q, want %q", e.Message, want)
		}
	}
}

// TestLargeRequestHint: the error of a large request says that it may be too
// large if the server has closed the connection. It does not say so if there
// was no connection.
func TestLargeRequestHint(t *testing.T) {
	t.Parallel()
	closing := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	defer closing.Close()
	untrusted := httptest.NewUnstartedServer(http.NotFoundHandler())
	untrusted.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	untrusted.StartTLS()
	defer untrusted.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	proxy, err := url.Parse(closed.URL)
	if err != nil {
		t.Fatal(err)
	}
	throughProxy := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	for _, tt := range []struct {
		what, base string
		http       *http.Client
		hint       bool
	}{
		{"the server closes", closing.URL, nil, true},
		{"no server", closed.URL, nil, false},
		{"no host", "http://nosuch.invalid", nil, false},
		{"no proxy", "http://nosuch.invalid", throughProxy, false},
		{"a certificate that is not trusted", untrusted.URL, nil, false},
	} {
		cfg := Config{Base: tt.base, KeyOptional: true, HTTP: tt.http}
		_, err := New(cfg).Post(t.Context(), strings.Repeat("x", 2<<20), nil)
		if err == nil || strings.Contains(err.Error(), "shorten") != tt.hint {
			t.Errorf("%s: got %v, want a hint: %t", tt.what, err, tt.hint)
		}
	}
}

// TestBodyIsClosed: Post closes the body of every answer. An open body would
// keep its connection forever.
func TestBodyIsClosed(t *testing.T) {
	for status, text := range map[int]string{200: "{", 302: "", 500: "out of memory"} {
		body := &closer{Reader: strings.NewReader(text)}
		answers := roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: status, Body: body}, nil
		})
		cfg := Config{Base: "http://host", KeyOptional: true, HTTP: &http.Client{Transport: answers}}
		_, err := New(cfg).Post(t.Context(), nil, nil)
		if err == nil || !body.closed {
			t.Errorf("status %d: got %v, closed %t; want an error and a closed body", status, err, body.closed)
		}
	}
}

// TestTrace: a request carries the trace of its context, and no other one does.
func TestTrace(t *testing.T) {
	for _, want := range []string{"", "00-1-2-01"} {
		ctx := t.Context()
		if want != "" {
			ctx = traceparent.With(ctx, want)
		}
		got := "none was sent"
		answers := roundTripper(func(r *http.Request) (*http.Response, error) {
			got = strings.Join(r.Header.Values("traceparent"), ",")
			return nil, errors.New("seen")
		})
		cfg := Config{Base: "http://host", KeyOptional: true, HTTP: &http.Client{Transport: answers}}
		if _, err := New(cfg).Post(ctx, nil, nil); err == nil || got != want {
			t.Errorf("the request has the traceparent %q, error %v; want %q", got, err, want)
		}
	}
}

// closer is a body that records whether it was closed.
type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error {
	c.closed = true
	return nil
}

// roundTripper is a function as an http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
