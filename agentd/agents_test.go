package agentd_test

import (
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
)

// TestAgentAddedAndRemoved while the worker runs: it is known and served at
// once, and then no more.
func TestAgentAddedAndRemoved(t *testing.T) {
	onStage(t, func(s *stage) {
		one, two := define("one", []string{"two"}), define("two", nil)
		s.parts["one"] = turns(calls(call("two", "x")), sums)
		h := s.hire("w", engagement{agents: []configs.Agent{one}})
		const unknown = `c0=call_agent error: failed to load agent "two": agent config not found: two`
		s.completed(s.submit("one", "go"), unknown)
		s.failed(s.submit("two", "go"), run.KindUnknownAgent, "agent config not found: two")

		h.serve(s, one, two)
		s.settle()
		s.completed(s.submit("one", "go"), "c0=two")
		s.completed(s.submit("two", "go"), "two")

		h.serve(s, one)
		s.settle()
		s.completed(s.submit("one", "go"), unknown)
		s.failed(s.submit("two", "go"), run.KindUnknownAgent, "agent config not found: two")

		h.serve(s, one, two)
		s.settle()
		s.completed(s.submit("one", "go"), "c0=two")
	})
}

// TestAgentChanged while the worker runs: the next run has the new definition,
// one under way keeps the one it was started with.
func TestAgentChanged(t *testing.T) {
	onStage(t, func(s *stage) {
		was, leaf := define("lead", []string{"leaf"}), define("leaf", nil)
		is := was
		is.SystemPrompt, is.Digest = "new", "changed"
		s.parts["lead"] = turns(calls(call("leaf", "x")), sums)
		s.parts["leaf"] = after(time.Minute, says("leaf"))
		h := s.hire("w", engagement{agents: []configs.Agent{was, leaf}})
		first := s.submit("lead", "first")
		s.asking("leaf", 1)
		h.serve(s, is, leaf)
		second := s.submit("lead", "second")
		s.completed(first, "c0=leaf")
		s.completed(second, "c0=leaf")
		for _, a := range s.asked("lead") {
			if want := map[string]string{"first": "", "second": "new"}[a.text()]; a.req.System != want {
				t.Errorf("turn %d of the %s run has the prompt %q", a.turn, a.text(), a.req.System)
			}
		}
	})
}

// TestAgentRemovedWhileItsRunsWait: one that awaits a child goes on where the
// agent was removed, if nobody else has it; a call that nobody has taken yet is
// refused, as one made later is, but not at once.
func TestAgentRemovedWhileItsRunsWait(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"}, call("leaf", "x"))
		s.parts["leaf"] = after(time.Minute, says("leaf"))
		h := s.hire("w", engagement{Config: agentd.Config{Slots: 1}})
		awaiting := s.submit("lead", "first")
		s.asking("leaf", 1)
		queued := s.submit("lead", "second")
		s.settle()
		h.serve(s, s.agents[1])
		s.completed(awaiting, "c0=leaf")
		s.failed(queued, run.KindUnknownAgent, "agent config not found: lead")

		h.serve(s, s.agents...)
		s.settle()
		back := s.submit("lead", "third")
		s.asking("leaf", 2)
		queued = s.submit("lead", "fourth")
		time.Sleep(time.Minute - time.Second)
		h.serve(s, s.agents[1])
		time.Sleep(vanished)
		h.serve(s, s.agents...) // a deployment
		s.completed(back, "c0=leaf")
		s.completed(queued, "c0=leaf")
	})
}

// vanished is less than the time after which calls of a removed agent are
// refused.
const vanished = 4 * time.Second

// TestRefusedOnlyByTheLast: a call of an agent that one worker has removed
// waits for those that announced it.
func TestRefusedOnlyByTheLast(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"}, call("leaf", "x"))
		w1 := s.hire("w1", engagement{})
		s.settle()
		w2 := s.hire("w2", engagement{})
		s.settle()
		w2.serve(s, s.agents[1])
		s.settle()
		w1.kill()
		r := s.submit("lead", "go")
		time.Sleep(time.Minute)
		s.hire("w3", engagement{})
		s.completed(r, "c0=leaf")
	})
}

