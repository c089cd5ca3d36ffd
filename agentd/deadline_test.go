package agentd_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

func due(at time.Time) [2]string {
	return [2]string{subjects.HeaderDeadline, subjects.FormatDeadline(at)}
}

// TestDeadlineOfASubmissionOnlyNarrows what the worker allows.
func TestDeadlineOfASubmissionOnlyNarrows(t *testing.T) {
	for name, test := range map[string]struct{ asked, want time.Duration }{
		"narrower": {time.Minute, time.Minute},
		"wider":    {24 * time.Hour, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.lead(nil)
				s.hire("w", engagement{Config: agentd.Config{Timeout: 5 * time.Minute}})
				r, now := s.root("lead"), time.Now()
				s.send(r, "go", due(now.Add(test.asked)))
				s.completed(r, "lead")
				got, err := subjects.ParseDeadline(s.all(r.Call())[0].Header.Get(subjects.HeaderDeadline))
				if err != nil || got.Sub(now).Round(time.Second) != test.want {
					t.Errorf("deadline after %v (%v), want %v", got.Sub(now), err, test.want)
				}
			})
		})
	}
}

// TestHeadersFromOutsideAreIgnored, but for the deadline, which has to make
// sense.
func TestHeadersFromOutsideAreIgnored(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.hire("w", engagement{})
		r := s.root("lead")
		s.send(
			r,
			"go",
			[2]string{subjects.HeaderDepth, "4"},
			[2]string{subjects.HeaderMaxDepth, "0"},
			[2]string{subjects.HeaderParent, "boss"},
			[2]string{
				subjects.HeaderReply,
				"axe.run.boss.T.r.in.1.0",
			},
			[2]string{subjects.HeaderTree, "T"},
			[2]string{subjects.HeaderPath, "r-1-0"},
		)
		s.completed(r, "lead")
		head, err := subjects.ParseCall(r, s.all(r.Call())[0].Header.Get)
		if err != nil || head.Depth != 0 || head.MaxDepth != subjects.MaxDepth || !head.Parent.IsZero() {
			t.Errorf("%+v %v", head, err)
		}
		bad := s.root("lead")
		s.send(bad, "go", [2]string{subjects.HeaderDeadline, "tomorrow"})
		s.failed(
			bad,
			run.KindError,
			`submission refused: Axe-Deadline "tomorrow": malformed: want RFC 3339, for example 2026-01-02T15:04:05.678Z`,
		)
	})
}

// TestDeadlineDuringAModelCall aborts the request and ends the run.
func TestDeadlineDuringAModelCall(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.parts["lead"] = after(time.Hour, says("too late"))
		s.hire("w", engagement{})
		r, end := s.root("lead"), time.Now().Add(30*time.Second)
		s.send(r, "go", due(end))
		s.failed(r, run.KindTimeout, "timeout after 30s")
		s.within(end, time.Second)
		if a := s.asked("lead")[0]; !a.to.Equal(end) || a.err == nil {
			t.Errorf("the request ended %v after the deadline: %v", a.to.Sub(end), a.err)
		}
	})
}

// TestDeadlineStopsTheWholeTree: nothing below a root outlives it.
func TestDeadlineStopsTheWholeTree(t *testing.T) {
	onStage(t, func(s *stage) {
		s.grove()
		r, end := s.root("lead"), time.Now().Add(30*time.Second)
		s.send(r, "go", due(end))
		s.planted()
		s.failed(r, run.KindTimeout, "timeout after 30s")
		s.within(end, time.Second)
		time.Sleep(3 * time.Minute)
		s.stopped(s.asked(""), end)
		s.everyRunEnded(r)
	})
}

// TestDeadlineInThePast: the model is not asked at all.
func TestDeadlineInThePast(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.hire("w", engagement{})
		time.Sleep(2 * time.Minute)
		r := s.root("lead")
		s.send(r, "go", due(time.Now().Add(-time.Minute)))
		s.failed(r, run.KindTimeout, "timeout after 0s")
		if len(s.asked("")) != 0 {
			t.Error("the model was asked")
		}
	})
}

// TestRootWithoutWorker: the agent is known, but nobody serves it. Another
// worker ends it at its time.
func TestRootWithoutWorker(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("other", nil)}
		s.announce("lonely")
		s.hire("w", engagement{Config: agentd.Config{Timeout: 90 * time.Second}})
		from := time.Now()
		r := s.submit("lonely", "go")
		s.failed(r, run.KindTimeout, "timeout after 90s")
		s.within(from, 92*time.Second)
	})
}

// TestCancelledRootWithoutWorker: the same worker ends it when it is cancelled.
func TestCancelledRootWithoutWorker(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("other", nil)}
		s.announce("lonely")
		s.hire("w", engagement{})
		r := s.submit("lonely", "go")
		time.Sleep(time.Minute)
		cut := time.Now()
		s.pub(r.Cancel(), "")
		s.failed(r, run.KindCancelled, "cancelled")
		s.within(cut, time.Second)
	})
}

// TestSlowModel takes twenty times as long as a lease: it is one delivery, and
// one request.
func TestSlowModel(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.parts["lead"] = after(10*time.Minute, says("at last"))
		var deliveries atomic.Int64
		for _, name := range []string{"w1", "w2"} {
			s.hire(name, engagement{ackWait: 30 * time.Second, intercept: func(at bus.Point) error {
				if at.Op == "ack" && !at.After && strings.HasSuffix(at.Subject, ".call") {
					deliveries.Add(1)
				}
				return nil
			}})
		}
		s.settle()
		s.completed(s.submit("lead", "go"), "at last")
		time.Sleep(time.Minute)
		if n := len(s.asked("")); n != 1 || deliveries.Load() != 1 {
			t.Errorf("%d requests in %d deliveries", n, deliveries.Load())
		}
	})
}

// TestRootCancelledBeforeItsCallWithoutWorker: its call, at which it ends,
// comes to nobody, but its deadline does.
func TestRootCancelledBeforeItsCallWithoutWorker(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lonely", nil)}
		s.hire("w", engagement{})
		s.settle()
		s.hands[0].kill()
		s.hire("other", engagement{agents: []configs.Agent{define("other", nil)}})
		s.settle()
		r := s.root("lonely")
		s.pub(r.Cancel(), "")
		time.Sleep(time.Second)
		s.send(r, "go", due(time.Now().Add(5*time.Second)))
		s.failed(r, run.KindCancelled, "cancelled")
		s.clean()
	})
}

// TestRootWhoseTimerIsLate: who stored its call died before it set the timer,
// and its time was over before anybody took the task again.
func TestRootWhoseTimerIsLate(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("other", nil)}
		s.announce("lonely")
		r := s.root("lonely")
		var died atomic.Bool
		w := s.hire("w", engagement{intercept: func(at bus.Point) error {
			if died.Load() || at.After && at.Subject == r.Call() {
				died.Store(true)
				return errKilled
			}
			return nil
		}})
		s.settle()
		s.send(r, "go", due(time.Now().Add(3*time.Second)))
		s.eventually("its death", died.Load)
		w.kill()
		s.hire("heir", engagement{})
		s.failed(r, run.KindTimeout, "timeout after 3s")
		s.clean()
	})
}
