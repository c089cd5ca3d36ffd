package cmd_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// canary is a machine with secrets, and with a program that repeats them: a
// provider and an HTTP service whose answers have the headers of their requests.
type canary struct {
	t   *testing.T
	dir string
	env []string
	// secrets are the texts that must not be found, by their places.
	secrets map[string]string
	// shown has all that programs printed.
	shown bytes.Buffer
	mu    sync.Mutex
}

// task is a text that has to be found, so that the search is known to search.
const canaryTask = "look-for-this-task"

// echo answers with the headers of the request. The path says how.
func (c *canary) echo(w http.ResponseWriter, r *http.Request) {
	var headers strings.Builder
	for name, values := range r.Header {
		fmt.Fprintf(&headers, "%s: %s; ", name, strings.Join(values, ", "))
	}
	switch {
	case strings.HasPrefix(r.URL.Path, "/refusing/"):
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":%q}}`, "refused with "+headers.String())
	case strings.HasPrefix(r.URL.Path, "/shop/failing"):
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprint(w, headers.String())
	case strings.HasPrefix(r.URL.Path, "/shop/"):
		fmt.Fprint(w, headers.String())
	default: // a model that calls both tools, and then repeats what it was told
		body := new(bytes.Buffer)
		_, _ = body.ReadFrom(r.Body)
		if strings.Contains(body.String(), `"role":"tool"`) {
			fmt.Fprint(w, `{"choices":[{"message":{"role":"assistant","content":"done"},"finish_reason":"stop"}]}`)
			return
		}
		call := func(id, tool string) string {
			return fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":"{}"}}`, id, tool)
		}
		fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":"","tool_calls":[%s,%s]},`+
			`"finish_reason":"tool_calls"}]}`, call("c1", "look"), call("c2", "fail"))
	}
}

func (c *canary) write(name, text string) {
	c.t.Helper()
	file := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// command returns a program that prints into shown.
func (c *canary) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(binaries(c.t), name), args...)
	cmd.Dir, cmd.Env = c.dir, c.env
	cmd.Stdout, cmd.Stderr = c, c
	return cmd
}

// Write adds to shown.
func (c *canary) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shown.Write(p)
}

// run runs axe, however it ends.
func (c *canary) run(args ...string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	err := c.command(ctx, "axe", args...).Run()
	if ctx.Err() != nil {
		c.t.Fatalf("axe %v: no end", args)
	}
	fmt.Fprintf(c, "axe %v: %v\n", args, err)
}

// search fails the test for each secret in a text.
func (c *canary) search(where, text string) {
	for place, hidden := range c.secrets {
		if strings.Contains(text, hidden) {
			at := strings.Index(text, hidden)
			c.t.Errorf("%s shows %s: …%q", where, place, text[max(0, at-200):at+len(hidden)])
		}
	}
}

