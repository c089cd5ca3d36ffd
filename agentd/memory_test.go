package agentd_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// remembers gives an agent a memory, of which the model is shown the last n
// entries; 0: all.
func remembers(n int) func(*configs.Agent) {
	return func(a *configs.Agent) { a.Memory = configs.Memory{Enabled: true, LastN: n} }
}

// memoryOf reads an agent's memory as its workers do.
func (h *harness) memoryOf(store memory.Store, agent string) string {
	text, err := store.Open(h.root(agent).Agent, "").Read(h.ctx)
	if err != nil {
		h.tb.Fatal(err)
	}
	return text
}

// TestMemory: roots and sub-agents remember in files and on the bus, each in
// its own memory. The last entries are shown to the model the next time. A
// failure is not remembered.
func TestMemory(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"files", "bus"} {
		dir := t.TempDir()
		withHarness(t, func(h *harness) {
			store := memory.Store(memory.Files{Dir: dir})
			if place == "bus" {
				store = memory.Bucket{Values: h.conn.Memory()}
			}
			h.agents = []configs.Agent{
				define("lead", []string{"leaf", "bad"}, remembers(1)),
				define("leaf", nil, remembers(0)),
				define("bad", nil, remembers(0)),
			}
			h.models["lead"] = turns(calls(call("leaf", "one"), call("bad", "two")), joinsResults)
			h.models["bad"] = fails(&provider.Error{Category: provider.Server, Message: "broken"})
			h.models["leaf"] = repeats
			h.startWorker("w", workerOptions{Config: agentd.Config{Memory: store}})
			for _, task := range []string{"first", " ", "third"} {
				h.expectCompleted(h.submit("lead", task), "c0=one|c1="+failedCall("bad", "server: broken"))
				h.awaitReady()
			}
			lead, leaf := h.memoryOf(store, "lead"), h.memoryOf(store, "leaf")
			for i, want := range []string{"first", "Execute the task described in your instructions.", "third"} {
				entry := memory.Last(memory.Last(lead, 3-i), 0)
				if !strings.Contains(entry, "**Task:** "+want+"\n**Result:** c0=one|c1=Error: ") {
					t.Errorf("%s: %q is not in\n%s", place, want, lead)
				}
			}
			if memory.Count(lead) != 3 || memory.Count(leaf) != 3 || h.memoryOf(store, "bad") != "" {
				t.Errorf("%s: want 3 entries of lead and leaf each, and none of bad; lead\n%s\nleaf\n%s\nbad\n%s",
					place, lead, leaf, h.memoryOf(store, "bad"))
			}
			// The first turn of the third tree. Its heading Memory counts
			// like an entry.
			last := h.requests("lead")[4].System
			if !strings.HasPrefix(last, "leaf\n\n---\n\n## Memory\n\n## ") &&
				!strings.HasPrefix(last, "## Memory\n\n## ") ||
				memory.Count(last) != 2 {
				t.Errorf("%s: the model was shown %d headings, want Memory and the last entry:\n%s",
					place, memory.Count(last), last)
			}
			if first := h.requests("leaf")[0].System; strings.Contains(first, "Memory") {
				t.Errorf("%s: the first run was shown a memory: %s", place, first)
			}
		})
	}
}

// TestMemoryIsNotForked: a fork with a prompt starts with the prompt alone. It
// is not shown its agent's memory.
func TestMemoryIsNotForked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil, remembers(1), mailing)}
		h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if req.runID() == "r" && req.turn == 1 {
				return calls(use("fork", "prompt", "one"))(ctx, req)
			}
			if req.runID() == "r" && req.turn == 2 {
				return calls(use("wait"))(ctx, req)
			}
			return says("done")(ctx, req)
		}
		h.startWorker("w", workerOptions{Config: agentd.Config{Memory: memory.Files{Dir: dir}}})
		for range 2 {
			h.expectCompleted(h.submit("lead", "go"), "done")
			h.awaitReady()
		}
		forks, roots := h.requestsOf("r-1-0"), h.requestsOf("r")
		if len(forks) != 2 {
			t.Fatalf("the forks were asked %d times, want once in each of 2 trees", len(forks))
		}
		if text := roots[len(roots)-1].System; !strings.Contains(text, "## Memory") {
			t.Errorf("the second root was shown no memory: %s", text)
		}
		if text := forks[1].System; strings.Contains(text, "Memory") {
			t.Errorf("the second fork was shown a memory: %s", text)
		}
	})
}

// TestMemoryAfterACrash: a worker dies after it has stored an outcome: before
// it writes the memory, or between that and the acknowledgement. When another
// worker has taken over, the memory has exactly one entry.
func TestMemoryAfterACrash(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, written := range []bool{false, true} {
		dir := t.TempDir()
		withHarness(t, func(h *harness) {
			store := memory.Files{Dir: dir}
			h.agents = []configs.Agent{define("leaf", nil, remembers(0))}
			var victim *worker
			dies := failingMemory{store, func(write func() error) error {
				var err error
				if written {
					err = write()
				}
				victim.kill()
				return errors.Join(err, errKilled)
			}}
			victim = h.startWorker("w1", workerOptions{Config: agentd.Config{Memory: dies}})
			h.awaitReady()
			r := h.submit("leaf", "go")
			h.expectCompleted(r, "leaf")
			h.awaitReady() // the memory is written after the outcome
			if got := memory.Count(h.memoryOf(store, "leaf")) == 1; got != written {
				t.Errorf("the victim has left one entry: %t, want %t", got, written)
			}
			h.startWorker("w2", workerOptions{Config: agentd.Config{Memory: store}})
			time.Sleep(10 * time.Minute)
			if text := h.memoryOf(store, "leaf"); memory.Count(text) != 1 {
				t.Errorf("written %t: want one entry in\n%s", written, text)
			}
			if n := len(h.requests("leaf")); n != 1 {
				t.Errorf("the model was asked %d times, want once", n)
			}
		})
	}
}

// failingMemory is a store that calls die in place of each write. The argument
// of die makes the write.
type failingMemory struct {
	memory.Store
	die func(write func() error) error
}

func (m failingMemory) Open(a subjects.Agent, path string) memory.Log {
	return failingMemoryLog{m.Store.Open(a, path), m.die}
}

type failingMemoryLog struct {
	memory.Log
	die func(write func() error) error
}

func (l failingMemoryLog) Append(ctx context.Context, e memory.Entry) error {
	return l.die(func() error { return l.Log.Append(ctx, e) })
}

// TestBrokenMemoryFailsNoRun: a memory that cannot be read or written does not
// affect a run.
func TestBrokenMemoryFailsNoRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "leaf.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil, remembers(0))}
		store := memory.Files{Dir: dir}
		h.startWorker("w", workerOptions{Config: agentd.Config{Memory: store}})
		h.expectCompleted(h.submit("leaf", "go"), "leaf")
		if _, err := store.Open(h.root("leaf").Agent, "").Read(h.ctx); err == nil {
			t.Error("the memory can be read, want an error")
		}
	})
}
