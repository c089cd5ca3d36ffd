package httpguard_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axebus/axe/internal/httpguard"
)

// at is the address at which a request of the tests arrives.
const at = "127.0.0.1:9180"

// answer returns the status of a request with headers to a guarded handler of a
// role. The header Host is the host of the request.
func answer(g httpguard.Guard, role httpguard.Role, method string, header http.Header) int {
	h := g.CheckHost(g.CheckOrigin(g.Require(role, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))))
	r := httptest.NewRequestWithContext(context.Background(), method, "http://"+at+"/", http.NoBody)
	local, _ := net.ResolveTCPAddr("tcp", at)
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local)))
	maps.Copy(r.Header, header)
	if host := header.Get("Host"); host != "" {
		r.Host = host
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// with makes the headers of a request from names and values.
func with(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// TestOrigins: a request of a page of another site is refused with any method.
// A request with the Host header of another host is refused too: DNS rebinding
// makes such a request.
func TestOrigins(t *testing.T) {
	g := httpguard.Guard{Hosts: []string{"axe.example"}}
	for name, tt := range map[string]struct {
		header http.Header
		want   int
	}{
		"no page":             {with(), 200},
		"own page":            {with("Origin", "http://"+at), 200},
		"own page by name":    {with("Host", "localhost:9180", "Origin", "http://localhost:9180"), 200},
		"behind a proxy":      {with("Host", "axe.example", "Origin", "https://axe.example"), 200},
		"address of IPv6":     {with("Host", "[::1]:9180"), 200},
		"another site":        {with("Origin", "http://evil.example"), 403},
		"another port":        {with("Origin", "http://127.0.0.1:80"), 403},
		"cross-site":          {with("Sec-Fetch-Site", "cross-site"), 403},
		"same site":           {with("Sec-Fetch-Site", "same-site"), 403},
		"file":                {with("Origin", "null"), 403},
		"rebound name":        {with("Host", "evil.example:9180", "Origin", "http://evil.example:9180"), 403},
		"rebound, no origin":  {with("Host", "evil.example"), 403},
		"like a local name":   {with("Host", "localhost.evil.example"), 403},
		"like an address":     {with("Host", "127.0.0.1.evil.example"), 403},
		"end of an own name":  {with("Host", "notaxe.example"), 403},
		"address of a LAN":    {with("Host", "10.0.0.7:9180"), 403},
		"empty name and port": {with("Host", ":9180"), 403},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			if got := answer(g, httpguard.Read, method, tt.header); got != tt.want {
				t.Errorf("%s, %s: status %d, want %d", name, method, got, tt.want)
			}
		}
	}
}

// TestRoles: a token permits what its roles permit, and no more.
func TestRoles(t *testing.T) {
	tokens, err := httpguard.ReadTokens(write(t, "# a comment\n\nread r1\nsubmit s1\nread,submit rs\noperate o1\n"))
	if err != nil {
		t.Fatal(err)
	}
	g := httpguard.Guard{Tokens: tokens}
	for token, want := range map[string]string{
		"r1": "200 403 403", "s1": "403 200 403", "rs": "200 200 403", "o1": "200 200 200",
		"": "401 401 401", "r": "401 401 401", "#": "401 401 401",
		"o1 ": "200 200 200", //nolint:gocritic // it is the same token
	} {
		var got []string
		for _, role := range []httpguard.Role{httpguard.Read, httpguard.Submit, httpguard.Operate} {
			status := answer(g, role, http.MethodGet, with("Authorization", "Bearer "+token))
			got = append(got, map[int]string{200: "200", 401: "401", 403: "403"}[status])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("token %q: statuses %v for read, submit, operate; want %s", token, got, want)
		}
	}
	if got := answer(g, httpguard.Read, http.MethodGet, with("Authorization", "Basic o1")); got != 401 {
		t.Errorf("another scheme: status %d, want 401", got)
	}
}

// write writes a file of tokens.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestReadTokens: a file has one token, or a role and a token on each line. The
// error of any other file names its line.
func TestReadTokens(t *testing.T) {
	if _, err := httpguard.ReadTokens(write(t, "  alone\n")); err != nil {
		t.Errorf("a file with one token: %v", err)
	}
	for text, want := range map[string]string{
		"":                        "has no token",
		"# none\n":                "has no token",
		"read a\nwrite b\n":       `:2: role must be read, submit or operate, got "write"`,
		"read a\noperate a\n":     ":2: want one token alone",
		"alone\nalso\n":           ":2: want one token alone",
		"read a b\n":              ":1: want one token alone",
		"read, a\n":               `:1: role must be read, submit or operate, got ""`,
		"\n\nread a\n\n\nadmin b": `:6: role must be`,
	} {
		if _, err := httpguard.ReadTokens(write(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	if _, err := httpguard.ReadTokens(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is missing: error %v, want that it does not exist", err)
	}
}

// TestListen: a server without tokens listens on this machine alone.
func TestListen(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0"} {
		_, err := httpguard.Listen(t.Context(), address, httpguard.Tokens{})
		if !errors.Is(err, httpguard.ErrNotLocal) {
			t.Errorf("%s without a token: error %v, want ErrNotLocal", address, err)
		}
	}
	l, err := httpguard.Listen(t.Context(), "127.0.0.1:0", httpguard.Tokens{})
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if l, err = httpguard.Listen(t.Context(), "0.0.0.0:0", httpguard.OneToken("x")); err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
}
