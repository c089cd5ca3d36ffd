package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/providertest"
)

// minimal is an answer in the formats of all three providers.
const minimal = `{"content":[],"choices":[{"message":{}}],"message":{}}`

// fakeNetwork is a network in which every host sends a minimal answer. It has
// the URL and the key of each request.
type fakeNetwork struct {
	mu   sync.Mutex
	seen []string
}

// RoundTrip implements http.RoundTripper.
func (e *fakeNetwork) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, r.URL.String()+" "+r.Header.Get("X-Api-Key")+r.Header.Get("Authorization"))
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(minimal))}, nil
}

// open opens a model and checks the name that Open returns.
func open(t *testing.T, c *Catalog, model, wantName string) provider.Provider {
	t.Helper()
	p, name, err := c.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	if name != wantName {
		t.Errorf("%s: name %q, want %q", model, name, wantName)
	}
	return p
}

// TestOpenReadsTheEnvironment: the keys and the base URLs of the environment
// are those of the requests.
func TestOpenReadsTheEnvironment(t *testing.T) {
	net := &fakeNetwork{}
	env := map[string]string{
		"ANTHROPIC_API_KEY": "key-a", "OPENAI_API_KEY": "key-b", "AXE_OPENAI_BASE_URL": "http://proxy/b",
		"AXE_OLLAMA_BASE_URL": "http://gpu:11434",
	}
	c := New(Config{Getenv: func(k string) string { return env[k] }, HTTP: &http.Client{Transport: net}})
	for _, test := range []struct{ model, name, want string }{
		{"anthropic/claude-x", "claude-x", "https://api.anthropic.com/v1/messages key-a"},
		{"openai/org/model:7b", "org/model:7b", "http://proxy/b/v1/chat/completions Bearer key-b"},
		{"ollama/hf.co/a/b", "hf.co/a/b", "http://gpu:11434/api/chat "},
	} {
		p := open(t, c, test.model, test.name)
		if _, err := p.Send(t.Context(), &provider.Request{Model: test.name}); err != nil {
			t.Fatal(err)
		}
		if got := net.seen[len(net.seen)-1]; got != test.want {
			t.Errorf("%s: request to %q, want %q", test.model, got, test.want)
		}
	}
}

// TestOpenReusesProviders: a provider is opened once, and again after its key
// has changed. A printed catalog does not show a key from the environment.
func TestOpenReusesProviders(t *testing.T) {
	env := map[string]string{"OPENAI_API_KEY": "old"}
	c := New(Config{Getenv: func(k string) string { return env[k] }})
	first := open(t, c, "openai/a", "a")
	if open(t, c, "openai/b", "b") != first {
		t.Error("a second model of a provider opened it again")
	}
	env["OPENAI_API_KEY"] = "new"
	if open(t, c, "openai/a", "a") == first {
		t.Error("the old key is still in use")
	}
	if s := fmt.Sprintf("%+v %#v", c, c); strings.Contains(s, "new") {
		t.Error("a printed catalog shows the key")
	}
}

// TestOpenIsSafeForConcurrentUse: goroutines open models of all providers at
// the same time, without an error or a race.
func TestOpenIsSafeForConcurrentUse(t *testing.T) {
	dir := t.TempDir()
	writeScript(t, dir)
	c := New(Config{ScriptDir: dir, Getenv: func(string) string { return "" }})
	var wg sync.WaitGroup
	for range 8 {
		for _, model := range []string{"anthropic/a", "openai/a", "ollama/a", "script/hello"} {
			wg.Go(func() {
				if _, _, err := c.Open(model); err != nil {
					t.Errorf("%s: %v", model, err)
				}
			})
		}
	}
	wg.Wait()
}

