package agentd_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/internal/history"
	"github.com/axebus/axe/subjects"
)

// clockErrors are differences of the server's clock from the workers' clocks.
var clockErrors = []time.Duration{-time.Hour, -5 * time.Minute, 5 * time.Minute, time.Hour}

// pastNewYear is a wait before the server's clock is set back. A bubble begins
// with the year 2000, and a deadline before that year is malformed.
const pastNewYear = 2 * time.Hour

// TestClockOfTheServerIsWrong: the server's clock differs from the clocks of
// all workers, from the start or since it was set while a tree ran. The tree
// completes. A call that hangs ends when its timeout is over by the workers'
// clocks.
func TestClockOfTheServerIsWrong(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, by := range clockErrors {
		for name, later := range map[string]bool{"from the start": false, "set later": true} {
			t.Run(fmt.Sprintf("%v/%s", by, name), func(t *testing.T) {
				t.Parallel()
				withHarness(t, func(h *harness) { h.checkUnderWrongClock(by, later) })
			})
		}
	}
}

// checkUnderWrongClock runs a tree of three levels, with a call that hangs, and
// checks its answer and its duration. The server's clock is ahead by the given
// time, from the start or, with later, from 20 s after the submission on.
func (h *harness) checkUnderWrongClock(by time.Duration, later bool) {
	if by < 0 {
		time.Sleep(pastNewYear)
	}
	if !later {
		h.setServerClock(by)
	}
	h.agents = []configs.Agent{
		define("lead", []string{"mid", "stuck"}, timeout(120)), define("mid", []string{"leaf"}, timeout(120)),
		define("leaf", nil), define("stuck", nil),
	}
	h.models["lead"] = turns(calls(call("mid", "1"), call("mid", "2"), call("stuck", "3")), joinsResults)
	h.models["mid"] = turns(calls(call("leaf", "1"), call("leaf", "2")), joinsResults)
	h.models["leaf"] = delayed(40*time.Second, says("leaf"))
	h.models["stuck"] = delayed(time.Hour, says("too late"))
	for _, name := range []string{"w1", "w2"} {
		h.startWorker(name, workerOptions{})
	}
	h.awaitReady()
	from := time.Now()
	r := h.submit("lead", "go")
	time.Sleep(20 * time.Second)
	if later {
		h.setServerClock(by)
	}
	o := h.expectCompleted(r, "c0=c0=leaf|c1=leaf|c1=c0=leaf|c1=leaf|c2=Error: sub-agent \"stuck\" failed - "+
		"timeout after 120s. You may retry or proceed without this result.")
	if took := time.Since(from); (took - 2*time.Minute).Abs() > time.Second {
		h.tb.Errorf("the tree took %v, want the 2 min of its last call's timeout", took)
	}
	if said := time.Duration(o.DurationMS) * time.Millisecond; (said - 2*time.Minute).Abs() > time.Second {
		h.tb.Errorf("the outcome says that the tree took %v, want 2 min", said)
	}
	time.Sleep(time.Minute)
	h.checkVerified()
}

// TestClockOfTheServerIsSetWhileARunWaits: no worker serves a root's agent. The
// server's clock is set after the root's timer was set, so the timer may fire
// too early. The root still ends when its timeout is over.
func TestClockOfTheServerIsSetWhileARunWaits(t *testing.T) {
	t.Parallel()
	thorough(t)
	const allowed = 10 * time.Minute
	for _, by := range []time.Duration{-8 * time.Minute, time.Minute, 20 * time.Minute} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				if by < 0 {
					time.Sleep(pastNewYear)
				}
				h.announce("lonely")
				h.callingLead(nil)
				h.startWorker("w", workerOptions{Config: agentd.Config{Timeout: allowed}})
				from := time.Now()
				r := h.submit("lonely", "go")
				// The worker measures the clock every 2 s. One that
				// measured the step first would set the timer again
				// before it fires.
				time.Sleep(21 * time.Second)
				h.setServerClock(by)
				o := h.awaitOutcome(r, time.Hour)
				if o.Kind != run.KindTimeout || o.Error != "timeout after 600s" {
					t.Errorf("outcome %s %q, want timeout after 600s", o.Kind, o.Error)
				}
				// In a long wait the harness polls every few
				// seconds.
				said, took := time.Duration(o.DurationMS)*time.Millisecond, time.Since(from)
				if (said-allowed).Abs() > time.Second || (took-allowed).Abs() > 10*time.Second {
					t.Errorf("the root ended after %v, and its outcome says %v; want %v", took, said, allowed)
				}
			})
		})
	}
}

