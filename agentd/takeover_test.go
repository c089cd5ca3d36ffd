package agentd_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestZombieStopsAsking: a worker that has lost its lease goes on asking until
// it knows that another one asks too, and then stops at once. It does not ask
// again, and gives nothing back that is not its own.
func TestZombieStopsAsking(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.parts["lead"] = after(10*time.Minute, says("done"))
		var mute atomic.Bool
		s.hire("victim", engagement{Config: agentd.Config{Slots: 1}, mute: &mute})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("lead", 1)
		mute.Store(true)
		time.Sleep(time.Minute)
		if a := s.asked("lead"); len(a) != 1 || !a[0].to.IsZero() {
			t.Fatalf("%d requests, the first ended at %v: nobody else was there", len(a), a[0].to)
		}
		s.hire("heir", engagement{})
		s.asking("lead", 2)
		taken := time.Now()
		mute.Store(false)
		s.completed(r, "done")
		a := s.asked("lead")
		if d := a[0].to.Sub(taken); d > bus.DefaultAckWait/2 || a[0].err == nil {
			t.Errorf("the zombie went on for %v, error %v", d, a[0].err)
		}
		if len(a) != 2 || a[1].worker != "heir" {
			t.Errorf("%d requests, the second by %s", len(a), a[1].worker)
		}
	})
}

// TestFinishedMeanwhile: whoever took the run over has ended it before the
// zombie looks.
func TestFinishedMeanwhile(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.parts["lead"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			if a.worker == "victim" {
				return after(10*time.Minute, says("late"))(ctx, a)
			}
			return says("at once")(ctx, a)
		}
		var mute atomic.Bool
		s.hire("victim", engagement{Config: agentd.Config{Slots: 1}, mute: &mute})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("lead", 1)
		mute.Store(true)
		s.hire("heir", engagement{})
		if o := s.completed(r, "at once"); o.Worker != "heir" {
			t.Errorf("%s has answered", o.Worker)
		}
		from := time.Now()
		s.eventually("the end of the first request", func() bool { return !s.asked("lead")[0].to.IsZero() })
		s.within(from, bus.DefaultAckWait)
		if got := s.outcomes(r.Space.Result(r.Agent, r.Tree)); len(got) != 1 || got[0].Status != run.StatusCompleted {
			t.Errorf("outcomes %+v", got)
		}
	})
}

// TestSubmissionOfTheDead: a worker that dies with a submission in hand holds
// that up for a moment, and not for as long as it would a model call. One that
// was only slow does it no harm: it is one tree.
func TestSubmissionOfTheDead(t *testing.T) {
	for name, comesBack := range map[string]bool{"dead": false, "slow": true} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.lead(nil)
				s.parts["lead"] = says("done")
				held := make(chan struct{})
				// the submission may come to it once more
				var again atomic.Bool
				victim := s.hire("victim", engagement{intercept: func(at bus.Point) error {
					if at.Op == "write" && !at.After && strings.HasSuffix(at.Subject, ".r.call") &&
						!again.Swap(true) {
						close(held)
						time.Sleep(3 * time.Second)
					}
					return nil
				}})
				s.settle()
				r := s.submit("lead", "go")
				<-held
				from := time.Now()
				if !comesBack {
					victim.kill()
				}
				s.hire("heir", engagement{})
				s.completed(r, "done")
				s.within(from, 2*time.Second)
				time.Sleep(time.Minute)
				if n := s.runs(r); n != 1 || len(s.asked("lead")) != 1 {
					t.Errorf("%d calls, %d requests", n, len(s.asked("lead")))
				}
			})
		})
	}
}

// TestHungBeyondItsDeadline: who hangs in a model call keeps its run's triggers
// for no longer than the run has time. Then they go to whoever asks, and that
// may be the same worker: what hangs there is in nobody's way.
func TestHungBeyondItsDeadline(t *testing.T) {
	for _, alone := range []bool{true, false} {
		t.Run(fmt.Sprintf("alone %t", alone), func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.lead(nil)
				s.parts["lead"] = func(context.Context, *asked) (*provider.Response, error) {
					// whatever becomes of its context
					time.Sleep(10 * time.Minute)
					return nil, context.DeadlineExceeded
				}
				s.hire("victim", engagement{})
				if !alone {
					s.hire("heir", engagement{})
				}
				s.settle()
				from := time.Now()
				r := s.root("lead")
				s.send(r, "go", [2]string{subjects.HeaderDeadline, from.Add(time.Minute).Format(time.RFC3339Nano)})
				s.failed(r, run.KindTimeout, "timeout after 60s")
				s.within(from, time.Minute+3*bus.DefaultAckWait)
				time.Sleep(15 * time.Minute)
				if n := len(s.asked("lead")); n != 1 {
					t.Errorf("%d requests", n)
				}
				s.clean()
			})
		})
	}
}
