package cmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// countingModel is a model over HTTP, in the format of Ollama, that takes a while and counts: what it
// was asked, and which of its askers went away before it answered.
type countingModel struct {
	latency time.Duration
	asked   atomic.Int64
	aborted atomic.Int64
}

// ServeHTTP delegates to the agent that the system prompt names, three times, and then answers with its
// own label and the results in order.
func (m *countingModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Messages []struct{ Role, Content string }
		Tools    []any
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	m.asked.Add(1)
	select {
	case <-time.After(m.latency):
	case <-r.Context().Done():
		m.aborted.Add(1)
		return
	}
	var system, label string
	var results []string
	for _, msg := range req.Messages {
		switch msg.Role {
		case "system":
			system = msg.Content
		case "user":
			label = strings.TrimPrefix(msg.Content, "Task: ")
		case "tool":
			results = append(results, msg.Content)
		}
	}
	answer := map[string]any{"role": "assistant", "content": label + "(" + strings.Join(results, " ") + ")"}
	if len(req.Tools) > 0 && len(results) == 0 {
		var calls []any
		for i := range 3 {
			calls = append(calls, map[string]any{"function": map[string]any{
				"name":      "call_agent",
				"arguments": map[string]string{"agent": system, "task": fmt.Sprintf("%s.%d", label, i)},
			}})
		}
		answer = map[string]any{"role": "assistant", "content": "", "tool_calls": calls}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"message": answer, "done": true, "done_reason": "stop", "prompt_eval_count": 10, "eval_count": 1})
}

func wantAnswer(label string, depth int) string {
	var parts []string
	for i := range 3 {
		if depth > 0 {
			parts = append(parts, wantAnswer(fmt.Sprintf("%s.%d", label, i), depth-1))
		}
	}
	return label + "(" + strings.Join(parts, " ") + ")"
}

// chaos is a set of real processes on one server.
type chaos struct {
	t      *testing.T
	bin    string
	agents string
	url    string
	env    []string
}

func (c *chaos) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, program), args...)
	cmd.Env = append(os.Environ(), c.env...)
	return cmd
}

// worker starts an agentd; the test's end kills it.
func (c *chaos) worker(name string, args ...string) *exec.Cmd {
	c.t.Helper()
	log := &buffer{}
	cmd := c.command(context.Background(), "agentd", append([]string{"--agents", c.agents, "--name", name, "--log-format", "text"}, args...)...)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	var once sync.Once
	c.t.Cleanup(func() {
		once.Do(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		if c.t.Failed() {
			c.t.Logf("%s:\n%s", name, log)
		}
	})
	return cmd
}

func (c *chaos) submit(args ...string) (string, error) {
	var out, diag bytes.Buffer
	cmd := c.command(c.t.Context(), "axe-submit", append(args, "--server", c.url)...)
	cmd.Stdout, cmd.Stderr = &out, &diag
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("axe-submit %v: %w: %s", args, err, diag.String())
	}
	return out.String(), nil
}

