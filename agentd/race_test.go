package agentd_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// TestRaceLost: a worker freezes before it writes an entry or the outcome of a
// run. Another worker appends an entry to the run's log and dies at once. Then
// the first worker wakes up, its write is refused, and it carries out the
// effects that the other worker's entry owes.
func TestRaceLost(t *testing.T) {
	t.Parallel()
	thorough(t)
	for name, r := range map[string]race{
		"entry of the root":    {log: ".r.log", write: ".r.log"},
		"entry of a child":     {log: ".r-1-1.log", write: ".r-1-1.log"},
		"outcome of the root":  {log: ".r.log", write: "axe.result.", atOnce: "L#1"},
		"outcome of a child":   {log: ".r-1-0.log", write: ".r.in.1.0", atOnce: "L.0#1"},
		"outcome of a sibling": {log: ".r-1-1.log", write: ".r.in.1.1", atOnce: "L.1#1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withHarness(t, r.run)
		})
	}
}

// race is a race of two workers for the log of a run.
type race struct {
	// log is the subject that the winner writes to, or the end of that
	// subject.
	log string
	// write is a part of the subject that the loser writes to.
	write string
	// atOnce is the turn that the loser's model answers without calls,
	// while the winner's model calls children.
	atOnce string
}

// run starts the loser, freezes it before its write, and lets the winner write
// and die. It checks that the tree has the winner's answer.
func (r race) run(h *harness) {
	h.agents = levels(3)
	h.tree.override = func(worker, turn string) *provider.Response {
		if worker == "loser" && turn == r.atOnce {
			return &provider.Response{Content: "answered at once"}
		}
		return nil
	}
	var frozen, over atomic.Bool
	won := make(chan struct{})
	// With one slot the loser takes no other call while it is frozen.
	h.startWorker("loser", workerOptions{Config: agentd.Config{Slots: 1}, frozen: &frozen, atStep: func(s step) error {
		if s.Op == "write" && !s.After && strings.Contains(s.Subject, r.write) && !over.Load() &&
			frozen.CompareAndSwap(false, true) {
			select {
			case <-won:
			case <-h.ctx.Done():
			}
			over.Store(true)
			frozen.Store(false)
		}
		return nil
	}})
	tree := h.submit("a0", "L")
	for !frozen.Load() {
		time.Sleep(100 * time.Millisecond)
	}
	h.startWorker("winner", workerOptions{atStep: func(s step) error {
		if s.After && strings.HasSuffix(s.Subject, r.log) {
			s.worker.kill()
			close(won)
		}
		return nil
	}})
	o := h.awaitOutcome(tree, 30*time.Minute)
	if o.Status != run.StatusCompleted || strings.Contains(o.Result, "at once") || !over.Load() {
		h.tb.Errorf("outcome %s %q %s, the loser was frozen and woke up: %t, want the winner's answer and true",
			o.Status, o.Result, o.Error, over.Load())
	}
	time.Sleep(time.Minute)
	h.checkTree(tree.Tree)
}
