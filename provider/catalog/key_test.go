package catalog

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/axebus/axe/provider"
)

// keyServer answers requests with one of the good keys, refuses all others, and
// keeps the keys of all requests.
type keyServer struct {
	*httptest.Server
	good map[string]bool
	got  []string
}

func newKeyServer(t *testing.T, good ...string) *keyServer {
	t.Helper()
	s := &keyServer{good: map[string]bool{}}
	for _, key := range good {
		s.good[key] = true
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		s.got = append(s.got, key)
		if !s.good[key] {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// catalog returns a Catalog with settings for openai at the server.
func (s *keyServer) catalog(settings Settings, env map[string]string) *Catalog {
	settings.BaseURL = s.URL
	return New(Config{
		Getenv: func(name string) string { return env[name] }, Settings: map[string]Settings{"openai": settings},
	})
}

// send asks once.
func send(t *testing.T, c *Catalog) error {
	t.Helper()
	p, model, err := c.Open("openai/m")
	if err != nil {
		return err
	}
	_, err = p.Send(t.Context(), &provider.Request{
		Model: model, Messages: []provider.Message{{Role: provider.User, Content: "hello"}},
	})
	return err
}

func writeKey(t *testing.T, file, key string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKeyFile: a key in a file counts from the next Open on. The credentials of
// a systemd service go before it, and the environment before both.
func TestKeyFile(t *testing.T) {
	s := newKeyServer(t, "one", "two", "three", "four")
	dir := t.TempDir()
	file, env := filepath.Join(dir, "key"), map[string]string{}
	c := s.catalog(Settings{APIKeyFile: file}, env)
	for _, step := range []func(){
		func() { writeKey(t, file, "one") },
		func() { writeKey(t, file, "  two ") },
		func() { env["CREDENTIALS_DIRECTORY"] = dir },
		func() { writeKey(t, filepath.Join(dir, "openai_api_key"), "three") },
		func() { env["OPENAI_API_KEY"] = "four" },
	} {
		step()
		if err := send(t, c); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Join(s.got, " "); got != "one two two three four" {
		t.Errorf("the keys were %s", got)
	}
}

// TestKeyCommand: the command runs once for many requests. After the provider
// has refused its key it runs again, and the request is sent again with the new
// key, but not with the same one.
func TestKeyCommand(t *testing.T) {
	s := newKeyServer(t, "one")
	dir := t.TempDir()
	runs, key := filepath.Join(dir, "runs"), filepath.Join(dir, "key")
	writeKey(t, key, "one")
	c := s.catalog(Settings{APIKeyCommand: []string{"sh", "-c", `echo x >>"$0"; cat "$1"`, runs, key}}, nil)
	check := func(wantRuns int, wantKeys string) {
		t.Helper()
		b, err := os.ReadFile(runs)
		if got := strings.Count(string(b), "x"); err != nil || got != wantRuns {
			t.Errorf("the command ran %d times, want %d", got, wantRuns)
		}
		if got := strings.Join(s.got, " "); got != wantKeys {
			t.Errorf("the keys were %s, want %s", got, wantKeys)
		}
	}
	for range 3 {
		if err := send(t, c); err != nil {
			t.Fatal(err)
		}
	}
	check(1, "one one one")
	delete(s.good, "one")
	s.good["two"] = true
	writeKey(t, key, "two")
	if err := send(t, c); err != nil {
		t.Fatal(err)
	}
	check(2, "one one one one two")
	delete(s.good, "two")
	if e, ok := errors.AsType[*provider.Error](send(t, c)); !ok || e.Category != provider.Auth {
		t.Errorf("with a refused key: %v, want a refusal", e)
	}
	check(3, "one one one one two two")
}

// TestUnreadableKey: a key that cannot be read is an error of Open, and the
// error shows nothing of what a command printed.
func TestUnreadableKey(t *testing.T) {
	s := newKeyServer(t)
	empty := filepath.Join(t.TempDir(), "empty")
	writeKey(t, empty, "")
	const hides = "S=sec; S=${S}ret; echo $S >&2; echo $S; exit 1"
	for want, settings := range map[string]Settings{
		"/nowhere: no such file":      {APIKeyFile: "/nowhere"},
		"empty is empty":              {APIKeyFile: empty},
		"sh -c exit 3: exit status 3": {APIKeyCommand: []string{"sh", "-c", "exit 3"}},
		"command true printed no key": {APIKeyCommand: []string{"true"}},
		"executable file not found":   {APIKeyCommand: []string{"no-such-program"}},
		"exit 1: exit status 1":       {APIKeyCommand: []string{"sh", "-c", hides}},
	} {
		c := s.catalog(settings, nil)
		err := send(t, c)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want an error with %q", err, want)
		}
		if missing := c.MissingKey("openai/m"); missing != "" {
			t.Errorf("%s: MissingKey returned %q besides", want, missing)
		}
	}
	if len(s.got) != 0 {
		t.Errorf("the provider was asked %d times", len(s.got))
	}
}