// chaosTrees is how many trees the kill hits; AXE_CHAOS_TREES changes it.
func chaosTrees(t *testing.T) int {
	t.Helper()
	n := 100
	if s := os.Getenv("AXE_CHAOS_TREES"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestChaosKillWorker kills one of two agentd processes with SIGKILL in the middle of many trees of
// 1+3+9 agents and replaces it. Every tree answers, rightly and in order, once; the model was asked no
// more often than needed, but for the requests that were in flight at the kill.
func TestChaosKillWorker(t *testing.T) {
	trees := chaosTrees(t)
	model := &countingModel{latency: 200 * time.Millisecond}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	server, err := bus.Serve(bus.ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	c := &chaos{t: t, bin: binaries(t), agents: t.TempDir(), url: server.URL(), env: []string{"AXE_OLLAMA_BASE_URL=" + web.URL}}
	for i, sub := range []string{"mid", "leaf", ""} {
		name := []string{"lead", "mid", "leaf"}[i]
		toml := fmt.Sprintf("name = %q\nmodel = \"ollama/counting\"\nsystem_prompt = %q\n", name, sub)
		if sub != "" {
			toml += fmt.Sprintf("sub_agents = [%q]\n", sub)
		}
		if err := os.WriteFile(filepath.Join(c.agents, name+".toml"), []byte(toml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	serve := []string{"--server", c.url, "--slots", "64", "--ack-wait", "5s"}
	victim := c.worker("victim", serve...)
	c.worker("other", serve...)
	conn := c.connect()
	ids := make([]string, trees)
	var g errgroup.Group
	g.SetLimit(4)
	start := time.Now()
	for i := range ids {
		ids[i] = fmt.Sprintf("chaos%03d", i)
		g.Go(func() error {
			_, err := c.submitReady("lead", fmt.Sprintf("L%d", i), "--id", ids[i], "--detach")
			return err
		})
	}
	minimum := int64(trees * (2 + 3*2 + 9))
	for model.asked.Load() < minimum/3 { // the middle of it
		time.Sleep(10 * time.Millisecond)
	}
	if err := victim.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = victim.Wait()
	c.worker("heir", serve...)
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		g.Go(func() error {
			got, err := c.submit("wait", id)
			if want := wantAnswer(fmt.Sprintf("L%d", i), 2) + "\n"; err == nil && got != want {
				err = fmt.Errorf("tree %s answered %q, want %q", id, got, want)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	took := time.Since(start)
	extra := model.asked.Load() - minimum
	mixed, results := c.tally(conn, ids)
	t.Logf("%d trees in %v; model asked %d times, minimum %d, %d in flight at the kill; %d trees served by several workers",
		trees, took.Round(time.Millisecond), model.asked.Load(), minimum, model.aborted.Load(), mixed)
	if extra > model.aborted.Load() {
		t.Errorf("%d turns were asked again, but only %d were in flight at the kill", extra, model.aborted.Load())
	}
	if model.aborted.Load() == 0 {
		t.Error("nothing was in flight at the kill: it hit nobody")
	}
	if mixed == 0 {
		t.Error("no tree was served by more than one worker")
	}
	if results != trees {
		t.Errorf("%d results of %d trees", results, trees)
	}
}

// submitReady submits as soon as a worker has set up the bus.
func (c *chaos) submitReady(args ...string) (string, error) {
	var out string
	var err error
	for range 50 {
		if out, err = c.submit(args...); err == nil {
			return out, nil
		}
		time.Sleep(200 * time.Millisecond)
	}
	return out, err
}

func (c *chaos) connect() *bus.Conn {
	c.t.Helper()
	conn, err := bus.Open(c.t.Context(), bus.Config{Dial: bus.Dial{URL: c.url}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(conn.Close)
	return conn
}

// tally counts the trees in whose logs and outcomes more than one worker is named, and the results.
func (c *chaos) tally(conn *bus.Conn, ids []string) (mixed, results int) {
	c.t.Helper()
	sp := conn.Space()
	for _, id := range ids {
		tree, err := subjects.ParseTree(id)
		if err != nil {
			c.t.Fatal(err)
		}
		ms, err := conn.Since(c.t.Context(), sp.TreeOf(tree), 0)
		if err != nil {
			c.t.Fatal(err)
		}
		root, err := conn.Since(c.t.Context(), sp.ResultOf(tree), 0)
		if err != nil {
			c.t.Fatal(err)
		}
		results += len(root)
		workers := map[string]bool{}
		for _, m := range append(ms, root...) {
			at, err := sp.Parse(m.Subject)
			if err != nil {
				c.t.Fatal(err)
			}
			switch at.Kind { //nolint:exhaustive // only these name a worker
			case subjects.Log:
				e, err := run.DecodeEntry(m.Body)
				if err != nil {
					c.t.Fatal(err)
				}
				workers[e.Worker] = true
			case subjects.Reply, subjects.Result:
				o, err := run.DecodeOutcome(m.Body)
				if err != nil {
					c.t.Fatal(err)
				}
				workers[o.Worker] = true
			}
		}
		if len(workers) > 1 {
			mixed++
		}
	}
	return mixed, results
}