// TestTimersThatFireEarly: the server's clock is set forward, and the server
// fires the timer of a wait before its time. The wait still ends at its time.
// Before that, even a reader that does not know that the clock was set sees
// that the run waits.
func TestTimersThatFireEarly(t *testing.T) {
	t.Parallel()
	thorough(t)
	for name, test := range map[string]struct {
		agents []configs.Agent
		phase  run.Phase
		// allowed is the time that the wait may take.
		allowed time.Duration
		want    string
	}{
		"a call": {
			agents: []configs.Agent{define("lead", []string{"lonely"}, timeout(120))}, phase: run.Awaiting,
			allowed: 2 * time.Minute, want: "timeout after 120s",
		},
		"a review": {
			agents:  []configs.Agent{define("lead", []string{"lonely"}, supervisedBy(configs.Supervised))},
			phase:   run.Awaiting,
			allowed: 5 * time.Minute, want: withheldText,
		},
		"a person": {
			agents: []configs.Agent{
				define("lead", []string{"lonely"}, supervisedBy(configs.SupervisedHuman)), define("watcher", nil),
			},
			phase:   run.Held,
			allowed: time.Hour, want: "nobody has approved of it within 3600s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				h.agents = test.agents
				h.models["lead"] = turns(calls(call("lonely", "x")), joinsResults)
				h.models["watcher"] = says(pauseVerdict)
				h.announce("lonely")
				h.announce("watcher")
				for _, name := range []string{"w1", "w2"} {
					h.startWorker(name, workerOptions{Config: agentd.Config{Timeout: 5 * time.Hour}})
				}
				h.awaitReady()
				from := time.Now()
				r := h.submit("lead", "go")
				// The clock is set between two measurements,
				// which the workers make every 2 s. A worker
				// that measured the step first would set the
				// timer again before it fires.
				time.Sleep(21 * time.Second)
				h.setServerClock(2 * time.Hour)
				time.Sleep(20 * time.Second)
				if n := len(h.readAll(r.Due(1))); n != 1 {
					t.Errorf("the timer has fired %d times, want once", n)
				}
				// A new connection does not know that the clock
				// was set.
				fresh := h.open(bus.Config{})
				defer fresh.Close()
				s, err := history.New(fresh).State(h.ctx, r)
				if err != nil || s.Phase != test.phase {
					t.Errorf("the phase of the run is %s, error %v, want %s", s.Phase, err, test.phase)
				}
				if test.phase == run.Held && !h.held(r) {
					t.Error("the timer that was set again does not say why the turn is held")
				}
				time.Sleep(time.Until(from.Add(test.allowed - 2*time.Second)))
				h.awaitRequests("lead", 2)
				if took := time.Since(from); (took - test.allowed).Abs() > time.Second {
					t.Errorf("the wait took %v, want %v", took, test.allowed)
				}
				if o := h.awaitOutcome(r, time.Minute); !strings.Contains(o.Result, test.want) {
					t.Errorf("the outcome is %q, want one with %q", o.Result, test.want)
				}
				h.checkVerified()
			})
		})
	}
}