// TestCanary: secrets are in all places where a machine has them, and servers
// repeat what they are sent. Nothing that a program prints, logs, answers or
// stores has one of them, not even the dump of a killed worker.
func TestCanary(t *testing.T) {
	t.Parallel()
	c := &canary{t: t, dir: t.TempDir(), secrets: map[string]string{
		"the key in config.toml":            "canary-config-0001",
		"a key from a file":                 "canary-keyfile-0002",
		"a variable in a toolset's headers": "canary-toolset-0003",
		"a toolset's own header":            "canary-literal-0004",
		"the key of the web search":         "canary-tavily-0005",
		"the password of a URL":             "canary-urlpass-0006",
		"the password of a user":            "canary-userpass-0007",
		"the token of the bus":              "canary-token-0008",
	}}
	s := httptest.NewServer(http.HandlerFunc(c.echo))
	t.Cleanup(s.Close)
	c.write("config/axe/config.toml", fmt.Sprintf(`
[providers.openai]
api_key = %q
base_url = "%s/model"

[providers.anthropic]
api_key_file = "key"
base_url = "%s/refusing"
`, c.secrets["the key in config.toml"], s.URL, s.URL))
	c.write("config/axe/key", c.secrets["a key from a file"])
	c.write("agents/lead.toml", "name = \"lead\"\nmodel = \"openai/m\"\ntools = [\"shop/look\", \"shop/fail\"]\n")
	c.write("agents/refused.toml", "name = \"refused\"\nmodel = \"anthropic/m\"\n")
	c.write("tools/shop.toml", fmt.Sprintf(`
kind = "http"
headers = { Authorization = "Bearer ${SHOP_TOKEN}", X-Api-Key = %q }

[tool.look]
description = "Looks"
url = "%s/shop/look"
effect = "read"

[tool.fail]
description = "Fails"
url = "%s/shop/failing"
effect = "read"
`, c.secrets["a toolset's own header"], s.URL, s.URL))
	listen := freeAddress(t)
	c.env = append(os.Environ(),
		"XDG_CONFIG_HOME="+filepath.Join(c.dir, "config"), "XDG_STATE_HOME="+filepath.Join(c.dir, "state"),
		"XDG_DATA_HOME="+filepath.Join(c.dir, "data"), "HOME="+c.dir, "NATS_URL=nats://"+listen,
		"SHOP_TOKEN="+c.secrets["a variable in a toolset's headers"],
		"TAVILY_API_KEY="+c.secrets["the key of the web search"],
	)

	worker := c.command(t.Context(), "agentd", "--embedded", "--listen", listen, "--store", "store",
		"--agents", "agents", "--log-level", "debug")
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Wait() }()
	c.run("submit", "lead", canaryTask, "--id", "good", "--timeout", "1m", "-o", "json")
	c.run("submit", "refused", "go", "--id", "bad", "--timeout", "1m")
	seed, err := os.ReadFile(filepath.Join(c.dir, "state/axe/servers", strings.ReplaceAll(listen, ":", "_")+".nk"))
	if err != nil {
		t.Fatal(err)
	}
	c.secrets["the key of the server"] = strings.TrimSpace(string(seed))
	withPassword := "nats://ann:" + c.secrets["the password of a URL"] + "@"
	for _, line := range []string{
		"ps --all", "ps --all -o json", "show good", "show bad -o json", "log good", "log good --raw", "log bad --json",
		"verify --all", "status", "workers -o json", "agents list", "tools", "export good bad", "dead list",
		"config path", "check --agents agents", "describe lead", "ps --server " + withPassword + listen,
		"ps --server " + withPassword + "127.0.0.1:1 --log-level debug",
	} {
		c.run(strings.Fields(line)...)
	}
	plain := c.env
	for _, variables := range [][]string{
		{"NATS_USER=ann", "NATS_PASSWORD=" + c.secrets["the password of a user"]},
		{"NATS_TOKEN=" + c.secrets["the token of the bus"]},
		{"NATS_PASSWORD=" + c.secrets["the password of a user"], "NATS_TOKEN=" + c.secrets["the token of the bus"]},
	} {
		c.env = append(slices.Clip(plain), variables...)
		for _, line := range []string{
			"ps --log-level debug", "status -o json", "ps --server 127.0.0.1:1 --log-level debug", "config path",
			"submit lead go --timeout 1m --log-level debug",
		} {
			c.run(strings.Fields(line)...)
		}
	}
	c.env = plain
	c.run("run", "lead", "--agents", "agents", canaryTask, "--log-level", "debug")
	c.run("run", "refused", "--agents", "agents", "go", "-o", "json")
	// The dump of all goroutines.
	if err := worker.Process.Signal(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the worker ended without an error, want a dump")
	}

	shown := c.shown.String()
	// What was typed is what this test itself prints.
	c.secrets["the password of a URL"] = "ann:" + c.secrets["the password of a URL"]
	var clean []string
	for line := range strings.Lines(shown) {
		if !strings.HasPrefix(line, "axe [ps --server") {
			clean = append(clean, line)
		}
	}
	c.search("the output", strings.Join(clean, ""))
	stored := 0
	err = filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(c.dir, path)
		place := func(dir string) bool { return strings.HasPrefix(name, dir) }
		if err != nil || !d.Type().IsRegular() || place("config/") || place("tools/") || place("state/axe/servers/") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		stored += bytes.Count(content, []byte(canaryTask))
		c.search(name, string(content))
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for _, control := range []string{canaryTask, "[redacted]", "goroutine 1", "SIGQUIT", "refused with", "[key]"} {
		if !strings.Contains(shown, control) {
			t.Errorf("the output lacks %q, so it was not what this test means to search:\n%s", control, shown)
		}
	}
	if stored == 0 {
		t.Error("the store does not have the task, so the search of files finds nothing")
	}
}

// freeAddress returns a free address of this machine.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
