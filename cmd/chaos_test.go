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
	"slices"
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

// countingModel is a model over HTTP, in the format of Ollama, that takes a while and counts what it was
// asked, and by whom: each worker asks below a path of its own.
type countingModel struct {
	latency time.Duration
	asked   atomic.Int64
	mu      sync.Mutex
	askers  map[string][]string // label#turn to workers
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
	var system, label string
	var results []string
	turn := 1
	for _, msg := range req.Messages {
		switch msg.Role {
		case "assistant":
			turn++
		case "system":
			system = msg.Content
		case "user":
			label = strings.TrimPrefix(msg.Content, "Task: ")
		case "tool":
			results = append(results, msg.Content)
		}
	}
	m.asked.Add(1)
	worker, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	m.mu.Lock()
	key := fmt.Sprintf("%s#%d", label, turn)
	m.askers[key] = append(m.askers[key], worker)
	m.mu.Unlock()
	select {
	case <-time.After(m.latency):
	case <-r.Context().Done():
		return
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
	model  string
}

func (c *chaos) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, program), args...)
	cmd.Env = os.Environ()
	return cmd
}

// worker starts an agentd; the test's end kills it.
func (c *chaos) worker(name string, args ...string) *exec.Cmd {
	c.t.Helper()
	log := &buffer{}
	cmd := c.command(context.Background(), "agentd", append([]string{"--agents", c.agents, "--name", name, "--log-format", "text"}, args...)...)
	cmd.Env = append(cmd.Env, "AXE_OLLAMA_BASE_URL="+c.model+"/"+name)
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
	model := &countingModel{latency: 200 * time.Millisecond, askers: map[string][]string{}}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	server, err := bus.Serve(bus.ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	c := &chaos{t: t, bin: binaries(t), agents: t.TempDir(), url: server.URL(), model: web.URL}
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
	mixed, results, by := c.tally(conn, ids)
	extra, inFlight := model.again(t, by)
	t.Logf("%d trees in %v; model asked %d times, minimum %d, %d in flight at the kill; %d trees served by several workers",
		trees, took.Round(time.Millisecond), model.asked.Load(), minimum, inFlight, mixed)
	if extra > inFlight || int64(extra) != model.asked.Load()-minimum {
		t.Errorf("%d turns were asked again, but %d were in flight at the kill", extra, inFlight)
	}
	if inFlight == 0 {
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

// again counts the turns that were asked a second time, and those that the victim had asked and not
// stored when it died. Only the latter may be among the former.
func (m *countingModel) again(t *testing.T, by map[string]string) (extra, inFlight int) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, who := range m.askers {
		lost := slices.Contains(who, "victim") && by[key] != "victim"
		if lost {
			inFlight++
		}
		if extra += len(who) - 1; len(who) > 2 || len(who) == 2 && !lost {
			t.Errorf("turn %s was asked by %v and stored by %s", key, who, by[key])
		}
	}
	return extra, inFlight
}

// tally counts the trees in whose logs and outcomes more than one worker is named, and the results, and
// says who stored each turn.
func (c *chaos) tally(conn *bus.Conn, ids []string) (mixed, results int, by map[string]string) {
	c.t.Helper()
	by = map[string]string{}
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
		labels := map[string]string{}
		for _, m := range append(ms, root...) {
			at, err := sp.Parse(m.Subject)
			if err != nil {
				c.t.Fatal(err)
			}
			switch at.Kind { //nolint:exhaustive // only these name a worker
			case subjects.Call:
				var in run.Input
				if err := json.Unmarshal(m.Body, &in); err != nil {
					c.t.Fatal(err)
				}
				labels[at.Run.Path.String()] = in.Task
			case subjects.Log:
				e, err := run.DecodeEntry(m.Body)
				if err != nil {
					c.t.Fatal(err)
				}
				workers[e.Worker] = true
				by[fmt.Sprintf("%s#%d", labels[at.Run.Path.String()], e.Index)] = e.Worker
			case subjects.Reply, subjects.Result:
				o, err := run.DecodeOutcome(m.Body)
				if err != nil {
					c.t.Fatal(err)
				}
				workers[o.Worker] = true
				by[fmt.Sprintf("%s#%d", labels[o.Path], o.Turns)] = o.Worker
			}
		}
		if len(workers) > 1 {
			mixed++
		}
	}
	return mixed, results, by
}
