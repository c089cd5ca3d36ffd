package agentd_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// grove is a tree of three levels, two wide, whose leaves take a minute. The
// second turn of a mid answers at once. Two workers with few slots share it.
func (s *stage) grove() {
	s.agents = []configs.Agent{define("lead", []string{"mid"}), define("mid", []string{"leaf"}), define("leaf", nil)}
	s.parts["lead"] = turns(calls(call("mid", "1"), call("mid", "2")), sums)
	s.parts["mid"] = turns(calls(call("leaf", "1"), call("leaf", "2")), sums)
	s.parts["leaf"] = after(time.Minute, repeats)
	for _, name := range []string{"w1", "w2"} {
		s.hire(name, engagement{Config: agentd.Config{Slots: 3}})
	}
	s.settle()
}

// planted waits until the leaves of a grove are in flight, on both workers.
func (s *stage) planted() {
	s.asking("leaf", 4)
	workers := map[string]bool{}
	for _, a := range s.asked("leaf") {
		workers[a.worker] = true
	}
	if len(workers) != 2 {
		s.tb.Fatalf("only %v took part", workers)
	}
}

// stopped checks that requests below a path were aborted at once, and none was
// made afterwards.
func (s *stage) stopped(asks []asked, cut time.Time) {
	for _, a := range asks {
		switch {
		case a.from.After(cut):
			s.tb.Errorf("%s was asked %v after the cancel", a.agent, a.from.Sub(cut))
		case a.to.IsZero() || a.to.Sub(cut) > 50*time.Millisecond:
			s.tb.Errorf("%s was aborted %v after the cancel", a.agent, a.to.Sub(cut))
		case a.to.After(cut) && a.err == nil:
			s.tb.Errorf("%s answered after the cancel", a.agent)
		}
	}
}

// TestCancelWhileAwaiting: everything in flight below is aborted at once, on
// every worker, and no model is asked any more; each run has its end.
func TestCancelWhileAwaiting(t *testing.T) {
	onStage(t, func(s *stage) {
		s.grove()
		r := s.submit("lead", "go")
		s.planted()
		time.Sleep(10 * time.Second)
		cut := time.Now()
		s.pub(r.Cancel(), "")
		s.failed(r, run.KindCancelled, "cancelled")
		s.within(cut, 200*time.Millisecond)
		time.Sleep(3 * time.Minute)
		s.stopped(s.asked(""), cut)
		if n := len(s.asked("")); n != 7 {
			t.Errorf("%d requests", n)
		}
		s.everyRunEnded(r)
	})
}

// everyRunEnded checks that each of the seven runs of a grove has an outcome,
// or a tombstone that says the same.
func (s *stage) everyRunEnded(r subjects.Run) {
	calls := 0
	for _, m := range s.all(r.Space.TreeOf(r.Tree)) {
		at, err := r.Space.Parse(m.Subject)
		if err != nil || at.Kind != subjects.Call {
			continue
		}
		calls++
		if len(s.all(m.Header.Get(subjects.HeaderReply))) == 0 && len(s.all(at.Run.Cancel())) == 0 {
			s.tb.Errorf("%s has no end", at.Run)
		}
	}
	if calls != 7 {
		s.tb.Errorf("%d runs, want 7", calls)
	}
}

// TestCancelWhileAsking aborts the request of the run itself.
func TestCancelWhileAsking(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.parts["lead"] = after(time.Minute, says("too late"))
		s.hire("w", engagement{})
		r := s.submit("lead", "go")
		s.asking("lead", 1)
		cut := time.Now()
		s.write(
			bus.Message{
				Subject: r.Cancel(),
				Fence:   bus.After(r.Cancel(), 0),
				Body:    []byte(`{"kind":"cancelled","text":"enough of it"}`),
			},
		)
		s.failed(r, run.KindCancelled, "enough of it")
		s.within(cut, 200*time.Millisecond)
		s.stopped(s.asked(""), cut)
	})
}

// TestCancelBeforeCall: a tombstone that is there first ends the run at its
// call.
func TestCancelBeforeCall(t *testing.T) {
	for name, early := range map[string]bool{"known when the worker starts": true, "learned while it serves": false} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.lead(nil)
				r := s.root("lead")
				if !early {
					s.hire("w", engagement{})
				}
				s.pub(r.Cancel(), "")
				if early {
					time.Sleep(time.Second)
					s.hire("w", engagement{})
				}
				time.Sleep(time.Second)
				s.send(r, "go")
				s.failed(r, run.KindCancelled, "cancelled")
				if len(s.asked("")) != 0 {
					t.Error("the model of a cancelled run was asked")
				}
			})
		})
	}
}

