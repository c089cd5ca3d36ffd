package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/axebus/axe/cmd/internal/cli"
)

// TestProbe: the command succeeds for the answer 200 alone. It follows no
// redirect, and waits for no answer beyond its time.
func TestProbe(t *testing.T) {
	hung := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /draining", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "draining", http.StatusServiceUnavailable)
	})
	mux.HandleFunc("GET /moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/readyz", http.StatusFound)
	})
	mux.HandleFunc("GET /hung", func(http.ResponseWriter, *http.Request) { <-hung })
	server := httptest.NewServer(mux)
	defer server.Close()
	defer close(hung)
	for _, test := range []struct {
		args, want string
		code       int
	}{
		{server.URL + "/readyz", "", cli.CodeOK},
		{server.URL + "/draining", "/draining answers 503 Service Unavailable: draining", cli.CodeFailed},
		{server.URL + "/moved", "answers 302 Found", cli.CodeFailed},
		{server.URL + "/hung --timeout 50ms", "deadline exceeded", cli.CodeFailed},
		{"http://127.0.0.1:1/readyz", "connection refused", cli.CodeFailed},
		{"127.0.0.1:9181", "first path segment in URL", cli.CodeConfig},
		{"/readyz", "want one like http://127.0.0.1:9181/readyz", cli.CodeConfig},
		{server.URL + "/readyz --timeout 0", "--timeout must be positive, got 0s", cli.CodeConfig},
	} {
		cmd := command()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(append([]string{"probe"}, strings.Fields(test.args)...))
		err := cmd.ExecuteContext(t.Context())
		if code := cli.Code(err); code != test.code || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("axe probe %s: code %d, error %v; want %d, %q", test.args, code, err, test.code, test.want)
		}
	}
}
