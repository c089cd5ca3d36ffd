package agentd_test

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
)

// refusing is a bus that refuses writes to some subjects while it is broken.
func refusing(broken *atomic.Bool, suffix string) func(bus.Point) error {
	return func(at bus.Point) error {
		if broken.Load() && at.Op == "write" && !at.After && strings.HasSuffix(at.Subject, suffix) {
			return errBroken
		}
		return nil
	}
}

// poisoned lets the root's writes to a subject fail until the run's tombstone
// is there.
func poisoned(t *testing.T, leaf bool) {
	t.Helper()
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"}, call("leaf", "x"))
		r := s.root("lead")
		refused := r.Log()
		if leaf {
			s.parts["lead"] = says("done")
			refused = r.Space.Result(r.Agent, r.Tree)
		}
		var doomed atomic.Bool
		intercept := func(at bus.Point) error {
			doomed.CompareAndSwap(false, at.Op == "write" && at.Subject == r.Cancel())
			if at.Op == "write" && !at.After && at.Subject == refused && !doomed.Load() {
				return errBroken
			}
			return nil
		}
		s.hire("w1", engagement{intercept: intercept})
		s.hire("w2", engagement{intercept: intercept})
		s.send(r, "go")
		const why = "given up after 21 deliveries of the message that moves it"
		s.failed(r, run.KindPoisoned, why)
		if n := len(s.asked("lead")); n != 20 {
			t.Errorf("the model was asked %d times, want one for each of 20 deliveries", n)
		}
		if got := s.buried(r.Dead()); len(got) != 1 || got[0] != why {
			t.Errorf("dead letters: %q", got)
		}
		m := s.all(r.Dead())[0]
		if m.Header.Get("Axe-Subject") != r.Call() || string(m.Body) != `{"task":"go"}` {
			t.Errorf("dead letter %v %s", m.Header, m.Body)
		}
	})
}

// TestPoisonedTurn: a turn that cannot be put on the log ends its run when it
// was delivered too often.
func TestPoisonedTurn(t *testing.T) { poisoned(t, false) }

// TestPoisonedOutcome: so does an answer that cannot be stored.
func TestPoisonedOutcome(t *testing.T) { poisoned(t, true) }

// TestPoisonedChild: its parent is told and goes on.
func TestPoisonedChild(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"bad", "good"}, call("bad", "x"), call("good", "x"))
		r := s.root("lead")
		bad := s.child(r, "bad", 0)
		// with a tool, a turn goes to the log
		s.agents[1].SubAgents = []string{"good"}
		s.parts["bad"] = calls(toolCall("any", nil))
		var doomed atomic.Bool
		s.hire("w", engagement{Config: agentd.Config{Poison: 3}, intercept: func(at bus.Point) error {
			doomed.CompareAndSwap(false, at.Op == "write" && at.Subject == bad.Cancel())
			if at.Op == "write" && at.Subject == bad.Log() && !doomed.Load() {
				return errBroken
			}
			return nil
		}})
		s.send(r, "go")
		s.completed(r, "c0="+failedCall("bad", "given up after 4 deliveries of the message that moves it")+"|c1=good")
		if n := len(s.asked("bad")); n != 3 {
			t.Errorf("asked %d times", n)
		}
		if n := len(s.buried(bad.Dead())); n != 1 {
			t.Errorf("%d dead letters", n)
		}
	})
}

// TestPoisonedTombstone: a cancel that cannot be carried out ends the run
// without folding it.
func TestPoisonedTombstone(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"slow"}, call("slow", "x"))
		s.parts["slow"] = after(time.Hour, says("slow"))
		r := s.root("lead")
		var broken atomic.Bool
		s.hire(
			"w",
			engagement{
				Config:    agentd.Config{Poison: 3},
				intercept: refusing(&broken, strings.TrimPrefix(r.Log(), "axe.")),
			},
		)
		s.send(r, "go")
		s.asking("slow", 1)
		broken.Store(true)
		s.pub(r.Cancel(), "")
		s.failed(r, run.KindPoisoned, "the end was delivered too often")
		if n := len(s.buried(r.Dead())); n == 0 {
			t.Error("no dead letter")
		}
	})
}

// TestFaultThatPasses: a bus that is broken for a while costs time and model
// calls, not the run.
func TestFaultThatPasses(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"}, call("leaf", "x"))
		var broken atomic.Bool
		broken.Store(true)
		s.hire("w", engagement{intercept: refusing(&broken, ".log")})
		r := s.submit("lead", "go")
		s.eventually("several attempts", func() bool { return len(s.asked("lead")) >= 5 })
		broken.Store(false)
		s.completed(r, "c0=leaf")
	})
}

// TestManyDrainsPoisonNothing: a trigger that worker after worker gives back
// unfinished is counted once for each, and ends well when one has the time.
func TestManyDrainsPoisonNothing(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.parts["lead"] = after(time.Minute, says("done"))
		r := s.submit("lead", "go")
		for range 15 {
			h := s.hire("brief", engagement{Config: agentd.Config{Grace: 100 * time.Millisecond}})
			before := len(s.asked(""))
			s.asking("lead", before+1)
			h.leave(s)
		}
		s.hire("patient", engagement{})
		s.completed(r, "done")
	})
}

// TestCallDuringADrainIsNotPoisoned: a call that comes while a worker's last
// request for calls stands is given back once, not as often as that request has
// room.
func TestCallDuringADrainIsNotPoisoned(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.announce("lead")
		s.hire("porter", engagement{agents: []configs.Agent{define("other", nil)}})
		h := s.hire("leaving", engagement{})
		time.Sleep(10*time.Second + 300*time.Millisecond)
		h.stop()
		r := s.submit("lead", "go")
		h.leave(s)
		s.hire("staying", engagement{})
		s.completed(r, "lead")
	})
}

// TestCorruptLogIsNotResumed: an entry is missing. The run is ended where it
// would be resumed, and its model is not asked.
func TestCorruptLogIsNotResumed(t *testing.T) {
	for name, test := range map[string]struct {
		entry run.Entry
		why   string
	}{
		"hole": {
			run.Entry{Index: 3, Kind: run.EntryTurn, Trigger: 1, Answer: &provider.Response{ToolCalls: []provider.ToolCall{call("leaf", "x")}}, Calls: []run.Call{{Agent: "leaf"}}},
			"has index 3 after 1",
		},
		"nonsense": {run.Entry{Index: 2, Kind: "nap"}, `kind "nap" is not known`},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.lead([]string{"leaf"}, call("leaf", "x"))
				s.parts["leaf"] = after(30*time.Second, says("leaf"))
				first := s.hire("w1", engagement{})
				r := s.submit("lead", "go")
				s.asking("leaf", 1)
				body, err := json.Marshal(test.entry)
				if err != nil {
					t.Fatal(err)
				}
				s.write(bus.Message{Subject: r.Log(), Body: body})
				first.leave(s)
				s.hire("w2", engagement{})
				o := s.result(r, time.Hour)
				if o.Kind != run.KindPoisoned || !strings.Contains(o.Error, "corrupt history") ||
					!strings.Contains(o.Error, test.why) {
					t.Errorf("outcome %s %s", o.Kind, o.Error)
				}
				time.Sleep(time.Minute)
				if n := len(s.asked("lead")); n != 1 {
					t.Errorf("the model was asked %d times", n)
				}
				if got := s.buried(r.Dead()); len(got) == 0 || !strings.Contains(got[0], test.why) {
					t.Errorf("dead letters %q", got)
				}
			})
		})
	}
}
