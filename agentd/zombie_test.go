package agentd_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/verify"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestNoFaultNoRepeat: four workers without faults serve eight trees together.
// No turn is asked twice.
func TestNoFaultNoRepeat(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.agents = levels(4)
		for i := range 4 {
			h.startWorker(fmt.Sprintf("w%d", i), workerOptions{Config: agentd.Config{Slots: 8}})
		}
		var roots []subjects.Run
		for range 8 {
			roots = append(roots, h.submit("a0", "L"))
		}
		for _, r := range roots {
			h.expectAnswer(h.awaitOutcome(r, time.Hour), 3)
		}
		time.Sleep(time.Minute)
		h.tree.mu.Lock()
		defer h.tree.mu.Unlock()
		// In each tree 1+2+4 runs ask twice and 8 leaves ask once. The
		// labels are the same in all trees.
		if len(h.tree.askedBy) != 7*2+8 {
			t.Errorf("%d different turns were asked, want %d", len(h.tree.askedBy), 7*2+8)
		}
		used := map[string]bool{}
		for turn, workers := range h.tree.askedBy {
			if len(workers) != len(roots) {
				t.Errorf("turn %s was asked %d times, want once in each of %d trees", turn, len(workers), len(roots))
			}
			for _, w := range workers {
				used[w] = true
			}
		}
		if len(used) != 4 {
			t.Errorf("the workers %v asked, want all four", used)
		}
	})
}

// TestZombieAnswersOtherwise: a worker freezes before it writes a turn, and
// becomes a zombie. Its successor's model answers the turn differently: with
// tool calls where the zombie has a final answer, and the other way round. The
// successor's answer counts. The zombie's outcome is refused. Its entry is
// stored after the successor's outcome, and no child is called.
func TestZombieAnswersOtherwise(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, frozenAt := range []string{"axe.result.", "axe.run.a0."} {
		t.Run(frozenAt, func(t *testing.T) {
			withHarness(t, func(h *harness) { zombieAnswersOtherwise(h, frozenAt, frozenAt == "axe.result.") })
		})
	}
}

// zombieAnswersOtherwise freezes the victim before it writes to a subject.
// Either the victim's answer is final, or the successor's is.
func zombieAnswersOtherwise(h *harness, frozenAt string, victimIsFinal bool) {
	h.agents = levels(2)
	h.tree.override = func(worker, turn string) *provider.Response {
		if turn == "L#1" && (worker == "victim") == victimIsFinal {
			return &provider.Response{Content: "on a whim"}
		}
		return nil
	}
	var frozen atomic.Bool
	freezeAt := func(s step) error {
		awaited := strings.HasPrefix(s.Subject, frozenAt) && (victimIsFinal || strings.HasSuffix(s.Subject, ".log"))
		if s.Op != "write" || s.After || !awaited || !frozen.CompareAndSwap(false, true) {
			return nil
		}
		if victimIsFinal {
			// It wakes up between the successor's two turns.
			at, _ := h.conn.Space().Parse(s.Subject)
			for logged := false; !logged; time.Sleep(10 * time.Millisecond) {
				_, logged, _ = h.conn.First(h.ctx, at.Run.Log())
			}
		} else {
			time.Sleep(time.Minute)
		}
		frozen.Store(false)
		return nil
	}
	victim := h.startWorker("victim", workerOptions{
		Config: agentd.Config{Slots: 1}, frozen: &frozen, atStep: freezeAt,
	})
	r := h.submit("a0", "L")
	time.Sleep(2 * time.Second)
	if !frozen.Load() {
		h.tb.Fatal("the victim is not frozen")
	}
	successor := h.startWorker("successor", workerOptions{})
	o := h.awaitOutcome(r, time.Hour)
	time.Sleep(3 * time.Minute)
	if victimIsFinal {
		h.expectAnswer(o, 1)
	} else if o.Result != "on a whim" || strings.Contains(h.dumpTree(r.Tree), "r-1-0") {
		h.tb.Errorf("outcome %+v, want the successor's and no child", o)
	}
	h.checkTree(r.Tree)
	victim.drain()
	successor.drain()
}

// TestZombieBeyondTheWindow: a worker freezes before it writes an outcome, for
// longer than the server deduplicates messages. Only its successor's outcome is
// stored.
func TestZombieBeyondTheWindow(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.agents = levels(1)
		var frozen, again atomic.Bool
		freezeAt := func(s step) error {
			if s.Op == "write" && !s.After && strings.HasPrefix(s.Subject, "axe.result.") && !again.Swap(true) {
				frozen.Store(true)
				time.Sleep(2 * time.Minute)
				frozen.Store(false)
			}
			return nil
		}
		victim := h.startWorker("victim", workerOptions{
			Config: agentd.Config{Slots: 1}, frozen: &frozen, atStep: freezeAt,
		})
		r := h.submit("a0", "L")
		time.Sleep(2 * time.Second)
		if !frozen.Load() {
			t.Fatal("the victim is not frozen")
		}
		successor := h.startWorker("successor", workerOptions{})
		h.expectAnswer(h.awaitOutcome(r, time.Hour), 0)
		time.Sleep(5 * time.Minute)
		if ms := h.readAll(r.Space.Result(r.Agent, r.Tree)); len(ms) != 1 {
			t.Errorf("%d outcomes, want 1", len(ms))
		}
		victim.drain()
		successor.drain()
	})
}

// TestVerifyZombie: a worker freezes before it appends an entry, and appends it
// after its successor has ended the run. Package verify reports the entry as a
// result of that race, not as a violation.
func TestVerifyZombie(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = levels(2)
		h.tree.override = func(worker, turn string) *provider.Response {
			if worker == "successor" && turn == "L#1" {
				return &provider.Response{Content: "no need to call anybody"}
			}
			return nil
		}
		var frozen atomic.Bool
		freezeAt := func(s step) error {
			if s.Op == "write" && strings.HasSuffix(s.Subject, ".log") && frozen.CompareAndSwap(false, true) {
				time.Sleep(time.Minute)
			}
			return nil
		}
		h.startWorker("victim", workerOptions{Config: agentd.Config{Slots: 1}, frozen: &frozen, atStep: freezeAt})
		r := h.submit("a0", "L")
		time.Sleep(2 * time.Second)
		h.startWorker("successor", workerOptions{})
		if o := h.awaitOutcome(r, time.Hour); o.Status != run.StatusCompleted || o.Worker != "successor" {
			t.Fatalf("outcome %+v, want the successor's", o)
		}
		time.Sleep(2 * time.Minute)
		report := h.checkVerified()
		if len(report.Findings) != 1 || report.Findings[0].Rule != verify.AfterEnd || report.Runs != 1 {
			t.Errorf("report %+v, want one run, and one finding by the rule %s", report, verify.AfterEnd)
		}
	})
}
