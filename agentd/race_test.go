package agentd_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
)

// TestRaceLost: a worker freezes before it writes, another one writes in its
// place and dies at once. What that made owed is the first one's to do, which
// wakes up, is refused, and is the only one left.
func TestRaceLost(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]race{
		"entry of the root":    {log: ".r.log", write: ".r.log"},
		"entry of a child":     {log: ".r-1-1.log", write: ".r-1-1.log"},
		"outcome of the root":  {log: ".r.log", write: "axe.result.", whim: "L#1"},
		"outcome of a child":   {log: ".r-1-0.log", write: ".r.in.1.0", whim: "L.0#1"},
		"outcome of the other": {log: ".r-1-1.log", write: ".r.in.1.1", whim: "L.1#1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, r.run)
		})
	}
}

// race is for the log of a run.
type race struct {
	log   string // what the winner writes
	write string // what the loser would have written
	// the turn that the loser's model answers at once, where the winner's
	// calls
	whim string
}

func (r race) run(s *sim) {
	s.agents = levels(3)
	s.model.whim = func(worker, key string) *provider.Response {
		if worker == "loser" && key == r.whim {
			return &provider.Response{Content: "on a whim"}
		}
		return nil
	}
	var frozen, over atomic.Bool
	won := make(chan struct{})
	// it takes no call while it is frozen with one
	one := agentd.Config{Slots: 1}
	loser := s.startWith("loser", one, &frozen, func(_ *proc, _ int, at bus.Point) {
		if at.Op == "write" && !at.After && strings.Contains(at.Subject, r.write) && !over.Load() &&
			frozen.CompareAndSwap(false, true) {
			select {
			case <-won:
			case <-s.ctx.Done():
			}
			over.Store(true)
			frozen.Store(false)
		}
	})
	tree := s.submit("a0", "L")
	for !frozen.Load() {
		time.Sleep(100 * time.Millisecond)
	}
	winner := s.start("winner", agentd.Config{}, func(p *proc, _ int, at bus.Point) {
		if at.After && strings.HasSuffix(at.Subject, r.log) {
			p.kill()
			close(won)
		}
	})
	o := s.result(tree, 30*time.Minute)
	if o.Status != run.StatusCompleted || strings.Contains(o.Result, "whim") || !over.Load() {
		s.tb.Errorf("outcome %s %q %s, the race was lost: %t", o.Status, o.Result, o.Error, over.Load())
	}
	time.Sleep(time.Minute)
	s.check(tree.Tree)
	for _, p := range []*proc{loser, winner} {
		p.kill()
		_ = p.wait()
	}
}
