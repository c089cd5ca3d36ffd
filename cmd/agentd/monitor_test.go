package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/httpguard"
	"github.com/axebus/axe/internal/metrics"
	"github.com/axebus/axe/price"
)

// status returns the status of a request to the paths of a monitor. Header is a
// list of names and values.
func status(h http.Handler, path string, header ...string) int {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://127.0.0.1:9181"+path, http.NoBody)
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9181}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local)))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// TestMonitorAccess: the metrics need the token, if there is one, and the probes
// need none. Pages of other sites are refused.
func TestMonitorAccess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("read r1\nsubmit s1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := httpguard.ReadTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	state := &lifecycle{phase: starting, log: log}
	counts := metrics.NewWorker("test", price.Table{})
	open := (&monitor{metrics: counts}).handler(state, func() {}, log)
	guarded := (&monitor{metrics: counts, tokens: tokens}).handler(state, func() {}, log)
	for name, test := range map[string]struct{ got, want int }{
		"no token":            {status(open, "/metrics"), 200},
		"missing token":       {status(guarded, "/metrics"), 401},
		"wrong role":          {status(guarded, "/metrics", "Authorization", "Bearer s1"), 403},
		"right role":          {status(guarded, "/metrics", "Authorization", "Bearer r1"), 200},
		"health":              {status(guarded, "/healthz"), 200},
		"readiness":           {status(guarded, "/readyz"), 503},
		"another site":        {status(open, "/metrics", "Origin", "http://evil.example"), 403},
		"rebound name":        {status(open, "/metrics", "Host", "evil.example"), 403},
		"another site's look": {status(open, "/readyz", "Host", "evil.example"), 403},
		"no such path":        {status(open, "/v1/trees"), 404},
	} {
		if test.got != test.want {
			t.Errorf("%s: status %d, want %d", name, test.got, test.want)
		}
	}
}

// TestReadiness: a process takes work while it serves with a connection. One
// that drains takes none any more.
func TestReadiness(t *testing.T) {
	server, err := bus.Serve(bus.ServerConfig{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{Server: server}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	state := &lifecycle{log: slog.New(slog.DiscardHandler)}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() { state.begin(t.Context(), func() {})() }, "starting"},
		{state.serving, "not connected"},
		{func() { state.connected(conn) }, ""},
		{state.beginsAnew, "starting"},
		{state.serving, ""},
		{conn.Close, "not connected"},
		{state.draining, "draining"},
		{state.beginsAnew, "draining"},
		{state.serving, "draining"},
	} {
		step.do()
		if got := state.unready(); got != step.want {
			t.Errorf("the process says %q, want %q", got, step.want)
		}
	}
}

// TestLockedUp: a worker that has locked itself up is not healthy, however often
// it is asked. It is healthy once it works again.
func TestLockedUp(t *testing.T) {
	hung := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	checking := make(chan struct{}, 1)
	for range 3 {
		if got := locked(ctx, checking, func() { <-hung }); got == "" {
			t.Error("a worker that has locked itself up is healthy")
		}
	}
	close(hung)
	if got := locked(t.Context(), checking, func() {}); got != "" {
		t.Errorf("a worker that works again: %s", got)
	}
}

// TestMetricsFlags: metrics for other machines need a token, and a token needs
// metrics.
func TestMetricsFlags(t *testing.T) {
	agents := t.TempDir()
	for _, test := range []struct{ args, want string }{
		{"--metrics 0.0.0.0:0", "other machines may reach the address, so it needs a token (--metrics-token)"},
		{"--metrics-token x", "--metrics-token needs --metrics"},
		{"--metrics 127.0.0.1:0 --metrics-token missing", "--metrics-token: "},
	} {
		cmd := command()
		cmd.SetArgs(append(strings.Fields(test.args), "--agents", agents, "--log-level", "off"))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.args, err, test.want)
		}
	}
}
