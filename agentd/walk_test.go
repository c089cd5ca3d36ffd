package agentd_test

import (
	"flag"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/internal/testflags"
	"github.com/axebus/axe/subjects"
)

// TestSimWorkersDie takes random walks: four workers, each with a fault, serve
// the trees of a scenario. Every tree has a possible outcome, every message on
// the stream keeps the rules, no model is asked without need, and no tool takes
// effect more often than it may. Without -rapid.checks it takes three walks,
// and with -short one.
func TestSimWorkersDie(t *testing.T) {
	t.Parallel()
	walks := 0
	rapid.Check(t, func(t *rapid.T) {
		if walks == walksOf(3) {
			return
		}
		walks++
		s := drawScenario(t)
		withRapid(t, fmt.Sprintf("the walk %+v", s), s.Partitions, func(h *harness) {
			if s.Grouped {
				h.group()
			}
			(&walk{harness: h, scenario: s}).run()
		})
	})
}

// full is set when the number of walks is given on the command line, as the
// targets walks, sim and proofs of the Makefile do. Tests that kill a worker at
// every step then leave out no step.
var full bool

// walksOf returns the largest number of random walks that a test takes: one
// with -short, some without, and as many as -rapid.checks says if it is given.
func walksOf(some int) int {
	switch {
	case full:
		return math.MaxInt
	case testing.Short():
		return 1
	}
	return some
}

// TestMain reads the flags before any test starts, since tests run in parallel.
// At least four do: some of them wait for a server in real time.
func TestMain(m *testing.M) {
	agentd.MaybeExec()
	flag.Parse()
	full = testflags.Default("rapid.checks", "10")
	if runtime.GOMAXPROCS(0) < 4 {
		testflags.Default("test.parallel", "4")
	}
	m.Run()
}

// walk is a scenario in a bubble.
type walk struct {
	*harness
	scenario
	roots []subjects.Run

	mu sync.Mutex
	// cancelledAt has the time of the cancellation of a run, by label.
	cancelledAt map[string]time.Time
	// faulty has the workers that had their fault.
	faulty map[string]bool
	// allBackAt is the time at which the last frozen or disconnected worker
	// is back; zero if there was none.
	allBackAt time.Time

	shop shopService
}

// label is the task of the i-th tree. No two trees share a turn.
func (w *walk) label(i int) string { return fmt.Sprintf("L%d", i) }

// run submits the trees and checks their outcomes. After 40 seconds a worker
// without a fault joins, since the four may all be dead.
func (w *walk) run() {
	w.setClock()
	all, served := w.makeAgents()
	w.script(w.tree)
	w.cancelledAt = map[string]time.Time{}
	w.faulty = map[string]bool{}
	if w.LastAgentUnserved || w.Tools {
		w.announceAndDie(all)
	}
	if w.Tools {
		w.openShop()
		defer w.attend()()
	}
	w.agents = served
	for i, f := range w.Faults {
		w.startFaulty(fmt.Sprintf("w%d", i), f)
	}
	for i, tree := range w.Trees {
		w.submitTree(i, tree)
	}
	for _, seconds := range w.ConsumersRemovedAfter {
		// The walk may be over by then, so an error does not matter.
		time.AfterFunc(time.Duration(seconds)*time.Second, func() { _ = w.removeConsumers() })
	}
	rescued := make(chan bool)
	rescue := time.AfterFunc(40*time.Second, func() {
		defer close(rescued)
		w.start("rescue", workerOptions{Config: w.config()})
	})
	defer func() {
		if !rescue.Stop() {
			<-rescued
		}
	}()
	var ends []run.Outcome
	for i, tree := range w.Trees {
		label := w.label(i)
		o := w.awaitOutcome(w.roots[i], w.longest())
		if !w.isRightEnd(tree, label, w.tree, o) && !w.stepIsUnknown(w.roots[i]) {
			stored := w.dumpTree(w.roots[i].Tree)
			w.tb.Errorf("%s: impossible outcome %s %s %q %s\n%s", label, o.Status, o.Kind, o.Result, o.Error, stored)
		}
		ends = append(ends, o)
	}
	last := w.config()
	last.Slots = 8
	w.start("last", workerOptions{Config: last, agents: all})
	w.awaitEnd()
	for i, r := range w.roots {
		w.checkTree(r.Tree)
		w.checkTools(r.Tree, ends[i])
	}
	w.checkRequests()
}