// TestCancelReachesChildrenNobodyServes: each awaited child has its tombstone
// at once, and its end when a worker for it comes.
func TestCancelReachesChildrenNobodyServes(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"lonely"}, call("lonely", "x"), call("lonely", "y"))
		s.announce("lonely")
		s.hire("w", engagement{agents: s.agents[:1]})
		r := s.submit("lead", "go")
		s.eventually("two calls", func() bool { return len(s.all(s.child(r, "lonely", 1).Call())) == 1 })
		s.pub(r.Cancel(), "")
		s.failed(r, run.KindCancelled, "cancelled")
		for i := range 2 {
			if n := len(s.all(s.child(r, "lonely", i).Cancel())); n != 1 {
				t.Errorf("child %d has %d tombstones", i, n)
			}
		}
		s.hire("late", engagement{agents: s.agents[1:]})
		s.eventually("the outcomes", func() bool { return len(s.all(r.Replies())) == 2 })
		if o := s.outcomes(r.Reply(1, 1))[0]; o.Kind != run.KindCancelled || len(s.asked("lonely")) != 0 {
			t.Errorf("outcome %+v after %d requests", o, len(s.asked("lonely")))
		}
	})
}

// TestCallBelowATombstone: a zombie calls a child after the tree was cancelled.
// It ends without a word to its model.
func TestCallBelowATombstone(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.hire("w", engagement{})
		s.settle()
		boss := s.root("boss")
		r := s.child(boss, "lead", 0)
		s.pub(boss.Cancel(), "")
		time.Sleep(time.Second)
		head := subjects.Header{
			Tree: r.Tree, Path: r.Path, Parent: boss.Agent, Depth: 1, MaxDepth: 5, Deadline: time.Now().Add(time.Minute), Reply: boss.Reply(1, 0),
		}
		s.write(bus.Message{Subject: r.Call(), Header: head.Pairs(), Body: []byte(`{"task":"x"}`)})
		time.Sleep(time.Second)
		if got := s.outcomes(boss.Reply(1, 0)); len(got) != 1 || got[0].Kind != run.KindCancelled {
			t.Errorf("outcomes %+v", got)
		}
		if len(s.asked("")) != 0 {
			t.Error("the model was asked")
		}
	})
}

// TestCancelInTheMiddle: the parent gets a failed result and goes on; the
// sibling is not touched.
func TestCancelInTheMiddle(t *testing.T) {
	onStage(t, func(s *stage) {
		s.grove()
		r := s.submit("lead", "go")
		s.planted()
		cut := time.Now()
		s.pub(s.child(r, "mid", 0).Cancel(), "")
		s.completed(r, "c0="+failedCall("mid", "cancelled")+"|c1=c0=1|c1=2")
		aborted := 0
		for _, a := range s.asked("leaf") {
			if errors.Is(a.err, nil) {
				continue
			}
			aborted++
			if d := a.to.Sub(cut); d > 50*time.Millisecond {
				t.Errorf("aborted after %v", d)
			}
		}
		if aborted != 2 {
			t.Errorf("%d leaves were aborted, want the two below", aborted)
		}
		s.everyRunEnded(r)
	})
}

// TestCancelTwice: a second tombstone, and one after the end, change nothing.
func TestCancelTwice(t *testing.T) {
	onStage(t, func(s *stage) {
		s.grove()
		r := s.submit("lead", "go")
		s.planted()
		s.pub(r.Cancel(), "")
		s.pub(r.Cancel(), `{"kind":"timeout","text":"another reason"}`)
		s.failed(r, run.KindCancelled, "cancelled")
		time.Sleep(time.Minute)
		s.pub(r.Cancel(), "")
		time.Sleep(time.Minute)
		if n := len(s.all(r.Space.Result(r.Agent, r.Tree))); n != 1 {
			t.Errorf("%d results", n)
		}
		if n := len(s.entries(r)); n != 2 {
			t.Errorf("%d entries, want a turn and the end:\n%s", n, s.dump(r.Tree))
		}
		for i := range 2 {
			if n := len(s.all(s.child(r, "mid", i).Cancel())); n != 1 {
				t.Errorf("%d tombstones of child %d", n, i)
			}
		}
	})
}

