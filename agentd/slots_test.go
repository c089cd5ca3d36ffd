package agentd_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// deep is a chain of agents to a depth, of which each calls the next twice.
func (s *stage) deep(depth int) {
	s.agents = nil
	for i := range depth {
		name, next := fmt.Sprintf("a%d", i), fmt.Sprintf("a%d", i+1)
		s.agents = append(s.agents, define(name, []string{next}))
		s.parts[name] = turns(after(time.Second, splits(next, 2)), after(time.Second, sums))
	}
	last := fmt.Sprintf("a%d", depth)
	s.agents = append(s.agents, define(last, nil))
	s.parts[last] = after(time.Second, says("."))
}

// TestDeepTreesWithOneSlot finish: who waits for children holds no slot.
func TestDeepTreesWithOneSlot(t *testing.T) {
	onStage(t, func(s *stage) {
		const trees, depth = 3, 5
		s.deep(depth)
		s.hire("w", engagement{Config: agentd.Config{Slots: 1}})
		from := time.Now()
		var all []subjects.Run
		for i := range trees {
			all = append(all, s.submit("a0", strconv.Itoa(i)))
		}
		want := "."
		for range depth {
			want = "c0=" + want + "|c1=" + want
		}
		for _, r := range all {
			s.completed(r, want)
		}
		const turns = trees * (31*2 + 32)
		asks := s.asked("")
		if n := peak(asks); n != 1 || len(asks) != turns {
			t.Errorf("%d requests, want %d; %d at once", len(asks), turns, n)
		}
		s.within(from, turns*time.Second*5/4) // the slot is hardly ever empty
		if got := twice(asks); len(got) > 0 {
			t.Errorf("asked twice: %v", got)
		}
	})
}

// TestWaitingParentHoldsNoSlot: while the only slot's tree waits for a child
// elsewhere, another is served.
func TestWaitingParentHoldsNoSlot(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", []string{"slow"}), define("quick", nil)}
		s.parts["lead"] = turns(calls(call("slow", "x")), sums)
		s.parts["slow"] = after(time.Minute, says("slow"))
		s.hire("w", engagement{Config: agentd.Config{Slots: 1}})
		s.hire("elsewhere", engagement{agents: []configs.Agent{define("slow", nil)}})
		s.settle()
		var waiting []subjects.Run
		for range 5 {
			waiting = append(waiting, s.submit("lead", "go"))
		}
		s.asking("slow", 5)
		from := time.Now()
		s.completed(s.submit("quick", "go"), "quick")
		s.within(from, time.Second)
		for _, r := range waiting {
			s.completed(r, "c0=slow")
		}
	})
}

// TestNeverMoreCallsThanSlots on any worker, though more trees than that are
// wide and under way.
func TestNeverMoreCallsThanSlots(t *testing.T) {
	onStage(t, func(s *stage) {
		const slots, trees = 3, 4
		s.agents = []configs.Agent{
			define("lead", []string{"mid"}),
			define("mid", []string{"leaf"}),
			define("leaf", nil),
		}
		s.parts["lead"] = turns(after(time.Second, splits("mid", 4)), after(time.Second, says("done")))
		s.parts["mid"] = turns(after(time.Second, splits("leaf", 4)), after(time.Second, says("mid")))
		s.parts["leaf"] = after(3*time.Second, repeats)
		for _, name := range []string{"w1", "w2"} {
			s.hire(name, engagement{Config: agentd.Config{Slots: slots}})
		}
		s.settle()
		var all []subjects.Run
		for i := range trees {
			all = append(all, s.submit("lead", strconv.Itoa(i)))
		}
		for _, r := range all {
			s.completed(r, "done")
		}
		by := map[string][]asked{}
		for _, a := range s.asked("") {
			by[a.worker] = append(by[a.worker], a)
		}
		for _, name := range []string{"w1", "w2"} {
			if n := peak(by[name]); n != slots {
				t.Errorf("%s had %d requests in flight at its busiest, want %d", name, n, slots)
			}
		}
		if got := twice(s.asked("")); len(got) > 0 {
			t.Errorf("asked twice: %v", got)
		}
	})
}

