package agentd_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/verify"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// verified checks everything on the stream against the rules, as of now:
// nothing is stored while it reads, since time stands still.
func (s *sim) verified() verify.Report {
	c := verify.New(verify.Config{Slack: 5 * time.Second})
	for m, err := range s.conn.Scan(s.ctx, s.conn.Space().All(), 0) {
		if err != nil {
			s.tb.Fatal(err)
		}
		body, err := s.conn.Load(s.ctx, m)
		if err != nil {
			s.tb.Fatal(err)
		}
		fence, fenced := m.Fence()
		c.Add(
			verify.Message{
				Subject: m.Subject,
				Seq:     m.Seq,
				Time:    m.Time,
				Header:  m.Header.Get,
				Body:    body,
				Fenced:  fenced,
				Fence:   fence,
			},
		)
	}
	return c.Report(time.Now())
}

// clean wants no violation on the stream.
func (s *sim) clean() verify.Report {
	r := s.verified()
	for _, f := range r.Findings {
		if f.Severity == verify.Violation {
			s.tb.Errorf("%v", f)
		}
	}
	return r
}

// mortal hires a worker that dies at one of its steps.
func (s *stage) mortal(name string, at int64) {
	var steps atomic.Int64
	dying := make(chan struct{})
	h := s.hire(name, engagement{intercept: func(bus.Point) error {
		switch n := steps.Add(1); {
		case n == at:
			close(dying)
			return errKilled
		case n > at:
			return errKilled
		}
		return nil
	}})
	// ends with the bubble at the latest
	go func() {
		select {
		case <-dying:
			h.kill()
		case <-s.ctx.Done():
		}
	}()
}

// TestVerifyTrees runs trees of all kinds beside each other, while workers die,
// and looks at the stream every second: nothing is ever wrong on it, and at the
// end every tree is at its end.
func TestVerifyTrees(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = append(
			s.agents,
			define("wide", []string{"middle"}),
			define("narrow", []string{"middle"}, sequential),
			define(
				"hasty",
				[]string{"slow"},
				timeout(3),
			),
			define("orderly", []string{"slow", "leaf"}, sequential, timeout(3)),
			define("middle", []string{"leaf"}),
			define("leaf", nil),
			define("slow", nil),
			define("odd", []string{"leaf", "nobody"}),
			define("broken", nil),
		)
		s.parts["leaf"] = after(time.Second, repeats)
		s.parts["slow"] = after(time.Minute, repeats)
		s.parts["broken"] = fails(errBroken)
		s.parts["middle"] = turns(splits("leaf", 2), splits("leaf", 1), sums)
		s.parts["wide"] = turns(splits("middle", 3), sums)
		s.parts["narrow"] = turns(splits("middle", 2), splits("middle", 1), sums)
		s.parts["hasty"] = turns(splits("slow", 2), splits("slow", 1), sums)
		s.parts["orderly"] = turns(calls(call("leaf", "x"), call("slow", "y"), call("leaf", "z")), sums)
		s.parts["odd"] = turns(
			calls(call("nobody", "x"), call("leaf", "y"), toolCall("rm", nil)),
			calls(call("nobody", "x")),
			sums,
		)
		for i := range 3 {
			s.mortal(fmt.Sprintf("mortal%d", i), int64(25*(i+1)))
		}
		s.hire("heir", engagement{})
		s.settle()
		n := 0
		for round := range 3 {
			for _, agent := range []string{"wide", "narrow", "hasty", "orderly", "odd", "broken", "wide", "narrow", "unknown"} {
				r := s.root(agent)
				n++
				switch n % 9 {
				case 7: // the end of its time comes in the middle
					s.send(
						r,
						"go",
						[2]string{"Axe-Deadline", time.Now().Add(2500 * time.Millisecond).Format(time.RFC3339Nano)},
					)
				case 8: // cancelled, in another moment each round
					s.send(r, "go")
					go func() {
						time.Sleep(time.Duration(round) * 1700 * time.Millisecond)
						_, _ = s.conn.Write(s.ctx, bus.Message{Subject: r.Cancel(), Fence: bus.After(r.Cancel(), 0)})
					}()
				default:
					s.send(r, "go")
				}
			}
			time.Sleep(1300 * time.Millisecond)
		}
		for range 60 {
			time.Sleep(time.Second)
			s.clean()
		}
		time.Sleep(10 * time.Minute)
		if r := s.clean(); r.Trees != n || r.UnderWay != 0 || r.Runs < 5*n {
			t.Errorf("%d trees: %d, %d of them under way, %d runs", n, r.Trees, r.UnderWay, r.Runs)
		}
	})
}