// TestTwoTombstonesForTwoWorkers: each gets one of the two, one of them has the
// run in its cache and the other reads it anew. They agree on which counts.
func TestTwoTombstonesForTwoWorkers(t *testing.T) {
	onStage(t, func(s *stage) {
		const n = 8
		s.agents = []configs.Agent{
			define("lead", []string{"mid"}),
			define("mid", []string{"leaf"}),
			define("leaf", nil),
		}
		s.parts["lead"], s.parts["mid"] = turns(splits("mid", n), sums), turns(splits("leaf", 1), sums)
		s.parts["leaf"] = after(time.Minute, repeats)
		s.hire("w1", engagement{})
		s.hire("w2", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("leaf", n)
		cut := time.Now()
		var want []string
		for i := range n {
			s.pub(s.child(r, "mid", i).Cancel(), "")
			s.pub(s.child(r, "mid", i).Cancel(), "")
			want = append(want, fmt.Sprintf("c%d=%s", i, failedCall("mid", "cancelled")))
		}
		s.completed(r, strings.Join(want, "|"))
		s.within(cut, time.Second)
	})
}

// TestCancelAfterTheEnd leaves the result as it is.
func TestCancelAfterTheEnd(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.hire("w", engagement{})
		r := s.submit("lead", "go")
		s.completed(r, "lead")
		s.pub(r.Cancel(), "")
		time.Sleep(time.Minute)
		if n := len(s.all(r.Space.Result(r.Agent, r.Tree))); n != 1 {
			t.Errorf("%d results", n)
		}
		if n := len(s.all(r.Log())); n != 0 {
			t.Errorf("%d entries on the log of a run that was over", n)
		}
	})
}

// TestCancelWithoutWorkers: nobody is there when a tree is cancelled. Who comes
// next stops it without asking anybody, though the replies to its leaves' calls
// are due.
func TestCancelWithoutWorkers(t *testing.T) {
	onStage(t, func(s *stage) {
		s.grove()
		r := s.submit("lead", "go")
		s.planted()
		for _, h := range s.hands {
			h.kill()
		}
		time.Sleep(time.Second)
		asks := len(s.asked(""))
		s.pub(r.Cancel(), "")
		s.hire("w3", engagement{})
		s.failed(r, run.KindCancelled, "cancelled")
		time.Sleep(3 * time.Minute)
		if n := len(s.asked("")); n != asks {
			t.Errorf("%d requests after the cancel", n-asks)
		}
		s.everyRunEnded(r)
	})
}

// TestCancelManyAtWork cancels a tree of 300 runs, most of them with a request
// in flight, on four workers. No request begins a second later, each run gets
// its outcome, and the root says that it was cancelled.
func TestCancelManyAtWork(t *testing.T) {
	onStage(t, func(s *stage) {
		const mids, leaves = 13, 22
		s.agents = []configs.Agent{
			define("lead", []string{"mid"}),
			define("mid", []string{"leaf"}),
			define("leaf", []string{"leaf"}),
		}
		s.parts["lead"], s.parts["mid"] = turns(splits("mid", mids), sums), turns(splits("leaf", leaves), sums)
		s.parts["leaf"] = after(10*time.Minute, repeats)
		for i := range 4 {
			s.hire(fmt.Sprintf("w%d", i), engagement{Config: agentd.Config{Slots: 80}})
		}
		s.settle()
		r := s.submit("lead", "L")
		s.asking("leaf", mids*leaves)
		if n := s.runs(r); n != 300 {
			t.Fatalf("%d runs", n)
		}
		cut := time.Now()
		s.pub(r.Cancel(), `{"text":"enough"}`)
		s.failed(r, run.KindCancelled, "enough")
		s.within(cut, time.Second)
		ended := 0
		s.eventually("an outcome of each run", func() bool {
			ended = len(s.all(r.Space.Result(r.Agent, r.Tree)))
			for _, m := range s.all(r.Space.TreeOf(r.Tree)) {
				if at, err := r.Space.Parse(m.Subject); err == nil && at.Kind == subjects.Reply {
					ended++
				}
			}
			return ended == 300
		})
		took := time.Since(cut)
		time.Sleep(20 * time.Minute)
		last := time.Duration(0)
		for _, a := range s.asked("") {
			last = max(last, a.from.Sub(cut))
			if a.to.Sub(cut) > time.Second {
				t.Errorf("%s was aborted %v after the cancel", a.agent, a.to.Sub(cut))
			}
		}
		if last > time.Second {
			t.Errorf("a request began %v after the cancel", last)
		}
		s.check(r.Tree)
		t.Logf("all 300 had ended %v after the cancel", took)
	})
}