// TestSaturatedWorkerLeavesCalls to an idle one, at once: those that came
// before it joined and those that come after.
func TestSaturatedWorkerLeavesCalls(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.parts["lead"] = after(10*time.Minute, repeats)
		s.hire("busy", engagement{Config: agentd.Config{Slots: 2}})
		for i := range 4 {
			s.submit("lead", strconv.Itoa(i))
		}
		s.asking("lead", 2)
		time.Sleep(30 * time.Second)
		if n := len(s.asked("lead")); n != 2 {
			t.Fatalf("%d requests with two slots", n)
		}
		joined := time.Now()
		s.hire("idle", engagement{})
		s.asking("lead", 4)
		s.within(joined, 1500*time.Millisecond)
		for i := range 6 {
			came := time.Now()
			s.submit("lead", strconv.Itoa(4+i))
			s.asking("lead", 5+i)
			s.within(came, 100*time.Millisecond)
		}
		for _, a := range s.asked("lead")[2:] {
			if a.worker != "idle" {
				t.Errorf("%s was asked by %s", a.text(), a.worker)
			}
		}
	})
}

// TestCallsThatFoundNoSlot are not kept from an idle worker: replies took the
// slots that they were asked for.
func TestCallsThatFoundNoSlot(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		s.parts["lead"] = turns(calls(call("leaf", "x")), after(40*time.Second, sums))
		s.parts["leaf"] = after(10*time.Second, says("leaf"))
		s.hire("leaves", engagement{agents: s.agents[1:]})
		s.hire("w", engagement{Config: agentd.Config{Slots: 4}, agents: s.agents[:1]})
		s.settle()
		var first []subjects.Run
		for i := range 3 {
			first = append(first, s.submit("lead", fmt.Sprint("first ", i)))
		}
		s.asking("leaf", 3)
		// The three replies and four calls come to four slots at the
		// same moment.
		time.Sleep(10*time.Second - time.Millisecond)
		for i := range 4 {
			s.submit("lead", fmt.Sprint("second ", i))
		}
		time.Sleep(time.Second)
		joined := time.Now()
		s.hire("idle", engagement{agents: s.agents[:1]})
		s.eventually("the first turn of all seven", func() bool {
			n := 0
			for _, a := range s.asked("lead") {
				if a.turn == 1 {
					n++
				}
			}
			return n == 7
		})
		s.within(joined, 1500*time.Millisecond)
		for _, r := range first {
			s.completed(r, "c0=leaf")
		}
		time.Sleep(2 * time.Minute)
		if got := twice(s.asked("lead")); len(got) > 0 {
			t.Errorf("asked twice: %v", got)
		}
	})
}

// TestSlowModelsOnFewSlots: model calls that last longer than a lease, more
// agents than slots, many replies in line. No turn is asked twice and nothing
// is taken for poisoned.
func TestSlowModelsOnFewSlots(t *testing.T) {
	onStage(t, func(s *stage) {
		const agents, trees = 8, 10
		for i := range agents {
			lead, leaf := fmt.Sprintf("lead%d", i), fmt.Sprintf("leaf%d", i)
			s.agents = append(s.agents, define(lead, []string{leaf}), define(leaf, nil))
			s.parts[lead] = turns(after(25*time.Second, splits(leaf, 2)), after(25*time.Second, sums))
			s.parts[leaf] = after(25*time.Second, repeats)
		}
		s.hire("w1", engagement{Config: agentd.Config{Slots: 1, Timeout: 24 * time.Hour}})
		s.hire("w2", engagement{Config: agentd.Config{Slots: 2, Timeout: 24 * time.Hour}})
		s.settle()
		var all []subjects.Run
		for i := range trees {
			all = append(all, s.submit(fmt.Sprintf("lead%d", i%agents), strconv.Itoa(i)))
		}
		for i, r := range all {
			s.completed(r, fmt.Sprintf("c0=%d.0|c1=%d.1", i, i))
			if got := s.buried(r.Space.Dead()); len(got) > 0 {
				t.Errorf("dead letters: %v", got)
			}
		}
		if got := twice(s.asked("")); len(got) > 0 {
			t.Errorf("asked twice: %v", got)
		}
		if n, want := len(s.asked("")), trees*4; n != want {
			t.Errorf("%d requests, want %d", n, want)
		}
	})
}

