package toolset_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/toolset"
)

// httpSet returns a toolset of the kind http with the tool act.
func httpSet(tool configs.ToolsetTool) toolset.Set {
	return toolset.HTTP(configs.Toolset{
		Kind: configs.ToolsetHTTP, Headers: map[string]string{"Authorization": "Bearer s3cret"},
		Tools: map[string]configs.ToolsetTool{"act": tool},
	})
}

// callOf returns a call of the tool act.
func callOf(arguments string) toolset.Call {
	return toolset.Call{Tool: "act", Arguments: json.RawMessage(arguments), Key: "tree.r-1-0"}
}

// TestHTTP: a request has the arguments that the URL names in the URL, and the
// others in the query or the JSON body. It has the headers of the toolset, and
// the key of the call. Arguments that do not fit are an error.
func TestHTTP(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Idempotency-Key") != "tree.r-1-0" || r.Header.Get("Authorization") != "Bearer s3cret" {
			w.WriteHeader(http.StatusForbidden)
		}
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), body)
	}))
	t.Cleanup(s.Close)
	for _, test := range []struct {
		name, method, url, arguments, want string
	}{
		{
			"get",
			"",
			"/a/{id}",
			`{"id":"x/y?z","n":12345678901234567890,"b":true}`,
			"GET /a/x%2Fy%3Fz?b=true&n=12345678901234567890  ",
		},
		{"list", "GET", "/a?q={q}", `{"q":"a&b","tag":["x","y"],"none":null}`, "GET /a?q=a%26b&tag=x&tag=y  "},
		{"post", "POST", "/a/{id}", `{"id":7,"deep":{"n":1.50}}`, `POST /a/7 application/json {"deep":{"n":1.50}}`},
		{"delete", "DELETE", "/a/{id}", `{"id":"7"}`, "DELETE /a/7  "},
		{"missing", "", "/a/{id}", `{}`, "error: id is required"},
		{"above", "", "/a/{id}", `{"id":".."}`, `error: id must not be ".."`},
		{"object in the URL", "", "/a/{id}", `{"id":{}}`, "error: id must be a string, a number, true or false"},
		{"no object", "", "/a", `[]`, "error: the arguments must be a JSON object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r, err := httpSet(configs.ToolsetTool{Method: test.method, URL: s.URL + test.url}).
				Call(t.Context(), callOf(test.arguments))
			got := r.Text
			if err != nil {
				got = "error: " + err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestHTTPAnswers: an image becomes a file. An answer that is too large and an
// HTTP error are errors. A redirect to another host is not followed, and the
// call counts as lost. No error has the URL in it, which may hold a secret.
func TestHTTPAnswers(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the request was sent to another host")
	}))
	t.Cleanup(elsewhere.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("/image", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "image/png")
		_, _ = w.Write([]byte("\x89PNG\x00"))
	})
	mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, toolset.MaxResult+1))
	})
	mux.HandleFunc("/error", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(strings.Repeat("no ", 3000)))
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	call := func(path string) (toolset.Result, error) {
		return httpSet(
			configs.ToolsetTool{Method: "POST", URL: s.URL + path + "?key=s3cret"},
		).Call(t.Context(), callOf("{}"))
	}
	r, err := call("/image")
	if err != nil || len(r.Files) != 1 || r.Files[0].Name != "act.png" || string(r.Files[0].Bytes) != "\x89PNG\x00" ||
		r.Text != "[act.png: 5 bytes of image/png]" {
		t.Errorf("an image: got %+v, error %v; want the file act.png of 5 bytes", r, err)
	}
	for path, want := range map[string]string{
		"/away": "a redirect to another host", "/large": "the answer has more than 16 MiB", "/error": "HTTP 409: no no",
	} {
		_, err := call(path)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, toolset.ErrLost) == (path != "/away") {
			t.Errorf("%s: got %v, want %q, and ErrLost: %t", path, err, want, path == "/away")
		}
		if err != nil && (strings.Contains(err.Error(), "s3cret") || len(err.Error()) > 5000) {
			t.Errorf("%s: the error has %d bytes, want at most 5000 and no secret: %.200v", path, len(err.Error()), err)
		}
	}
}

// TestHTTPLost: a call counts as lost if its request was sent and no answer
// came. The request is sent once. A call to a service that is down is not lost.
func TestHTTPLost(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
	}))
	t.Cleanup(s.Close)
	_, err := httpSet(configs.ToolsetTool{Method: "POST", URL: s.URL}).Call(t.Context(), callOf("{}"))
	if !errors.Is(err, toolset.ErrLost) || requests.Load() != 1 {
		t.Errorf("got %v after %d requests, want ErrLost after 1", err, requests.Load())
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	_, err = httpSet(
		configs.ToolsetTool{Method: "POST", URL: "http://" + l.Addr().String()},
	).Call(t.Context(), callOf("{}"))
	if err == nil || errors.Is(err, toolset.ErrLost) {
		t.Errorf("got %v, want an error that is not ErrLost", err)
	}
}

// TestHTTPCancelled: the end of the context ends the call, and the request at
// the service.
func TestHTTPCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	ended := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel(enough)
		<-r.Context().Done()
		close(ended)
	}))
	t.Cleanup(s.Close)
	_, err := httpSet(configs.ToolsetTool{URL: s.URL}).Call(ctx, callOf("{}"))
	if !errors.Is(err, enough) {
		t.Errorf("got %v, want the cause of the context", err)
	}
	<-ended
}