// TestEarlyTimerWhereAWorkerDies kills one of two workers at each of its steps,
// while a timer fires before its time, is set again and ends a wait. The wait
// ends at its time, or when the lease of the dead worker is over. Without
// -rapid.checks it takes every second step.
func TestEarlyTimerWhereAWorkerDies(t *testing.T) {
	t.Parallel()
	thorough(t)
	atEachStep(t, 2, 2, func(h *harness, at int) (reached bool) {
		h.agents = []configs.Agent{define("lead", []string{"lonely"}, timeout(120))}
		h.models["lead"] = turns(calls(call("lonely", "x")), joinsResults)
		h.announce("lonely")
		var struck atomic.Bool
		h.startWorker("victim", workerOptions{atStep: func(s step) error {
			if s.n == at {
				struck.Store(true)
				s.worker.kill()
			}
			return nil
		}})
		h.startWorker("other", workerOptions{})
		h.awaitReady()
		from := time.Now()
		r := h.submit("lead", "go")
		time.Sleep(20 * time.Second)
		h.setServerClock(5 * time.Minute)
		h.expectCompleted(r, "c0="+failedCall("lonely", "timeout after 120s"))
		// A lease is 10 s.
		if took := time.Since(from); took < 119*time.Second || took > 2*time.Minute+15*time.Second {
			h.tb.Errorf("the wait took %v, want 2 min, and at most 15 s more", took)
		}
		time.Sleep(time.Minute)
		h.checkVerified()
		return struck.Load()
	})
}

// TestStepIsNoticedBetween: the server's clock is set, and a worker notices the
// step between two operations. It has computed the times in a message and not
// stored the message yet, or it has stored the message and reads the run. The
// tree completes, and the call of the leaf has its whole timeout.
func TestStepIsNoticedBetween(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, test := range []struct {
		// suffix is the end of the subject of the message.
		suffix string
		// stored says that the worker notices the clock step in the
		// read after the write of the message, and not before the
		// write.
		stored bool
	}{
		{suffix: ".r.call"},
		{suffix: ".r.0"},
		{suffix: ".r.log"},
		{suffix: ".r-1-0.call"},
		{suffix: ".r.1"},
		{suffix: ".r.log", stored: true},
	} {
		t.Run(fmt.Sprintf("%s/stored %t", test.suffix, test.stored), func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				h.callingLead([]string{"leaf"}, call("leaf", "x"))
				h.agents[0].SubAgentsConf.Timeout = 120
				h.models["leaf"] = delayed(time.Minute, says("leaf"))
				var once sync.Once
				h.startWorker("w", workerOptions{atStep: func(s step) error {
					notice := func() {
						h.setServerClock(time.Hour)
						if err := s.worker.conn.Clocks.Measure(h.ctx); err != nil {
							h.tb.Errorf("measure: %v", err)
						}
					}
					if s.Op == "write" && s.After == test.stored && strings.HasSuffix(s.Subject, test.suffix) {
						once.Do(func() {
							if test.stored {
								h.beforeServerTime.Store(&notice)
							} else {
								notice()
							}
						})
					}
					return nil
				}})
				r := h.submit("lead", "go")
				h.expectCompleted(r, "c0=leaf")
				if now := time.Now(); !h.serverTime(now).After(now) {
					t.Error("the server's clock was not set")
				}
				if allowed := h.allowed(h.child(r, "leaf", 0)); (allowed - 2*time.Minute).Abs() > time.Second {
					t.Errorf("the call's deadline is %v after the time of writing, want 2 min", allowed)
				}
				h.checkVerified()
			})
		})
	}
}

// TestStepIsNoticedDuringASubmission: a worker notices a step of the server's
// clock between its look at a submission and its reckoning of the deadline. The
// root's call is dated by the same clock as its deadline.
func TestStepIsNoticedDuringASubmission(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		w := h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.root("lonely")
		h.submitTo(r, "go", [2]string{subjects.HeaderTimeout, "120"})
		time.Sleep(100 * time.Millisecond) // the worker looks for the agent's card for 250 ms
		h.setServerClock(time.Hour)
		if err := w.conn.Clocks.Measure(h.ctx); err != nil {
			t.Fatal(err)
		}
		h.announce("lonely")
		h.expectFailed(r, run.KindTimeout, "timeout after 120s")
		if allowed := h.allowed(r); (allowed - 2*time.Minute).Abs() > time.Second {
			t.Errorf("the call's deadline is %v after the time of writing, want 2 min", allowed)
		}
	})
}

