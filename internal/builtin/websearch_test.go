package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// webKey is the key of the search service.
const webKey = "tvly-secret"

// searching returns web_search with the environment of a worker.
func searching(environment map[string]string) webSearcher {
	return webSearcher{func(name string) string { return environment[name] }, webSearchTime}
}

// at returns web_search of the service at a URL, with a key.
func at(base string) webSearcher {
	return searching(map[string]string{"TAVILY_API_KEY": webKey, "AXE_WEB_SEARCH_BASE_URL": base})
}

// TestWebSearch: the result is a list of at most ten results. An answer of the
// service that is an error, or no JSON, is an error without the key.
func TestWebSearch(t *testing.T) {
	t.Parallel()
	many := `{"results": [` + strings.Repeat(`{"title": "t", "url": "u", "content": "c"}, `, 11) + `{}]}`
	for _, tt := range []struct {
		name   string
		status int
		answer string
		toolCall
	}{
		{"results", 200, `{"query": "q", "response_time": 1.2, "results": [
			{"title": "Go", "url": "https://go.dev", "content": "The Go language.", "score": 0.9, "raw_content": null},
			{"title": "Spec", "url": "https://go.dev/ref/spec", "content": "Two\nlines", "score": 0.8}
		]}`, toolCall{want: "Title: Go\nURL: https://go.dev\nSnippet: The Go language.\n\n" +
			"Title: Spec\nURL: https://go.dev/ref/spec\nSnippet: Two\nlines"}},
		{"too many results", 200, many, toolCall{
			want: strings.TrimSuffix(strings.Repeat("Title: t\nURL: u\nSnippet: c\n\n", 10), "\n\n"),
		}},
		{"no results", 200, `{"results": []}`, toolCall{want: "No results found."}},
		{"a bad key", 401, `{"detail": {"error": "Unauthorized: invalid API key."}}`, toolCall{
			wantErr: "the search service answered HTTP 401: Unauthorized: invalid API key.",
		}},
		{"an answer with the key", 403, "no: " + webKey, toolCall{
			wantErr: "the search service answered HTTP 403: no: [redacted]",
		}},
		{"a long error", 500, strings.Repeat("x", 5000), toolCall{
			wantErr: "the search service answered HTTP 500: " + strings.Repeat("x", 1000) + "…",
		}},
		{"over the plan", 432, `{"detail": "limit"}`, toolCall{
			wantErr: `the search service answered HTTP 432: {"detail": "limit"}`,
		}},
		{"no JSON", 200, "<html>", toolCall{wantErr: "the answer of the search service is malformed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				fmt.Fprint(w, tt.answer)
			}))
			defer srv.Close()
			tt.arguments = args{"query": "q"}
			tt.check(t, at(srv.URL).tool(), Call{})
		})
	}
}

// TestWebSearchRequest: the request has the form of Tavily's API. The key is in
// a header, and not in the URL or the body.
func TestWebSearchRequest(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("body: %v", err)
		}
		want := map[string]any{"query": `say "hi"`, "search_depth": "basic", "max_results": 10.0}
		if diff := cmp.Diff(want, body); diff != "" {
			t.Errorf("body (-want +got):\n%s", diff)
		}
		if r.Method != http.MethodPost || r.RequestURI != "/v1/search" ||
			r.Header.Get("Authorization") != "Bearer "+webKey || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("request: %s %s %v, want POST /v1/search with the key and JSON", r.Method, r.RequestURI, r.Header)
		}
		fmt.Fprint(w, "{}")
	}))
	defer srv.Close()
	tt := toolCall{arguments: args{"query": `say "hi"`}, want: "No results found."}
	tt.check(t, at(srv.URL+"/v1/").tool(), Call{})
}

// TestWebSearchErrors: a call without a query, a key or a service is an error.
// No redirect is followed. No error shows the key, or the password in a URL.
func TestWebSearchErrors(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/search" {
			t.Error("the redirect was followed")
		}
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	query := args{"query": "q"}
	for _, tt := range []struct {
		environment map[string]string
		toolCall
	}{
		{nil, toolCall{"no query", nil, "", "query is required"}},
		{nil, toolCall{"an empty query", args{"query": " "}, "", "query is required"}},
		{nil, toolCall{"no key", query, "", "the worker has no TAVILY_API_KEY"}},
		{map[string]string{"TAVILY_API_KEY": " "}, toolCall{"an empty key", query, "", "no TAVILY_API_KEY"}},
		{
			map[string]string{"TAVILY_API_KEY": webKey, "AXE_WEB_SEARCH_BASE_URL": "http://u:pass word@x"},
			toolCall{"a bad address", query, "", "AXE_WEB_SEARCH_BASE_URL of the worker must be an http or https URL"},
		},
		{
			map[string]string{"TAVILY_API_KEY": webKey, "AXE_WEB_SEARCH_BASE_URL": "api.tavily.com"},
			toolCall{"no scheme", query, "", "AXE_WEB_SEARCH_BASE_URL of the worker must be an http or https URL"},
		},
		{
			map[string]string{"TAVILY_API_KEY": webKey, "AXE_WEB_SEARCH_BASE_URL": gone.URL},
			toolCall{"a service that is down", query, "", "the search service cannot be reached: "},
		},
		{
			map[string]string{"TAVILY_API_KEY": webKey + "\n" + webKey, "AXE_WEB_SEARCH_BASE_URL": srv.URL},
			toolCall{"a malformed key", query, "", "the search service cannot be reached: "},
		},
		{
			map[string]string{"TAVILY_API_KEY": webKey, "AXE_WEB_SEARCH_BASE_URL": srv.URL},
			toolCall{"a redirect", query, "", "the search service answered HTTP 307"},
		},
	} {
		tool := searching(tt.environment).tool()
		tt.check(t, tool, Call{})
		_, err := use(t.Context(), tool, Call{Arguments: tt.arguments})
		if text := fmt.Sprint(err); strings.Contains(text, webKey) || strings.Contains(text, "pass word") {
			t.Errorf("%s: the error has a secret: %s", tt.name, text)
		}
	}
}

// TestWebSearchTime: a service does not answer. The call ends after its time,
// or when its context ends.
func TestWebSearchTime(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	defer srv.CloseClientConnections()
	s := at(srv.URL)
	s.timeout = 50 * time.Millisecond
	toolCall{arguments: args{"query": "q"}, wantErr: "no answer within 50ms"}.check(t, s.tool(), Call{})
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(50*time.Millisecond, func() { cancel(stopped) })
	if got, err := use(ctx, at(srv.URL).tool(), Call{Arguments: args{"query": "q"}}); !errors.Is(err, stopped) {
		t.Errorf("got %q and error %v, want %v", got, err, stopped)
	}
}