// TestMissingKey: MissingKey names the variable of a key that a model needs and
// does not have. Open accepts such a model, and Send returns an error with that
// variable.
func TestMissingKey(t *testing.T) {
	c := New(Config{Getenv: func(string) string { return "" }})
	for _, model := range []string{"ollama/a", "script/a", "nonsense", "acme/a"} {
		if got := c.MissingKey(model); got != "" {
			t.Errorf("%s: MissingKey returned %q, want none", model, got)
		}
	}
	for model, want := range map[string]string{
		"anthropic/a": `"anthropic" is not configured (set ANTHROPIC_API_KEY or add to config.toml)`,
		"openai/a":    `"openai" is not configured (set OPENAI_API_KEY or add to config.toml)`,
	} {
		want = "API key for provider " + want
		_, err := open(t, c, model, "a").Send(t.Context(), &provider.Request{Model: "a"})
		e, ok := errors.AsType[*provider.Error](err)
		if !ok || e.Category != provider.Auth || e.Message != want {
			t.Errorf("%s: got %v, want %s", model, err, want)
		}
		variable := c.MissingKey(model)
		if variable == "" || !strings.Contains(want, "set "+variable) {
			t.Errorf("%s: MissingKey returned %q, want the variable in %s", model, variable, want)
		}
		env := map[string]string{variable: "key"}
		configured := New(Config{Getenv: func(name string) string { return env[name] }})
		if got := configured.MissingKey(model); got != "" {
			t.Errorf("%s: with a key MissingKey returned %q, want none", model, got)
		}
	}
}

// TestUnreadAddress: UnreadAddress names a variable that other clients read,
// but not if the address is set for this package too.
func TestUnreadAddress(t *testing.T) {
	env := map[string]string{"OPENAI_BASE_URL": "http://proxy", "OLLAMA_HOST": "gpu", "ACME_BASE_URL": "http://acme"}
	c := New(Config{Getenv: func(name string) string { return env[name] }})
	for model, want := range map[string][2]string{
		"openai/a":    {"OPENAI_BASE_URL", "AXE_OPENAI_BASE_URL"},
		"ollama/a":    {"OLLAMA_HOST", "AXE_OLLAMA_BASE_URL"},
		"anthropic/a": {}, // its variable is not set
		"acme/a":      {},
		"nonsense":    {},
	} {
		if unread, read := c.UnreadAddress(model); unread != want[0] || read != want[1] {
			t.Errorf("%s: UnreadAddress returned %q and %q, want %q", model, unread, read, want)
		}
	}
	env["AXE_OPENAI_BASE_URL"] = "http://proxy"
	if unread, _ := c.UnreadAddress("openai/a"); unread != "" {
		t.Errorf("with AXE_OPENAI_BASE_URL set UnreadAddress returned %q, want none", unread)
	}
}

// TestMaxConns: MaxConns bounds the connections to each provider.
func TestMaxConns(t *testing.T) {
	const limit = 3
	for _, vendor := range []string{"anthropic", "openai", "ollama"} {
		t.Run(vendor, func(t *testing.T) {
			providertest.CheckConnections(t, limit, minimal, func(base string) provider.Provider {
				settings := map[string]Settings{vendor: {APIKey: "key", BaseURL: base}}
				c := New(Config{MaxConns: limit, Settings: settings, Getenv: func(string) string { return "" }})
				return open(t, c, vendor+"/a", "a")
			})
		})
	}
}

// TestOpenRefuses: Open refuses malformed names of models, unknown providers
// and missing scripts.
func TestOpenRefuses(t *testing.T) {
	c := New(Config{ScriptDir: t.TempDir()})
	for model, want := range map[string]string{
		"":        `invalid model format "": expected provider/model-name`,
		"gpt-4o":  `invalid model format "gpt-4o": expected provider/model-name`,
		"openai/": `invalid model format "openai/": empty model name`,
		"/gpt-4o": `invalid model format "/gpt-4o": empty provider`,
		"/":       `invalid model format "/": empty provider`,
		"OpenAI/gpt-4o": `unsupported provider "OpenAI": supported providers are ` +
			"anthropic, openai, ollama (and script, offline)",
	} {
		p, name, err := c.Open(model)
		if err == nil || err.Error() != want || p != nil || name != "" {
			t.Errorf("%q: got %v, %q, %v; want the error %s", model, p, name, err, want)
		}
	}
	for _, model := range []string{"script/missing", "script/../etc/passwd"} {
		p, _, err := c.Open(model)
		if err == nil || p != nil || !strings.Contains(err.Error(), model) {
			t.Errorf("%s: got %v, %v; want an error that names the model", model, p, err)
		}
	}
}