// longest is the time in which every tree ends. A tree that no worker serves
// ends at its deadline. If no worker has noticed that the server's clock was
// set back, its deadline is later by that time.
func (w *walk) longest() time.Duration {
	return 30*time.Minute + max(0, time.Duration(-w.ClockAhead)*time.Minute)
}

// setClock makes the server's clock wrong, now or later. The workers notice it
// at once: a turn that is decided before its worker has noticed has deadlines
// of the old clock (docs/limitations.md).
func (w *walk) setClock() {
	if w.ClockAhead == 0 {
		return
	}
	time.Sleep(2 * time.Hour) // no deadline is of an earlier year than 2000
	ahead := time.Duration(w.ClockAhead) * time.Minute
	time.AfterFunc(time.Duration(w.ClockSetAfter)*time.Second, func() {
		w.harness.mu.Lock()
		workers := slices.Clone(w.workers)
		w.harness.mu.Unlock()
		w.setServerClock(ahead)
		for _, one := range workers {
			go func() { _ = one.conn.Clocks.Measure(w.ctx) }()
		}
	})
	if w.ClockSetAfter == 0 {
		time.Sleep(time.Second)
	}
}

// stepIsUnknown reports whether the server's clock was set and no worker has
// told the step of a run's stream to the others: all of them were dead by then.
// Workers that start later take deadlines from before the step for those of the
// new clock.
func (w *walk) stepIsUnknown(r subjects.Run) bool {
	if w.ClockAhead == 0 || w.ClockSetAfter == 0 {
		return false
	}
	conn := w.open(bus.Config{})
	defer conn.Close()
	err := conn.Provisioned(w.ctx)
	if err == nil {
		err = presence.LearnClockSteps(w.ctx, conn)
	}
	if err != nil {
		w.tb.Errorf("the steps of the clock: %v", err)
	}
	stream := conn.Space().Stream(r.Partition()).Name
	return !slices.ContainsFunc(conn.Clocks.Steps(), func(s bus.Step) bool { return s.Stream == stream })
}

// start starts a worker of the walk.
func (w *walk) start(name string, o workerOptions) *worker {
	if w.Tools {
		o.toolsets = []configs.Toolset{shopOf(name)}
	}
	return w.startWorker(name, o)
}

// announceAndDie makes all agents and toolsets known through a worker that then
// dies. A call of an agent that no worker serves waits. A run that starts
// before its toolset is known does without.
func (w *walk) announceAndDie(all []configs.Agent) {
	dead := w.start("dead", workerOptions{agents: all})
	w.awaitReady()
	dead.kill()
	<-dead.ended
}

// startFaulty starts a worker with a fault.
func (w *walk) startFaulty(name string, f fault) {
	var frozen atomic.Bool
	var left atomic.Int64 // steps until the fault
	left.Store(int64(f.Step))
	if f.Call > 0 {
		left.Store(math.MaxInt64)
		w.shop.atCall(name, f.Call, func() { left.Store(int64(f.Step%4 + 1)) })
	}
	strike := func(s step) error {
		if left.Add(-1) != 0 {
			return nil
		}
		w.mu.Lock()
		w.faulty[name] = true
		w.mu.Unlock()
		switch f.Kind {
		case kill:
			s.worker.kill()
		case drain:
			s.worker.stop()
		case disconnect:
			w.expectAway(30 * time.Second)
			s.worker.disconnect(30 * time.Second)
		case freeze:
			w.expectAway(time.Minute)
			frozen.Store(true)
			time.Sleep(time.Minute)
			frozen.Store(false)
		}
		return nil
	}
	cfg := w.config()
	if f.Kind == drain { // a request in flight is handed on
		cfg.Grace = 500 * time.Millisecond
	}
	w.start(name, workerOptions{Config: cfg, frozen: &frozen, atStep: strike})
}

// expectAway notes that a worker will be away for a time.
func (w *walk) expectAway(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if back := time.Now().Add(d); back.After(w.allBackAt) {
		w.allBackAt = back
	}
}