// TestAgentRemovedWhileItsRunWaits: the run goes on at a worker that still has
// the agent, and the removed agent's calls in hand are given up to it.
func TestAgentRemovedWhileItsRunWaits(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"}, call("leaf", "x"))
		s.parts["leaf"] = after(time.Minute, says("leaf"))
		h := s.hire("w1", engagement{})
		r := s.submit("lead", "go")
		s.asking("leaf", 1)
		h.serve(s, s.agents[1])
		s.hire("w2", engagement{})
		s.completed(r, "c0=leaf")
		if a := s.asked("lead")[1]; a.worker != "w2" {
			t.Errorf("%s went on", a.worker)
		}
	})
}

// TestKnownWhileSomebodyServes: what one worker withdraws stays known while
// another serves it, whoever announced it first.
func TestKnownWhileSomebodyServes(t *testing.T) {
	for _, leaver := range []int{0, 1} {
		onStage(t, func(s *stage) {
			s.lead([]string{"leaf"}, call("leaf", "x"))
			for _, name := range []string{"w1", "w2"} {
				s.hire(name, engagement{})
				s.settle()
			}
			s.hands[leaver].serve(s, s.agents[0])
			s.settle()
			s.completed(s.submit("lead", "go"), "c0=leaf")
			s.completed(s.submit("leaf", "go"), "leaf")
			s.hands[1-leaver].serve(s, s.agents[0])
			s.settle()
			s.failed(s.submit("leaf", "go"), run.KindUnknownAgent, "agent config not found: leaf")
		})
	}
}

// TestKnownAfterItsWorkersDied: a call waits for a worker to come again.
func TestKnownAfterItsWorkersDied(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"}, call("leaf", "x"))
		h := s.hire("w1", engagement{agents: s.agents[1:]})
		s.hire("w2", engagement{agents: s.agents[:1]})
		s.settle()
		h.kill()
		r := s.submit("lead", "go")
		time.Sleep(5 * time.Minute)
		s.hire("w3", engagement{agents: s.agents[1:]})
		s.completed(r, "c0=leaf")
	})
}

// TestRemovalPoisonsNothing: a call that comes while the last request for an
// agent's calls stands is given back once, not as often as that request has
// room.
func TestRemovalPoisonsNothing(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"}, call("leaf", "x"))
		s.hire("porter", engagement{agents: s.agents[:1]})
		h := s.hire("w", engagement{})
		s.announce("leaf")
		time.Sleep(10*time.Second + 300*time.Millisecond)
		h.serve(s, s.agents[0])
		time.Sleep(100 * time.Millisecond)
		// as a worker does that still serves it, somewhere
		s.announce("leaf")
		r := s.submit("lead", "go")
		time.Sleep(5 * time.Second)
		s.hire("staying", engagement{})
		s.completed(r, "c0=leaf")
	})
}

// TestWrongFile: who calls an agent whose file is wrong is told what is wrong
// with it, until it is mended or another worker has it right.
func TestWrongFile(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"}, call("leaf", "x"))
		leaf := s.agents[1]
		wrong := agentd.Broken{
			Name:    s.root("leaf").Agent,
			Problem: "leaf.toml:3: params.temperature must be between 0 and 2",
		}
		h := s.hire("w1", engagement{agents: s.agents[:1]})
		try := func(want string) {
			t.Helper()
			s.settle()
			s.completed(s.submit("lead", "go"), want)
		}
		serve := func(agents []configs.Agent, broken ...agentd.Broken) {
			t.Helper()
			if err := h.Serve(agents, broken...); err != nil {
				t.Fatal(err)
			}
		}
		const told = `c0=call_agent error: failed to load agent "leaf": leaf.toml:3: params.temperature must be between 0 and 2`
		serve(s.agents[:1], wrong)
		try(told)
		s.failed(
			s.submit("leaf", "go"),
			run.KindError,
			`failed to load agent "leaf": leaf.toml:3: params.temperature must be between 0 and 2`,
		)
		serve(s.agents)
		try("c0=leaf")
		serve(s.agents[:1], wrong)
		try(told)
		other := s.hire("w2", engagement{agents: []configs.Agent{leaf}})
		try("c0=leaf")
		other.serve(s)
		try(told)
		serve(s.agents[:1])
		try(`c0=call_agent error: failed to load agent "leaf": agent config not found: leaf`)
	})
}

