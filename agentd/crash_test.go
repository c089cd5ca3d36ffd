package agentd_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// crashTrees are the agents of the trees in which workers die.
var crashTrees = map[string][]configs.Agent{
	"parallel":   levels(3),
	"spawn":      levels(3, spawningOthers),
	"sequential": levels(3, sequential),
	"mail":       levels(2, forkingToo),
}

// TestCrashAnywhere kills a worker at each of its steps in a tree of three
// levels, before and after every write and every acknowledgement. A successor
// completes the tree, and asks again only for turns that were in flight.
// Without -rapid.checks it takes one step in 16, and one in 48 of the tree with
// mail.
func TestCrashAnywhere(t *testing.T) {
	t.Parallel()
	for name, agents := range crashTrees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stride := 16
			if name == "mail" {
				stride = 48
			}
			killAtEachStep(t, agents, stride)
		})
	}
}

// killAtEachStep kills the only worker of a tree at one of its steps, one tree
// for each step. The tree must take at least 60 steps.
func killAtEachStep(t *testing.T, agents []configs.Agent, stride int) {
	t.Helper()
	atEachStep(t, 60, stride, func(h *harness, at int) (reached bool) {
		h.useTreeAgents(agents)
		f := &faultAt{step: at, strike: func(s step) { s.worker.kill() }}
		root, o := f.runTree(h)
		time.Sleep(time.Minute) // unacknowledged messages are delivered again
		h.expectAnswer(o, 2)
		h.expectRepeatsInFlight(h.checkTree(root.Tree), "victim")
		return f.struck()
	})
}

// atEachStep runs a tree for each step of a worker, from the first one, until a
// tree ends before the worker reaches the step. It fails the test if a worker
// takes fewer than least steps. Without -rapid.checks it takes one step in
// stride, from a random one of the first, and with -short one in twelve of
// those. It may then miss that a worker takes too few.
func atEachStep(t *testing.T, least, stride int, runTree func(h *harness, at int) (reached bool)) {
	t.Helper()
	switch {
	case full:
		stride = 1
	case testing.Short():
		stride *= 12
	}
	at := 1 + rand.IntN(min(stride, least))
	for {
		reached := false
		withHarness(t, func(h *harness) {
			t.Logf("fault at step %d", at)
			reached = runTree(h, at)
		})
		if t.Failed() {
			t.Fatalf("fault at step %d", at)
		}
		if !reached {
			break
		}
		at += stride
	}
	if at <= least {
		t.Errorf("the worker did not reach step %d, want it to take %d steps at least", at, least)
	}
	t.Logf("a fault at every %dth step; step %d was not reached", stride, at)
}

// faultAt is a fault that strikes a worker, the victim, at one of its steps.
type faultAt struct {
	// step is the number of the step, 1 for the victim's first one.
	step int
	// strike is called at the step. The successor starts when strike
	// returns or calls markBegun. From then on the victim must not write
	// until strike has returned.
	strike func(s step)
	// frozen is the victim's option of that name.
	frozen atomic.Bool
	// config is that of the victim and the successor.
	config agentd.Config

	// begun is closed when the successor may start.
	begun chan struct{}
	once  sync.Once
}

// markBegun lets the successor start while strike has not returned yet.
func (f *faultAt) markBegun() { f.once.Do(func() { close(f.begun) }) }

// struck reports whether the victim reached its step.
func (f *faultAt) struck() bool {
	select {
	case <-f.begun:
		return true
	default:
		return false
	}
}

// runTree submits a tree to the victim, starts a successor after the fault, and
// returns the tree's outcome. If no fault has happened by then, it waits until
// one does, or until the victim has taken its last steps.
func (f *faultAt) runTree(h *harness) (root subjects.Run, o run.Outcome) {
	return f.runTask(h, "a0", "L")
}

// runTask is runTree for any agent and task.
func (f *faultAt) runTask(h *harness, agent, task string) (root subjects.Run, o run.Outcome) {
	f.begun = make(chan struct{})
	h.startWorker("victim", workerOptions{Config: f.config, frozen: &f.frozen, atStep: func(s step) error {
		if s.n == f.step {
			f.strike(s)
			f.markBegun()
		}
		return nil
	}})
	root = h.submit(agent, task)
	finished := make(chan run.Outcome, 1)
	go func() {
		// Without an outcome, Fatal ends this goroutine alone.
		defer close(finished)
		finished <- h.awaitOutcome(root, time.Hour)
	}()
	select {
	case <-f.begun:
		h.startWorker("successor", workerOptions{Config: f.config})
		return root, <-finished
	case o = <-finished:
	}
	select {
	case <-f.begun: // at a step after the outcome, for example for a fork
		h.startWorker("successor", workerOptions{Config: f.config})
	case <-time.After(time.Minute):
	}
	return root, o
}

// TestZombieAnywhere freezes a worker at one of its steps for a minute. Its
// leases expire, and a successor goes on with the tree. Then the worker goes on
// where it was, and changes nothing. Without -rapid.checks it takes one step in
// 48.
func TestZombieAnywhere(t *testing.T) {
	t.Parallel()
	for name, agents := range crashTrees {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			atEachStep(t, 60, 48, func(h *harness, at int) (reached bool) {
				h.useTreeAgents(agents)
				f := &faultAt{step: at}
				f.strike = func(step) {
					f.frozen.Store(true)
					f.markBegun()
					time.Sleep(time.Minute)
					f.frozen.Store(false)
				}
				root, o := f.runTree(h)
				time.Sleep(2 * time.Minute) // the zombie takes its step
				h.expectAnswer(o, 2)
				h.checkTree(root.Tree)
				for turn, workers := range h.tree.repeated() {
					if len(workers) > 2 {
						h.tb.Errorf("turn %s was asked by %v, want two workers at most", turn, workers)
					}
				}
				for _, w := range h.workers {
					w.drain()
				}
				return f.struck()
			})
		})
	}
}