// submitTree submits a tree and arranges what people do to it.
func (w *walk) submitTree(i int, tree treeSpec) {
	root := w.root(fmt.Sprintf("a%d", tree.Root))
	w.roots = append(w.roots, root)
	var header [][2]string
	if tree.Deadline > 0 {
		header = append(header, [2]string{subjects.HeaderTimeout, strconv.Itoa(tree.Deadline)})
	}
	w.submitTo(root, w.label(i), header...)
	if w.Supervision == configs.SupervisedHuman {
		w.writeLater(5, root.Approve(w.key("p0")), `{"approve":true}`)
		w.writeLater(12, root.Approve(w.key("p1")), `{"approve":false}`)
	}
	target, label := root, w.label(i)
	if tree.Target > 0 {
		target = w.targetChild(root, tree)
		label = fmt.Sprintf("%s.%d", label, (tree.Target-1)%w.Fan)
	}
	if tree.InterruptAfter > 0 {
		w.writeLater(tree.InterruptAfter, target.Interrupt(w.key("stop")), "")
		w.writeLater(tree.InterruptAfter+15, target.Mail(w.key("m")), `{"from":"user","text":"go on"}`)
	}
	if tree.CancelAfter < 0 {
		return
	}
	time.AfterFunc(time.Duration(tree.CancelAfter)*time.Second, func() {
		m := bus.Message{Subject: target.Cancel(), Fence: bus.After(target.Cancel(), 0)}
		if _, err := w.conn.Write(w.ctx, m); err == nil {
			w.mu.Lock()
			w.cancelledAt[label] = time.Now()
			w.mu.Unlock()
		}
	})
}

// targetChild is the child that people cancel and interrupt.
func (w *walk) targetChild(root subjects.Run, tree treeSpec) subjects.Run {
	agent := fmt.Sprintf("a%d", tree.Root+1)
	if w.Forks == "top" { // a fork runs its parent's agent
		agent = fmt.Sprintf("a%d", tree.Root)
	}
	return w.child(root, agent, (tree.Target-1)%w.Fan)
}

// writeLater writes a message after some seconds. The walk may be over by then,
// so an error does not matter.
func (w *walk) writeLater(seconds int, subject, body string) {
	time.AfterFunc(time.Duration(seconds)*time.Second, func() {
		_, _ = w.conn.Write(w.ctx, bus.Message{Subject: subject, Body: []byte(body)})
	})
}

// awaitEnd waits until every run has an outcome and every worker is back, three
// minutes at most, and then until unacknowledged messages have come again. A
// tree that has ended may still have a run without an outcome: its worker was
// killed, and a disconnected worker takes the trigger again and again.
func (w *walk) awaitEnd() {
	for range 36 {
		time.Sleep(5 * time.Second)
		w.mu.Lock()
		back := time.Now().After(w.allBackAt)
		w.mu.Unlock()
		unanswered := func(r subjects.Run) bool { return len(w.unanswered(r.Tree)) > 0 }
		if back && w.verifyAll().UnderWay == 0 && !slices.ContainsFunc(w.roots, unanswered) {
			break
		}
	}
	time.Sleep(15 * time.Second)
}

// checkRequests checks the requests to the model. No request for a cancelled
// run, or for a run below it, ends more than a second after the cancellation.
// All workers without a fault together asked each turn at most once, unless
// failed requests are repeated. A faulty worker may have had it in flight.
func (w *walk) checkRequests() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tree.mu.Lock()
	defer w.tree.mu.Unlock()
	for turn, ended := range w.tree.endedAt {
		for label, cancelled := range w.cancelledAt {
			asker, _, _ := strings.Cut(turn, "#")
			if late := ended.Sub(cancelled); isBelow(asker, label) && late > time.Second {
				w.tb.Errorf("a request for %s ended %v after the cancellation of %s", turn, late, label)
			}
		}
	}
	for turn, workers := range w.tree.askedBy {
		faultless := slices.DeleteFunc(slices.Clone(workers), func(name string) bool { return w.faulty[name] })
		if w.Attempts == 1 && len(faultless) > 1 {
			w.tb.Errorf("%s was asked by %v, of which %v had no fault, want one at most", turn, workers, faultless)
		}
	}
}