// allowed is the time from the date of a run's call until its deadline.
func (h *harness) allowed(r subjects.Run) time.Duration {
	m := h.readAll(r.Call())[0]
	deadline, err := subjects.ParseDeadline(m.Header.Get(subjects.HeaderDeadline))
	written, writtenErr := strconv.ParseInt(m.Header.Get("Axe-Written"), 10, 64)
	if err != nil || writtenErr != nil {
		h.tb.Errorf("the header of the call is %v", m.Header)
	}
	return deadline.Sub(time.UnixMilli(written))
}

// TestStepIsNoticedInAnInterrupt: a worker notices a step of the server's clock
// when it has cancelled the child of an interrupted run, and then bounds the
// wait for the child. The bound is on the new clock.
func TestStepIsNoticedInAnInterrupt(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		time.Sleep(pastNewYear)
		h.callingLead([]string{"lonely"}, call("lonely", "x"))
		h.agents = h.agents[:1]
		h.announce("lonely")
		r := h.root("lead")
		child := h.child(r, "lonely", 0)
		h.startWorker("w", workerOptions{atStep: func(s step) error {
			if s.Op == "write" && s.After && s.Subject == child.Cancel() {
				h.setServerClock(-time.Hour)
				return s.worker.conn.Clocks.Measure(h.ctx)
			}
			return nil
		}})
		h.awaitReady()
		h.submitTo(r, "go")
		h.eventually("the child is called", func() bool { return len(h.readAll(child.Call())) == 1 })
		time.Sleep(2 * time.Second) // the timer that was put off is set
		from := time.Now()
		h.write(bus.Message{Subject: r.Interrupt(h.key("stop")), Body: []byte("{}")})
		h.eventually("the wait has ended", func() bool { return len(h.readAll(r.Fired(1))) == 1 })
		h.tookAtMost(from, time.Minute)
	})
}

// TestClockStepsAreHandedOn: a worker that starts after the server's clock was
// set learns of the step from the entry of a dead worker in the bucket of the
// workers. It learns it also if its first read of the bucket gets no answer.
func TestClockStepsAreHandedOn(t *testing.T) {
	t.Parallel()
	thorough(t)
	for name, silence := range map[string]time.Duration{"at once": 0, "without an answer at first": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				h.callingLead(nil)
				h.models["lead"] = delayed(90*time.Second, says("lead"))
				first := h.startWorker("first", workerOptions{})
				r := h.root("lead")
				// The step is as long as the timeout: for a
				// worker that does not know of it, the root's
				// deadline has passed.
				h.submitTo(r, "go", [2]string{subjects.HeaderTimeout, "300"})
				time.Sleep(20 * time.Second)
				h.setServerClock(5 * time.Minute)
				time.Sleep(20 * time.Second)
				first.kill()
				<-first.ended
				second := h.startWorker("second", workerOptions{conn: h.openSilent("KV_AXE_WORKERS", silence)})
				h.expectCompleted(r, "lead")
				steps := second.conn.Clocks.Steps()
				if len(steps) == 0 || (steps[0].By-5*time.Minute).Abs() > time.Second {
					t.Errorf("the second worker knows the steps %+v, want one of 5 min", steps)
				}
			})
		})
	}
}

// openSilent opens a connection that gets no answer for a time after its first
// request that names a stream.
func (h *harness) openSilent(stream string, silence time.Duration) *bus.Conn {
	line := &bustest.Line{}
	var once sync.Once
	line.Sent = func(piece []byte) {
		if bytes.Contains(piece, []byte(stream)) {
			once.Do(func() { line.Hold(silence) })
		}
	}
	c, err := bus.Open(h.ctx, bus.Config{
		Dial: bus.Dial{Server: h.server, Wrap: line.Wrap}, ServerTime: h.serverTime,
	})
	if err != nil {
		h.tb.Fatal(err)
	}
	return c
}

