package providertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
)

// handler answers a request. Body is the request's body.
type handler func(w http.ResponseWriter, r *http.Request, body []byte)

// serve opens the provider with a server. The server checks the parts that all
// requests share.
func (s Subject) serve(t *testing.T, h handler) provider.Provider {
	t.Helper()
	srv := httptest.NewServer(s.checkingHandler(t, h))
	t.Cleanup(srv.Close)
	return s.open(srv.URL, srv.Client())
}

// open opens the provider with the Subject's key.
func (s Subject) open(base string, hc *http.Client) provider.Provider { return s.New(s.Key, base, hc) }

// serveAnswer opens the provider with a server that always sends the same
// answer.
func (s Subject) serveAnswer(t *testing.T, status int, body string) provider.Provider {
	t.Helper()
	return s.serve(t, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

// checkingHandler checks each request and passes it to h.
func (s Subject) checkingHandler(t *testing.T, h handler) http.Handler {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	path := s.basePath + u.Path
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		if r.Method != http.MethodPost || r.URL.Path != path {
			t.Errorf("got %s %s, want POST %s", r.Method, r.URL.Path, path)
		}
		if got := r.Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("content type = %q", got)
		}
		for k, want := range s.Header {
			if got := r.Header.Get(k); got != want {
				t.Errorf("%s = %q, want %q", k, got, want)
			}
		}
		h(w, r, body)
	})
}

// send fails the test unless the request succeeds.
func send(t *testing.T, p provider.Provider, req *provider.Request) *provider.Response {
	t.Helper()
	resp, err := p.Send(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// sendFails fails the test unless a request fails with an error of that
// category. The error must not show the key.
func (s Subject) sendFails(t *testing.T, p provider.Provider, want provider.Category) *provider.Error {
	t.Helper()
	resp, err := p.Send(t.Context(), hello())
	return s.checkError(t, resp, err, want)
}

func (s Subject) checkError(t *testing.T, resp *provider.Response, err error, want provider.Category) *provider.Error {
	t.Helper()
	e := checkFailure(t, resp, err, want)
	for ; err != nil; err = errors.Unwrap(err) {
		if s.Key != "" && strings.Contains(err.Error(), s.Key) {
			t.Errorf("the key is shown: %v", err)
		}
	}
	return e
}

// checkFailure fails the test unless err is a *provider.Error of that category
// with a message of one printable line.
func checkFailure(t *testing.T, resp *provider.Response, err error, want provider.Category) *provider.Error {
	t.Helper()
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || resp != nil {
		t.Fatalf("got %+v, %v; want a *provider.Error", resp, err)
	}
	if e.Category != want {
		t.Errorf("category = %s, want %s (%v)", e.Category, want, err)
	}
	if strings.ContainsAny(e.Message, "\r\n\t\x1b") {
		t.Errorf("message is not one printable line: %q", e.Message)
	}
	return e
}

// sameJSON compares two JSON texts. White space and the order of fields do not
// matter. Every digit of a number does.
func sameJSON(t *testing.T, want, got []byte) {
	t.Helper()
	if diff := cmp.Diff(decodeJSON(t, want), decodeJSON(t, got)); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

func decodeJSON(t *testing.T, b []byte) any {
	t.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Errorf("%v in %s", err, b)
	}
	return v
}