// TestModelThatIsNone: the caller of an agent whose model has no provider is
// told so, and so is who submits it.
func TestModelThatIsNone(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"}, call("leaf", "x"))
		s.agents[1].Model = "gpt"
		s.hire("w", engagement{})
		s.completed(
			s.submit("lead", "go"),
			`c0=call_agent error: invalid model for agent "leaf": invalid model format "gpt": expected provider/model-name`,
		)
	})
}

// TestRemovedAfterARestart: what an agent's former worker has announced is
// taken back by the one that removes it, and gives way to what is wrong with
// its file.
func TestRemovedAfterARestart(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"}, call("leaf", "x"))
		s.hire("w1", engagement{}).leave(s)
		h := s.hire("w2", engagement{})
		s.settle()
		h.serve(s, s.agents[0])
		s.settle()
		s.failed(s.submit("leaf", "go"), run.KindUnknownAgent, "agent config not found: leaf")
		s.completed(
			s.submit("lead", "go"),
			`c0=call_agent error: failed to load agent "leaf": agent config not found: leaf`,
		)

		h.serve(s, s.agents...)
		s.settle()
		h.leave(s)
		h = s.hire("w3", engagement{agents: s.agents[:1]})
		if err := h.Serve(s.agents[:1], agentd.Broken{Name: s.root("leaf").Agent, Problem: "leaf.toml:1: no"}); err != nil {
			t.Fatal(err)
		}
		s.settle()
		s.failed(s.submit("leaf", "go"), run.KindError, `failed to load agent "leaf": leaf.toml:1: no`)
	})
}

// TestNoQuarrel: workers that differ about an agent do not announce it against
// each other for ever.
func TestNoQuarrel(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"})
		leaf, other := s.agents[1], s.agents[1]
		other.Digest = "other"
		wrong := agentd.Broken{Name: s.root("leaf").Agent, Problem: "leaf.toml:1: no"}
		s.hire("w1", engagement{agents: []configs.Agent{leaf}})
		s.hire("w2", engagement{agents: []configs.Agent{other}})
		gone := s.hire("w3", engagement{agents: []configs.Agent{leaf}})
		bad := s.hire("w4", engagement{agents: []configs.Agent{leaf}})
		s.settle()
		gone.serve(s)
		if err := bad.Serve(nil, wrong); err != nil {
			t.Fatal(err)
		}
		s.settle()
		dir, err := s.conn.Directory(s.ctx)
		if err != nil {
			t.Fatal(err)
		}
		value, before, ok, err := dir.Get(s.ctx, "leaf")
		if err != nil || !ok || strings.Contains(string(value), "problem") {
			t.Fatalf("%s, %v", value, err)
		}
		for _, h := range s.hands { // whatever wakes them
			h.serve(s, s.agents[0])
			s.settle()
			if h != gone && h != bad {
				h.serve(s, s.agents[0], leaf)
			}
		}
		time.Sleep(time.Hour)
		if _, after, _, err := dir.Get(s.ctx, "leaf"); err != nil || after > before+40 {
			t.Errorf("%d changes, %v", after-before, err)
		}
		s.completed(s.submit("leaf", "go"), "leaf")
	})
}