// TestTimersAreSetAnewDespiteErrors: the server's clock is set, and the first
// two attempts to set a root's timer anew fail. A later one succeeds: the timer
// moves with the clock.
func TestTimersAreSetAnewDespiteErrors(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		const ahead = 2 * time.Minute
		h.callingLead(nil)
		h.models["lead"] = delayed(4*time.Minute, says("lead"))
		r := h.root("lead")
		var set atomic.Bool
		var failed atomic.Int32
		h.startWorker("w", workerOptions{atStep: func(s step) error {
			if set.Load() && s.Op == "write" && !s.After && s.Subject == r.Timer(0) && failed.Add(1) <= 2 {
				return errBusBroken
			}
			return nil
		}})
		h.submitTo(r, "go", [2]string{subjects.HeaderTimeout, "300"})
		time.Sleep(20 * time.Second)
		due := func() time.Time {
			t.Helper()
			ms := h.readAll(r.Timer(0))
			if len(ms) != 1 {
				t.Fatalf("%d timers, want 1", len(ms))
			}
			at, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(ms[0].Header.Get("Nats-Schedule"), "@at "))
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		before := due()
		set.Store(true)
		h.setServerClock(ahead)
		h.eventually("the timer has moved", func() bool {
			return (due().Sub(before) - ahead).Abs() < time.Second
		})
		h.expectCompleted(r, "lead")
		if n := failed.Load(); n != 3 {
			t.Errorf("%d attempts, want 3", n)
		}
	})
}

// TestClockIsSetDuringAModelCall: the outcome of a run says how long it took,
// though the server's clock was set while its model was asked.
func TestClockIsSetDuringAModelCall(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, by := range []time.Duration{-5 * time.Minute, 5 * time.Minute} {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				time.Sleep(pastNewYear)
				h.callingLead(nil)
				h.models["lead"] = delayed(90*time.Second, says("lead"))
				h.startWorker("w", workerOptions{})
				r := h.submit("lead", "go")
				time.Sleep(20 * time.Second)
				h.setServerClock(by)
				o := h.expectCompleted(r, "lead")
				if took := time.Duration(o.DurationMS) * time.Millisecond; (took - 90*time.Second).Abs() > time.Second {
					t.Errorf("the outcome says that the run took %v, want 90 s", took)
				}
			})
		})
	}
}

// TestDeadlineThatHasPassed: a submission is refused if its deadline has passed
// when it is stored, as from a submitter whose clock is an hour behind. So is
// one with a deadline in a hundred years, and one with a malformed timeout. The
// refusal of a deadline names the deadline and the time of the storage.
func TestDeadlineThatHasPassed(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		time.Sleep(pastNewYear)
		h.callingLead(nil)
		h.startWorker("w", workerOptions{})
		for at, why := range map[time.Time]string{
			time.Now().Add(-time.Hour):          "has passed",
			time.Now().AddDate(100, 0, 0).UTC(): "is too far away",
		} {
			r := h.root("lead")
			h.submitTo(r, "go", due(at))
			stored := time.Now()
			h.expectFailed(r, run.KindError, fmt.Sprintf("submission refused: Axe-Deadline %s %s: the server stored "+
				"the submission at %s; send Axe-Timeout instead, for example 120",
				subjects.FormatDeadline(at), why, subjects.FormatDeadline(stored)))
		}
		for _, wrong := range []string{"0", "-5", "soon", "1e300", "200000h", "NaN"} {
			r := h.root("lead")
			h.submitTo(r, "go", [2]string{subjects.HeaderTimeout, wrong})
			h.expectFailed(r, run.KindError, fmt.Sprintf("submission refused: Axe-Timeout %q: malformed: "+
				"want seconds, for example 120, or a duration like 2m30s, at most 87600h0m0s", wrong))
		}
		if len(h.requests("")) != 0 {
			t.Error("the model of a refused submission was asked")
		}
	})
}