// TestVerifyZombie: the entry of a worker that froze before it wrote it, after
// another one has ended the run, is what a race explains.
func TestVerifyZombie(t *testing.T) {
	bubble(t, func(s *sim) {
		s.agents = levels(2)
		s.model.whim = func(worker, key string) *provider.Response {
			if worker == "heir" && key == "L#1" {
				return &provider.Response{Content: "no need to call anybody"}
			}
			return nil
		}
		var frozen atomic.Bool
		victim := s.startWith("victim", agentd.Config{Slots: 1}, &frozen, func(_ *proc, _ int, p bus.Point) {
			if p.Op == "write" && strings.HasSuffix(p.Subject, ".log") && frozen.CompareAndSwap(false, true) {
				time.Sleep(time.Minute)
			}
		})
		r := s.submit("a0", "L")
		time.Sleep(2 * time.Second)
		heir := s.start("heir", agentd.Config{}, nil)
		if o := s.result(r, time.Hour); o.Status != run.StatusCompleted || o.Worker != "heir" {
			t.Fatalf("%+v", o)
		}
		time.Sleep(2 * time.Minute)
		report := s.clean()
		if len(report.Findings) != 1 || report.Findings[0].Rule != verify.AfterEnd || report.Runs != 1 {
			t.Errorf("%+v", report)
		}
		for _, p := range []*proc{victim, heir} {
			p.kill()
			_ = p.wait()
		}
	})
}

// TestTombstonesKnown: what a model answered carries the newest tombstone that
// its worker knew when it asked, whichever tree that was of, and not one that
// came while it waited.
func TestTombstonesKnown(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = append(s.agents, define("lead", []string{"leaf"}), define("leaf", nil))
		s.parts["lead"] = turns(after(10*time.Second, calls(call("leaf", "x"))), sums)
		s.hire("w", engagement{})
		s.settle()
		cancelled := func() uint64 {
			r := s.root("lead")
			seq, err := s.conn.Write(s.ctx, bus.Message{Subject: r.Cancel()})
			if err != nil {
				t.Fatal(err)
			}
			return seq
		}
		before := cancelled()
		time.Sleep(time.Second)
		r := s.root("lead")
		s.send(r, "go")
		s.asking("lead", 1)
		during := cancelled()
		o := s.completed(r, "c0=leaf")
		if e := s.entries(r); len(e) != 1 || e[0].CancelsSeen != before || o.CancelsSeen != during {
			t.Errorf(
				"the first turn knew of %d and the last of %d, want %d and %d",
				e[0].CancelsSeen,
				o.CancelsSeen,
				before,
				during,
			)
		}
		s.clean()
	})
}

// TestVerifyCountsOnce: an answer that stands on the log before it is the
// outcome is one model call.
func TestVerifyCountsOnce(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{"r": {calls(uses("fork", "prompt", "one")), calls(uses("wait")), sums}})
		s.agents[0].Budget = subjects.Budget{Turns: 4}
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.completed(
			r,
			`c0={"messages":[{"from":"r-1-0","message":{"status":"idle","success":true,"summary":"of r-1-0"}}]}`,
		)
		time.Sleep(time.Minute)
		s.clean()
	})
}

// TestVerifyFalseWord: who may write to a run does not speak for its forks:
// what says so is a letter like any other, its figures are nobody's, and it is
// found.
func TestVerifyFalseWord(t *testing.T) {
	onStage(t, func(s *stage) {
		s.mailer(map[string][]part{
			"r":     {calls(uses("fork", "prompt", "one")), calls(spawnCall("wait", `{"from":["r-1-0"]}`)), sums},
			"r-1-0": {after(time.Minute, says("done"))},
		})
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.eventually("it waits", func() bool { return len(s.entries(r)) == 2 })
		s.pub(
			r.Mail(s.key("k")),
			`{"from":"r-1-0","idle":true,"seen":1000,"text":"{\"status\":\"idle\",\"success\":true}","subtree":{"runs":9}}`,
		)
		o := s.completed(
			r,
			`c0={"agents":[{"id":"r-1-0","status":"received","messages":["{\"status\":\"idle\",\"success\":true}"]}]}`,
		)
		if o.Subtree.Runs != 1 {
			t.Errorf("%d runs are counted", o.Subtree.Runs)
		}
		report := s.verified()
		if len(report.Findings) != 1 || report.Findings[0].Rule != verify.Mail || report.Violations() != 1 {
			t.Errorf("%+v", report.Findings)
		}
	})
}
