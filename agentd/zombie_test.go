package agentd_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
)

// TestNoFaultNoRepeat has four workers share trees in peace: no turn is asked
// twice, whoever gets the replies.
func TestNoFaultNoRepeat(t *testing.T) {
	bubble(t, func(s *sim) {
		s.agents = levels(4)
		var procs []*proc
		for i := range 4 {
			procs = append(procs, s.start(fmt.Sprintf("w%d", i), agentd.Config{Slots: 8}, nil))
		}
		const trees = 8
		var outcomes []func() run.Outcome
		for range trees {
			r := s.submit("a0", "L")
			outcomes = append(outcomes, func() run.Outcome { return s.result(r, time.Hour) })
		}
		for _, o := range outcomes {
			s.right(o(), 3)
		}
		time.Sleep(time.Minute)
		// 1+2+4 runs that ask twice and 8 that ask once, in each tree;
		// the labels are the same in all.
		s.model.mu.Lock()
		defer s.model.mu.Unlock()
		if len(s.model.asked) != 7*2+8 {
			t.Errorf("%d different turns were asked", len(s.model.asked))
		}
		workers := map[string]bool{}
		for key, who := range s.model.asked {
			if len(who) != trees {
				t.Errorf("turn %s was asked %d times in %d trees", key, len(who), trees)
			}
			for _, w := range who {
				workers[w] = true
			}
		}
		if len(workers) != len(procs) {
			t.Errorf("only %v took part", workers)
		}
		for _, p := range procs {
			p.kill()
			_ = p.wait()
		}
	})
}

// TestZombieAnswersOtherwise freezes a worker with a final answer in hand. Its
// heir is answered with tool calls and goes on; what the zombie then writes is
// refused.
func TestZombieAnswersOtherwise(t *testing.T) {
	for _, frozenAt := range []string{"axe.result.", "axe.run.a0."} {
		t.Run(frozenAt, func(t *testing.T) {
			bubble(t, func(s *sim) {
				s.agents = levels(2)
				final := frozenAt == "axe.result."
				s.model.whim = func(worker, key string) *provider.Response {
					if key == "L#1" && (worker == "victim") == final {
						return &provider.Response{Content: "on a whim"}
					}
					return nil
				}
				var frozen atomic.Bool
				victim := s.startWith("victim", agentd.Config{Slots: 1}, &frozen, func(_ *proc, _ int, p bus.Point) {
					ends := strings.HasPrefix(p.Subject, frozenAt) && (final || strings.HasSuffix(p.Subject, ".log"))
					if p.Op == "write" && !p.After && ends && frozen.CompareAndSwap(false, true) {
						for logged := !final; !logged; time.Sleep(10 * time.Millisecond) {
							at, _ := s.conn.Space().Parse(p.Subject)
							// it wakes up between
							// the heir's turns
							_, logged, _ = s.conn.First(s.ctx, at.Run.Log())
						}
						if !final {
							time.Sleep(time.Minute)
						}
						frozen.Store(false)
					}
				})
				r := s.submit("a0", "L")
				time.Sleep(2 * time.Second)
				if !frozen.Load() {
					t.Fatal("the victim is not where it should be")
				}
				heir := s.start("heir", agentd.Config{}, nil)
				o := s.result(r, time.Hour)
				time.Sleep(3 * time.Minute)
				if stored := s.stored(r.Tree); final {
					s.right(o, 1)
				} else if o.Result != "on a whim" || strings.Contains(s.dump(r.Tree), "r-1-0") {
					t.Errorf("outcome %+v of %d messages", o, len(stored))
				}
				s.check(r.Tree)
				for _, p := range []*proc{victim, heir} {
					if err := p.drain(); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// TestZombieBeyondTheWindow freezes a worker with a final answer in hand for
// longer than the server knows a message by its ID. Nothing but the outcome of
// its heir is stored.
func TestZombieBeyondTheWindow(t *testing.T) {
	bubble(t, func(s *sim) {
		s.agents = levels(1)
		var frozen atomic.Bool
		victim := s.startWith("victim", agentd.Config{Slots: 1}, &frozen, func(_ *proc, _ int, p bus.Point) {
			if p.Op == "write" && !p.After && strings.HasPrefix(p.Subject, "axe.result.") &&
				frozen.CompareAndSwap(false, true) {
				time.Sleep(5 * time.Minute)
				frozen.Store(false)
			}
		})
		r := s.submit("a0", "L")
		time.Sleep(2 * time.Second)
		if !frozen.Load() {
			t.Fatal("the victim is not where it should be")
		}
		heir := s.start("heir", agentd.Config{}, nil)
		s.right(s.result(r, time.Hour), 0)
		time.Sleep(10 * time.Minute)
		ms, err := s.conn.ReadByScan(s.ctx, r.Space.Result(r.Agent, r.Tree), 0)
		if err != nil || len(ms) != 1 {
			t.Errorf("%d outcomes: %v", len(ms), err)
		}
		for _, p := range []*proc{victim, heir} {
			if err := p.drain(); err != nil {
				t.Error(err)
			}
		}
	})
}