// TestScriptIsReadOnce: Open reads the file of a script once. After a failure
// it reads it again.
func TestScriptIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	c := New(Config{ScriptDir: dir})
	if _, _, err := c.Open("script/hello"); err == nil {
		t.Fatal("no error for a missing script")
	}
	// Open reads again after a failure.
	writeScript(t, dir)
	first := open(t, c, "script/hello", "hello")
	if open(t, c, "script/hello", "hello") != first {
		t.Error("a second Open returned another script")
	}
}

// writeScript writes the script hello into a directory.
func writeScript(t *testing.T, dir string) {
	t.Helper()
	const script = "[[turn]]\ntext = \"Hello.\"\n"
	if err := os.WriteFile(filepath.Join(dir, "hello.toml"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAccount: one key at one address is one account, for any model and from
// the environment or a file. The name of an account has a short hash.
func TestAccount(t *testing.T) {
	account := func(env map[string]string, file Settings, model string) string {
		return New(Config{
			Getenv: func(name string) string { return env[name] }, Settings: map[string]Settings{"openai": file},
		}).Account(model)
	}
	key := map[string]string{"OPENAI_API_KEY": "sk-1"}
	one := account(key, Settings{}, "openai/gpt-5")
	// Workers of all versions share the limits of an account by its name.
	if want := "openai-3d8c878a480c"; one != want {
		t.Errorf("account %q, want %q as in older versions", one, want)
	}
	for _, same := range []string{
		account(key, Settings{APIKey: "another"}, "openai/other"),
		account(nil, Settings{APIKey: "sk-1"}, "openai/gpt-5"),
	} {
		if same != one {
			t.Errorf("account %q, want %q for the same key and address", same, one)
		}
	}
	for _, other := range []string{
		account(nil, Settings{APIKey: "sk-2"}, "openai/gpt-5"),
		account(key, Settings{BaseURL: "http://gateway"}, "openai/gpt-5"),
		account(map[string]string{"ANTHROPIC_API_KEY": "sk-1"}, Settings{}, "anthropic/x"),
	} {
		if other == one || len(other) < len("openai-")+12 {
			t.Errorf("account %q, want one with 12 digits other than %q", other, one)
		}
	}
	slash := account(key, Settings{BaseURL: "http://gateway/"}, "openai/x")
	if slash != account(key, Settings{BaseURL: "http://gateway"}, "openai/x") {
		t.Error("a slash at the end of the base URL makes another account")
	}
	for _, none := range []string{"script/x", "nonsense"} {
		if got := account(key, Settings{}, none); got != "" {
			t.Errorf("%s: account %q, want none", none, got)
		}
	}
}

// TestIdleTimeout: a server begins an answer and does not end it. The idle
// timeout of the provider ends the request.
func TestIdleTimeout(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer srv.Close()
	for i, name := range []string{"anthropic", "openai", "ollama"} {
		idle := time.Duration(i+1) * time.Millisecond
		c := New(Config{Getenv: func(string) string { return "" }, Settings: map[string]Settings{
			name: {APIKey: "sk-test-0123456789", BaseURL: srv.URL, IdleTimeout: idle},
		}})
		p, model, err := c.Open(name + "/m")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		_, err = p.Send(ctx, &provider.Request{Model: model})
		cancel()
		if e, ok := errors.AsType[*provider.Error](err); !ok || e.Category != provider.Timeout ||
			!strings.Contains(e.Message, idle.String()) {
			t.Errorf("%s: got %v, want a timeout with %v", name, err, idle)
		}
	}
}
