package agentd_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
)

// crashTrees are the trees that workers die in.
var crashTrees = map[string][]configs.Agent{
	"parallel":   levels(3),
	"spawn":      levels(3, spawningOthers),
	"sequential": levels(3, func(a *configs.Agent) { a.SubAgentsConf.Parallel = false }),
	"mail":       levels(2, mailingToo),
}

// mailingToo has the agents that call others fork themselves too.
func mailingToo(a *configs.Agent) {
	if len(a.SubAgents) > 0 {
		a.Delegation.Styles = configs.Styles{configs.StyleCall, configs.StyleMail}
	}
}

// employ gives a sim its agents.
func (s *sim) employ(agents []configs.Agent) {
	s.agents = agents
	s.model.forks = slices.ContainsFunc(
		agents,
		func(a configs.Agent) bool { return a.Delegation.Has(configs.StyleMail) },
	)
}

// TestCrashAnywhere kills a worker at each of its steps in a tree of three
// levels, before and after every write and every acknowledgement, and lets
// another one go on. (Of the tree with mail at one step in three, unless more
// walks than usual are asked for.)
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	for name, agents := range crashTrees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, stride := 1, 1
			if name == "mail" && !long { // that takes many steps
				stride = 3
			}
			for done := false; !done; at += stride {
				bubble(t, func(s *sim) { done = crashAt(s, agents, at) })
				if t.Failed() {
					t.Fatalf("killed at step %d", at)
				}
			}
			if at < 60 {
				t.Errorf("only %d steps: the worker does more than that", at)
			}
			t.Logf("killed at every %dth of %d steps", stride, at-1)
		})
	}
}

// crashAt kills the first worker at a step and reports whether it lived to its
// end without that step.
func crashAt(s *sim, agents []configs.Agent, at int) (lived bool) {
	s.employ(agents)
	s.tb.Logf("killed at step %d", at)
	killed := make(chan struct{})
	victim := s.start("victim", agentd.Config{}, func(p *proc, step int, _ bus.Point) {
		if step == at {
			p.kill()
			close(killed)
		}
	})
	r := s.submit("a0", "L")
	finished := make(chan run.Outcome, 1)
	go func() {
		// a result that never comes ends this goroutine
		defer close(finished)
		finished <- s.result(r, time.Hour)
	}()
	var heir *proc
	var o run.Outcome
	select {
	case <-killed:
		heir = s.start("heir", agentd.Config{}, nil)
		o = <-finished
	case o = <-finished:
		// its last steps may come after the result
		time.Sleep(time.Minute)
		select {
		case <-killed:
		default:
			lived = true
		}
	}
	time.Sleep(time.Minute) // what is unacknowledged comes again
	s.right(o, 2)
	s.onlyInFlight(s.check(r.Tree), "victim")
	for _, p := range []*proc{victim, heir} {
		if p != nil {
			p.kill()
			_ = p.wait()
		}
	}
	return lived
}

// right checks the answer of a tree.
func (s *sim) right(o run.Outcome, depth int) {
	if want := s.model.answer("L", depth); o.Status != run.StatusCompleted || o.Result != want {
		s.tb.Errorf("outcome %s %q %s, want %q", o.Status, o.Result, o.Error, want)
	}
}

// TestZombieAnywhere stops a worker at one step in six (at each, if more walks
// than usual are asked for with -rapid.checks) for so long that its lease is
// over and another one has done the work; then it goes on where it was.
func TestZombieAnywhere(t *testing.T) {
	t.Parallel()
	stride := 6
	if long {
		stride = 1
	}
	for name, agents := range crashTrees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := 1
			for done := false; !done; at += stride {
				bubble(t, func(s *sim) { done = zombieAt(s, agents, at) })
				if t.Failed() {
					t.Fatalf("stopped at step %d", at)
				}
			}
			t.Logf("stopped at every %dth of %d steps", stride, at-1)
		})
	}
}

func zombieAt(s *sim, agents []configs.Agent, at int) (lived bool) {
	s.employ(agents)
	s.tb.Logf("stopped at step %d", at)
	var frozen atomic.Bool
	asleep := make(chan struct{})
	victim := s.startZombie(&frozen, func(_ *proc, step int, _ bus.Point) {
		if step == at {
			frozen.Store(true)
			close(asleep)
			time.Sleep(time.Minute)
			frozen.Store(false)
		}
	})
	r := s.submit("a0", "L")
	finished := make(chan run.Outcome, 1)
	go func() {
		// a result that never comes ends this goroutine
		defer close(finished)
		finished <- s.result(r, time.Hour)
	}()
	var heir *proc
	var o run.Outcome
	select {
	case <-asleep:
		heir = s.start("heir", agentd.Config{}, nil)
		o = <-finished
	case o = <-finished:
		time.Sleep(time.Minute)
		select {
		case <-asleep:
		default:
			lived = true
		}
	}
	// the zombie wakes up and does what it was about to
	time.Sleep(2 * time.Minute)
	s.right(o, 2)
	s.check(r.Tree)
	for key, who := range s.model.repeated() {
		if len(who) > 2 {
			s.tb.Errorf("turn %s was asked by %v", key, who)
		}
	}
	for _, p := range []*proc{victim, heir} {
		if p == nil {
			continue
		}
		if err := p.drain(); err != nil {
			s.tb.Errorf("drain of %s: %v", p.name, err)
		}
	}
	return lived
}
