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

func remembers(n int) func(*configs.Agent) {
	return func(a *configs.Agent) { a.Memory = configs.Memory{Enabled: true, LastN: n} }
}

// remembered reads an agent's memory as its workers have it.
func (s *stage) remembered(store memory.Store, agent string) string {
	text, err := store.Open(s.root(agent).Agent, "").Read(s.ctx)
	if err != nil {
		s.tb.Fatal(err)
	}
	return text
}

// TestMemory of a root and of a sub-agent, in files and on the bus: what each
// has done is in its own, the last of it comes before its model the next time,
// and a failure is not remembered.
func TestMemory(t *testing.T) {
	for _, place := range []string{"files", "bus"} {
		dir := t.TempDir()
		onStage(t, func(s *stage) {
			store := memory.Store(memory.Files{Dir: dir})
			if place == "bus" {
				store = memory.Bucket{Values: s.conn.Memory()}
			}
			s.agents = []configs.Agent{
				define("lead", []string{"leaf", "bad"}, remembers(1)),
				define("leaf", nil, remembers(0)),
				define("bad", nil, remembers(0)),
			}
			s.parts["lead"] = turns(calls(call("leaf", "one"), call("bad", "two")), sums)
			s.parts["bad"] = fails(&provider.Error{Category: provider.Server, Message: "broken"})
			s.parts["leaf"] = repeats
			s.hire("w", engagement{Config: agentd.Config{Memory: store}})
			for _, task := range []string{"first", " ", "third"} {
				s.completed(s.submit("lead", task), "c0=one|c1="+failedCall("bad", "server: broken"))
				s.settle()
			}
			lead, leaf := s.remembered(store, "lead"), s.remembered(store, "leaf")
			for i, want := range []string{"first", "Execute the task described in your instructions.", "third"} {
				entry := memory.Last(memory.Last(lead, 3-i), 0)
				if !strings.Contains(entry, "**Task:** "+want+"\n**Result:** c0=one|c1=Error: ") {
					t.Errorf("%s: %q is not in\n%s", place, want, lead)
				}
			}
			if memory.Count(lead) != 3 || memory.Count(leaf) != 3 || s.remembered(store, "bad") != "" {
				t.Errorf("%s: lead\n%s\nleaf\n%s", place, lead, leaf)
			}
			// the first turn of the third tree
			last := s.asked("lead")[4].req.System
			if !strings.HasPrefix(last, "leaf\n\n---\n\n## Memory\n\n## ") &&
				!strings.HasPrefix(last, "## Memory\n\n## ") ||
				memory.Count(last) != 2 {
				t.Errorf("%s: the last entry alone comes before the model:\n%s", place, last)
			}
			if first := s.asked("leaf")[0].req.System; strings.Contains(first, "Memory") {
				t.Errorf("%s: %s", place, first)
			}
		})
	}
}

// TestMemoryIsNotForked: a fork that is given a prompt knows nothing else, not
// what its agent remembers.
func TestMemoryIsNotForked(t *testing.T) {
	dir := t.TempDir()
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil, remembers(1), mailing)}
		s.parts["lead"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			if a.id() == "r" && a.turn == 1 {
				return calls(uses("fork", "prompt", "one"))(ctx, a)
			}
			if a.id() == "r" && a.turn == 2 {
				return calls(uses("wait"))(ctx, a)
			}
			return says("done")(ctx, a)
		}
		s.hire("w", engagement{Config: agentd.Config{Memory: memory.Files{Dir: dir}}})
		for range 2 {
			s.completed(s.submit("lead", "go"), "done")
			s.settle()
		}
		forks, roots := s.asksOf("r-1-0"), s.asksOf("r")
		if !strings.Contains(roots[len(roots)-1].req.System, "## Memory") || len(forks) != 2 ||
			strings.Contains(forks[1].req.System, "Memory") {
			t.Errorf("root: %s\nfork: %s", roots[len(roots)-1].req.System, forks[1].req.System)
		}
	})
}

// TestMemoryAfterACrash: a worker that dies between the outcome and the memory,
// or between that and the acknowledgement, leaves one entry behind it, not none
// and not two.
func TestMemoryAfterACrash(t *testing.T) {
	for _, written := range []bool{false, true} {
		dir := t.TempDir()
		onStage(t, func(s *stage) {
			store := memory.Files{Dir: dir}
			s.agents = []configs.Agent{define("leaf", nil, remembers(0))}
			var victim *hand
			dies := mortal{store, func(write func() error) error {
				var err error
				if written {
					err = write()
				}
				victim.kill()
				return errors.Join(err, errKilled)
			}}
			victim = s.hire("w1", engagement{Config: agentd.Config{Memory: dies}})
			s.settle()
			r := s.submit("leaf", "go")
			s.completed(r, "leaf")
			s.settle() // what it writes comes after that
			if got := memory.Count(s.remembered(store, "leaf")) == 1; got != written {
				t.Errorf("written %t: the victim wrote %t", written, got)
			}
			s.hire("w2", engagement{Config: agentd.Config{Memory: store}})
			time.Sleep(10 * time.Minute)
			if text := s.remembered(store, "leaf"); memory.Count(text) != 1 {
				t.Errorf("written %t:\n%s", written, text)
			}
			if n := len(s.asked("leaf")); n != 1 {
				t.Errorf("asked %d times", n)
			}
		})
	}
}

// mortal is a store whose writer dies.
type mortal struct {
	memory.Store
	die func(write func() error) error
}

func (m mortal) Open(a subjects.Agent, path string) memory.Log {
	return mortalLog{m.Store.Open(a, path), m.die}
}

type mortalLog struct {
	memory.Log
	die func(write func() error) error
}

func (l mortalLog) Append(ctx context.Context, e memory.Entry) error {
	return l.die(func() error { return l.Log.Append(ctx, e) })
}

// TestMemoryThatDoesNotWork is no matter for the run.
func TestMemoryThatDoesNotWork(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "leaf.md"), 0o700); err != nil {
		t.Fatal(err)
	}
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("leaf", nil, remembers(0))}
		store := memory.Files{Dir: dir}
		s.hire("w", engagement{Config: agentd.Config{Memory: store}})
		s.completed(s.submit("leaf", "go"), "leaf")
		if _, err := store.Open(s.root("leaf").Agent, "").Read(s.ctx); err == nil {
			t.Error(errors.New("the memory works"))
		}
	})
}
