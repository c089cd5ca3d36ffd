package agentd_test

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axebus/axe/agentd"
)

// TestDrainFinishesWhatIsInFlight within the grace, stores it, and takes
// nothing new.
func TestDrainFinishesWhatIsInFlight(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.parts["lead"] = after(20*time.Second, repeats)
		h := s.hire("w", engagement{})
		r := s.submit("lead", "one")
		s.asking("lead", 1)
		time.Sleep(5 * time.Second)
		h.stop()
		from := time.Now()
		time.Sleep(2 * time.Second)
		later := s.submit("lead", "two")
		h.leave(s)
		if d := time.Since(from).Round(time.Second); d != 15*time.Second {
			t.Errorf("the drain took %v", d)
		}
		if o := s.completed(r, "one"); o.Worker != "w" {
			t.Errorf("the answer is of %s", o.Worker)
		}
		s.hire("next", engagement{})
		s.completed(later, "two")
		if n := len(s.asked("lead")); n != 2 {
			t.Errorf("%d requests for two answers", n)
		}
	})
}

// TestDrainFinishesATurn that calls: it is on the log and its children are
// called; somebody else goes on.
func TestDrainFinishesATurn(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"}, call("leaf", "x"))
		s.parts["lead"] = turns(after(20*time.Second, calls(call("leaf", "x"))), sums)
		h := s.hire("w1", engagement{})
		r := s.submit("lead", "go")
		s.asking("lead", 1)
		h.leave(s)
		if len(s.entries(r)) != 1 || len(s.all(s.child(r, "leaf", 0).Call())) != 1 {
			t.Errorf("the turn was not carried out:\n%s", s.dump(r.Tree))
		}
		s.hire("w2", engagement{})
		s.completed(r, "c0=leaf")
		if got := twice(s.asked("")); len(got) > 0 {
			t.Errorf("asked twice: %v", got)
		}
	})
}

// TestDrainGivesBack what does not end within the grace, be it under a call or
// under a reply; another worker has it within the second.
func TestDrainGivesBack(t *testing.T) {
	for slow, asks := range map[string]int{"leaf": 1, "lead": 2} {
		t.Run(slow, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.lead([]string{"leaf"}, call("leaf", "x"))
				if slow == "lead" {
					s.parts["lead"] = turns(calls(call("leaf", "x")), after(time.Minute, sums))
				} else {
					s.parts["leaf"] = after(time.Minute, says("leaf"))
				}
				h := s.hire("w", engagement{Config: agentd.Config{Grace: 3 * time.Second}})
				r := s.submit("lead", "go")
				s.asking(slow, asks)
				s.hire("heir", engagement{})
				time.Sleep(5 * time.Second)
				from := time.Now()
				h.leave(s)
				gone := time.Now()
				if d := gone.Sub(from).Round(100 * time.Millisecond); d != 3*time.Second {
					t.Errorf("the drain took %v", d)
				}
				s.asking(slow, asks+1)
				s.within(gone, time.Second)
				if last := s.asked(slow)[asks-1]; last.err == nil || !last.to.Equal(from.Add(3*time.Second)) {
					t.Errorf("the request was aborted after %v: %v", last.to.Sub(from), last.err)
				}
				s.completed(r, "c0=leaf")
				if n := len(s.asked("")); n != 4 {
					t.Errorf("%d requests, want one more than three", n)
				}
			})
		})
	}
}

// TestDrainLeavesNothingBehind: every goroutine of a worker ends with it.
func TestDrainLeavesNothingBehind(t *testing.T) {
	onStage(t, func(s *stage) {
		s.grove()
		s.submit("lead", "go")
		s.planted()
		s.hands[0].serve(s, s.agents[0])
		time.Sleep(time.Second)
		for _, h := range s.hands {
			h.leave(s)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		buf := make([]byte, 4<<20)
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "axe/agentd.(*") || strings.Contains(g, "axe/bus.(*Conn)") ||
				strings.Contains(g, "axe/bus.(*Directory)") {
				t.Errorf("left behind:\n%s", g)
			}
		}
	})
}