// TestRepliesThatFoundNoSlot: a worker is slow to get at replies that it has
// been sent, and another one is given them instead. The first does not ask
// their models once more when it comes to them.
func TestRepliesThatFoundNoSlot(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{
			define("many", []string{"leaf"}),
			define("long", []string{"leaf"}),
			define("leaf", nil),
		}
		start := time.Now()
		until := func(d time.Duration) part {
			return func(ctx context.Context, a *asked) (*provider.Response, error) {
				return after(time.Until(start.Add(d)), says("leaf"))(ctx, a)
			}
		}
		s.parts["many"] = turns(calls(call("leaf", "soon")), after(5*time.Second, sums))
		s.parts["long"] = turns(calls(call("leaf", "later")), after(time.Minute, sums))
		s.parts["leaf"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			if a.text() == "Task: soon" {
				return until(20*time.Second)(ctx, a)
			}
			return until(20*time.Second+500*time.Millisecond)(ctx, a)
		}
		s.hire("leaves", engagement{agents: s.agents[2:]})
		s.hire("w1", engagement{Config: agentd.Config{Slots: 1}, agents: s.agents[:2]})
		s.settle()
		var all []subjects.Run
		for i := range 5 {
			all = append(all, s.submit("many", strconv.Itoa(i)))
		}
		for i := range 4 {
			all = append(all, s.submit("long", strconv.Itoa(i)))
		}
		time.Sleep(time.Until(start.Add(25 * time.Second)))
		s.hire("w2", engagement{Config: agentd.Config{Slots: 1}, agents: s.agents[:2]})
		for _, r := range all {
			s.completed(r, "c0=leaf")
		}
		time.Sleep(2 * time.Minute)
		if got := twice(append(s.asked("many"), s.asked("long")...)); len(got) > 0 {
			t.Errorf("asked twice: %v", got)
		}
	})
}

// TestSlotForOneself: with one slot a worker takes a reply and, at the same
// moment, its run's call, which comes again. The call has the slot that the
// reply's turn waits for, and is behind it at their desk. Which of them comes
// first is chance.
func TestSlotForOneself(t *testing.T) {
	for range 30 {
		onStage(t, func(s *stage) {
			s.lead([]string{"leaf"}, call("leaf", "x"))
			r := s.root("lead")
			var replied atomic.Bool
			victim := s.hire("victim", engagement{intercept: func(at bus.Point) error {
				replied.CompareAndSwap(false, at.After && at.Subject == r.Reply(1, 0))
				if replied.Load() || at.Op == "ack" && at.Subject == r.Call() {
					return errKilled
				}
				return nil
			}})
			s.settle()
			s.send(r, "go")
			s.eventually("the outcome of the leaf", replied.Load)
			victim.kill()
			time.Sleep(2 * bus.DefaultAckWait)
			s.hire("heir", engagement{Config: agentd.Config{Slots: 1}})
			s.completed(r, "c0=leaf")
		})
		if t.Failed() {
			return
		}
	}
}

// TestRestingWorkerAsksInStep: a worker with nothing to do asks for all its
// agents at once, and not for each at another moment, with slots for all of
// them as without.
func TestRestingWorkerAsksInStep(t *testing.T) {
	for slots, every := range map[int]time.Duration{4: 100 * time.Millisecond, 64: bus.PullExpiry} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			onStage(t, func(s *stage) {
				const agents, watched = 16, 10 * time.Second
				for i := range agents {
					s.agents = append(s.agents, define(fmt.Sprint("a", i), nil))
				}
				var mu sync.Mutex
				asked := map[time.Duration]int{}
				from := time.Now()
				stop, err := s.conn.Watch("$JS.API.CONSUMER.MSG.NEXT.>", func(bus.Stored) {
					mu.Lock()
					defer mu.Unlock()
					asked[time.Since(from).Round(5*time.Millisecond)]++
				})
				if err != nil {
					t.Fatal(err)
				}
				defer stop()
				s.hire("w", engagement{Config: agentd.Config{Slots: slots}})
				// each is served at a moment of its own
				for _, a := range s.agents {
					s.completed(s.submit(a.Name, "go"), a.Name)
					time.Sleep(137 * time.Millisecond)
				}
				time.Sleep(10 * time.Second)
				mu.Lock()
				clear(asked)
				mu.Unlock()
				time.Sleep(watched)
				mu.Lock()
				defer mu.Unlock()
				n := 0
				for _, k := range asked {
					n += k
				}
				if most := int(watched/every) + 1; len(asked) > most || n < agents*most {
					t.Errorf("%d requests at %d moments, want %d moments at most: %v", n, len(asked), most, asked)
				}
			})
		})
	}
}
