package bus

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/subjects"
)

// skewedT opens a connection that sees the server's clock ahead by a duration
// in nanoseconds. The test may change the duration.
func skewedT(t *testing.T, server *Server, by *atomic.Int64) *Conn {
	t.Helper()
	c, err := Open(t.Context(), Config{
		Dial:       Dial{Server: server},
		ServerTime: func(at time.Time) time.Time { return at.Add(time.Duration(by.Load())) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := c.Provision(t.Context(), Provision{}); err != nil {
		t.Fatal(err)
	}
	return c
}

// rootT returns the root of a new tree of the agent echo.
func rootT(t *testing.T, c *Conn) subjects.Run {
	t.Helper()
	tree, err := subjects.ParseTree(NewID())
	if err != nil {
		t.Fatal(err)
	}
	return c.Space().Run(agentT(t, "echo"), tree, subjects.Root)
}

// TestClockFollowsTheServer: a clock shows the server's time, and goes on
// between two measurements. It measures again when a message comes from the
// future, and before it says that an instant has passed. So it finds out that
// the server's clock was set.
func TestClockFollowsTheServer(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		var by atomic.Int64
		by.Store(int64(-5 * time.Minute))
		c := skewedT(t, serveT(t, ServerConfig{}), &by)
		r := rootT(t, c)
		clock := c.Clocks.Of(r)
		expect := func(ahead, stepped time.Duration) {
			t.Helper()
			if got := time.Until(clock.Now()); (got - ahead).Abs() > time.Millisecond {
				t.Errorf("the clock is ahead by %v, want %v", got, ahead)
			}
			if got := clock.Stepped(); (got - stepped).Abs() > time.Millisecond {
				t.Errorf("the server's clock was set by %v, want %v", got, stepped)
			}
		}
		expect(-5*time.Minute, 0)
		time.Sleep(time.Hour)
		expect(-5*time.Minute, 0)

		by.Store(int64(time.Hour))
		future := &Delivery{conn: c, Count: 1, Stored: Stored{Time: time.Now().Add(time.Hour)}}
		if err := clock.Settle(t.Context(), future); err != nil {
			t.Fatal(err)
		}
		expect(time.Hour, 65*time.Minute)

		time.Sleep(time.Minute)
		by.Store(0)
		if passed, err := clock.Passed(t.Context(), time.Now().Add(30*time.Minute)); passed || err != nil {
			t.Errorf("an instant in 30 min: passed %t, %v; want false", passed, err)
		}
		expect(0, 5*time.Minute)
		if passed, err := clock.Passed(t.Context(), time.Now().Add(-time.Second)); !passed || err != nil {
			t.Errorf("an instant a second ago: passed %t, %v; want true", passed, err)
		}
	})
}

// TestStepAfterTheStreamWasReplaced: a stream is replaced, and the server's
// clock is set. The step is found together with the new stream, so it has no
// sequences of the old one. A message that the new stream stored after the step
// keeps its times.
func TestStepAfterTheStreamWasReplaced(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		var by atomic.Int64
		c := skewedT(t, serveT(t, ServerConfig{}), &by)
		r := rootT(t, c)
		submit := func() {
			t.Helper()
			if _, err := c.Write(t.Context(), Message{Subject: c.Space().Submit(r.Agent, r.Tree)}); err != nil {
				t.Fatal(err)
			}
		}
		submit()
		submit()
		if err := c.Clocks.Measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := c.js.DeleteStream(t.Context(), "AXE_SUBMIT"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		by.Store(int64(time.Hour))
		if err := c.Health.Correct(t.Context()); err != nil {
			t.Fatal(err)
		}
		submit()
		if err := c.Clocks.Measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock := c.Clocks.Submissions()
		if got := clock.Stepped(); got != time.Hour {
			t.Errorf("the server's clock was set by %v, want 1h", got)
		}
		if got := clock.Shift(Stored{Seq: 1, Time: clock.Now()}); got != 0 {
			t.Errorf("the first message of the new stream moves by %v, want 0", got)
		}
	})
}

// TestStepsOfARemovedStream: a stream is removed after a step of its clock, and
// made again. A worker that starts then learns the step from an entry of the
// time before. The messages of the new stream keep their times, whether the
// worker has measured its clock before or does so afterwards.
func TestStepsOfARemovedStream(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		var by atomic.Int64
		server := serveT(t, ServerConfig{})
		c := skewedT(t, server, &by)
		r := rootT(t, c)
		for range 2 {
			if _, err := c.Write(t.Context(), Message{Subject: c.Space().Submit(r.Agent, r.Tree)}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := c.Clocks.Measure(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			by.Store(int64(time.Hour))
		}
		steps := slices.DeleteFunc(c.Clocks.Steps(), func(s Step) bool { return s.Stream != "AXE_SUBMIT" })
		if len(steps) != 1 {
			t.Fatalf("%d steps, want 1", len(steps))
		}
		if err := c.js.DeleteStream(t.Context(), "AXE_SUBMIT"); err != nil {
			t.Fatal(err)
		}
		for _, first := range []bool{true, false} {
			started := skewedT(t, server, &by)
			learn := func() { started.Clocks.Learn(steps) }
			if !first {
				learn()
			}
			if err := started.Clocks.Measure(t.Context()); err != nil {
				t.Fatal(err)
			}
			if first {
				learn()
			}
			clock := started.Clocks.Submissions()
			if got := clock.Shift(Stored{Seq: 1, Time: clock.Now()}); got != 0 {
				t.Errorf("measured first %t: the first message of the new stream moves by %v, want 0", first, got)
			}
		}
	})
}

// TestStepOfOneStreamMeasuresAll: a step that the reading of one stream has
// found is passed on with the steps of the other streams, before the next
// regular measurement. A worker that dies then has told all of them or none.
func TestStepOfOneStreamMeasuresAll(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		var by atomic.Int64
		c := skewedT(t, serveT(t, ServerConfig{}), &by)
		if err := c.Clocks.Measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		told := make(chan []Step, 10)
		ended := make(chan error)
		go func() { ended <- c.Clocks.Keep(ctx, func(steps []Step) { told <- steps }) }()
		by.Store(int64(time.Hour))
		began := time.Now()
		if err := c.Clocks.Submissions().measure(ctx); err != nil {
			t.Fatal(err)
		}
		var streams []string
		for _, s := range <-told {
			streams = append(streams, s.Stream)
		}
		slices.Sort(streams)
		if want := []string{"AXE_RUNS", "AXE_SUBMIT"}; !slices.Equal(streams, want) {
			t.Errorf("told first of the steps of %v, want %v", streams, want)
		}
		if took := time.Since(began); took >= clockInterval {
			t.Errorf("told after %v, want it before the next measurement", took)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Keep ended with %v", err)
		}
	})
}

// TestStepLearnedAndMeasured: a connection learns a step of a clock that it has
// not measured yet, and measures it then. The step counts once, and Keep passes
// it on. Two more steps of the same length, without a message between, count
// too. So do those to the time at which the step before was measured.
func TestStepLearnedAndMeasured(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		for _, step := range []time.Duration{5 * time.Minute, -5 * time.Minute, -2 * time.Second} {
			var by, otherBy atomic.Int64
			server := serveT(t, ServerConfig{})
			c, other := skewedT(t, server, &by), skewedT(t, server, &otherBy)
			measure := func(c *Conn) {
				t.Helper()
				if err := c.Clocks.Measure(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			measure(c)
			measure(other)
			time.Sleep(time.Second)
			otherBy.Store(int64(step))
			measure(other)
			c.Clocks.Learn(other.Clocks.Steps())
			by.Store(int64(step))
			for _, want := range []time.Duration{step, 2 * step, 3 * step} {
				time.Sleep(2 * time.Second)
				measure(c)
				if got := c.Clocks.Submissions().Stepped(); got != want {
					t.Errorf("the server's clock was set by %v in all, stepped %v", want, got)
				}
				if got := len(c.Clocks.takeUntold()); got != len(c.Clocks.all()) {
					t.Errorf("%d steps are passed on, want one of each of %d clocks", got, len(c.Clocks.all()))
				}
				by.Add(int64(step))
			}
		}
	})
}

// TestRearm: Rearm moves a timer from before a step of the server's clock by
// the step, once. It leaves a timer from after the step alone.
func TestRearm(t *testing.T) {
	for _, step := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		t.Run(step.String(), func(t *testing.T) {
			server := serveT(t, ServerConfig{})
			c := openT(t, Dial{Server: server}, true)
			before, after := rootT(t, c), rootT(t, c)
			at := time.Now().Add(time.Hour).UTC()
			set := func(r subjects.Run) uint64 {
				t.Helper()
				seq, err := c.Write(t.Context(), Message{
					Subject: r.Timer(0), Body: []byte("{}"), Timer: Timer{At: at, Target: r.Fired(0)},
				})
				if err != nil {
					t.Fatal(err)
				}
				return seq
			}
			seq := set(before)
			set(after)
			s := Step{
				Stream: "AXE_RUNS", Before: seq, After: seq, From: time.Now(), To: time.Now().Add(step), By: step,
			}
			for range 2 {
				c.Clocks.Learn([]Step{s})
				if err := c.Clocks.Rearm(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			for r, want := range map[subjects.Run]time.Time{before: at.Add(step), after: at} {
				ms, err := c.ReadByScan(t.Context(), r.Timer(0), 0)
				if err != nil || len(ms) != 1 {
					t.Fatalf("%d timers, %v; want 1", len(ms), err)
				}
				if got := ms[0].Header.Get(headerSchedule); got != "@at "+want.Format(time.RFC3339Nano) {
					t.Errorf("the timer is set to %s, want %s", got, want)
				}
			}
		})
	}
}

// TestRearmOnReplicas: the replica that answers lacks a timer that was set
// before the step. Rearm asks again until it has the timer. It does not wait
// for one that was removed meanwhile.
func TestRearmOnReplicas(t *testing.T) {
	server := serveT(t, ServerConfig{})
	c := openT(t, Dial{Server: server}, true)
	r := rootT(t, c)
	at := time.Now().Add(time.Hour).UTC()
	seq, err := c.Write(t.Context(), Message{
		Subject: r.Timer(1), Body: []byte("{}"), Timer: Timer{At: at, Target: r.Fired(1)},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := Step{
		Stream: "AXE_RUNS", Before: seq, After: seq, From: time.Now(), To: time.Now().Add(time.Hour), By: time.Hour,
	}
	c.Clocks.Learn([]Step{s})
	left := lagT(t, server, c, 0, 3)
	if err := c.Clocks.Rearm(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	ms, err := c.ReadByScan(t.Context(), r.Timer(1), 0)
	if err != nil || len(ms) != 1 {
		t.Fatalf("%d timers, %v; want 1", len(ms), err)
	}
	if got, ok := scheduled(ms[0]); !ok || !got.Equal(at.Add(time.Hour)) {
		t.Errorf("the timer is set to %s, want %s", got, at.Add(time.Hour))
	}

	left.Store(math.MaxInt32)
	removed := make(chan error, 1)
	go func() {
		for left.Load() == math.MaxInt32 {
			runtime.Gosched()
		}
		removed <- RemoveTimer(t.Context(), c, r.Timer(1))
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := errors.Join(c.Clocks.Rearm(ctx, s), <-removed); err != nil {
		t.Fatal(err)
	}
}

// TestRearmWithoutTimers: Rearm does nothing after a step of the clock of a
// stream without runs. It cannot read that stream.
func TestRearmWithoutTimers(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	s := Step{Stream: "AXE_SUBMIT", Before: 1, After: 1, By: time.Hour}
	c.Clocks.Learn([]Step{s})
	before := c.Stats().Reads
	if err := c.Clocks.Rearm(t.Context(), s); err != nil {
		t.Error(err)
	}
	if reads := c.Stats().Reads - before; reads > 0 {
		t.Errorf("%d reads, want none", reads)
	}
}

// TestMeasureDespiteAnotherClock: the measurement of the first clock gets no
// answer. The other clocks are measured all the same.
func TestMeasureDespiteAnotherClock(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, false)
		if err := c.Provision(t.Context(), Provision{Partitions: 3}); err != nil {
			t.Fatal(err)
		}
		if err := c.Clocks.Measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		all := c.Clocks.all()
		all[0].measuring <- struct{}{} // as one that waits for an answer
		time.Sleep(time.Minute)
		c.Clocks.tryMeasure(t.Context())
		for i, clock := range all {
			if measured := clock.age() < time.Minute; measured != (i > 0) {
				t.Errorf("the clock of %s was measured %v ago", clock.stream, clock.age())
			}
		}
	})
}

// TestSuspendedDuringAMeasurement: the machine is suspended between a request
// for the time and its answer. The answer gives no reading: it would look as if
// the server's clock had been set. The clock is measured again.
func TestSuspendedDuringAMeasurement(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		var by atomic.Int64
		var asked func(Exchange)
		c, err := Open(t.Context(), Config{
			Dial:       Dial{Server: serveT(t, ServerConfig{})},
			Observe:    func(x Exchange) { asked(x) },
			ServerTime: func(at time.Time) time.Time { return at.Add(time.Duration(by.Load())) },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		asked = func(Exchange) {}
		if err := c.Provision(t.Context(), Provision{}); err != nil {
			t.Fatal(err)
		}
		clock := c.Clocks.Submissions()
		if err := clock.measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		var requests int
		asked = func(Exchange) {
			if requests++; requests == 1 {
				// The server has answered. The machine sleeps.
				c.Clocks.sleep.Store(&sleep{suspended: time.Minute})
			} else {
				by.Store(int64(time.Minute)) // it has gone on
			}
		}
		if err := clock.measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := clock.Stepped(); got != 0 || requests != 2 {
			t.Errorf("the server's clock was set by %v, in %d requests; want 0, in 2", got, requests)
		}
		if got := time.Until(clock.Now()); (got - time.Minute).Abs() > time.Millisecond {
			t.Errorf("the clock is ahead by %v, want 1m", got)
		}
	})
}

// TestShift: a message's times move by the steps that followed it. If a message
// lies between the two measurements of a step, its own time tells on which side
// of the step it is. If a message was stored after the step, the time in its
// header tells whether its writer had noticed the step. A day later the header
// only tells for how long the write was tried.
func TestShift(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	for _, by := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		c := &Clock{clocks: &Clocks{}}
		c.learn(Step{Before: 10, After: 20, From: noon, To: noon.Add(by), By: by})
		c.learn(Step{Before: 12, After: 25, From: noon, To: noon.Add(by), By: by}) // the same one
		c.learn(Step{Before: 100, After: 100, From: noon, To: noon.Add(time.Hour), By: time.Hour})
		for _, test := range []struct {
			seq  uint64
			at   time.Time
			want time.Duration
		}{
			{5, noon, by + time.Hour},
			{15, noon.Add(3 * time.Second), by + time.Hour},
			{15, noon.Add(by - 3*time.Second), time.Hour},
			{50, noon, time.Hour},
			{101, noon, 0},
		} {
			if got := c.Shift(Stored{Seq: test.seq, Time: test.at}); got != test.want {
				t.Errorf("after a step of %v, message %d moves by %v, want %v", by, test.seq, got, test.want)
			}
		}
		for written, want := range map[time.Time]time.Duration{noon: by + time.Hour, noon.Add(by): time.Hour} {
			// The message was stored after the step by a writer
			// that had not noticed it, and by one that had.
			m := Stored{Seq: 30, Time: noon.Add(by + 5*time.Millisecond), Header: nats.Header{
				headerWritten: {strconv.FormatInt(written.UnixMilli(), 10)},
			}}
			if got := c.Shift(m); got != want {
				t.Errorf("after a step of %v, a message written at %v moves by %v, want %v", by, written, got, want)
			}
		}
		dayLater := noon.Add(by + 24*time.Hour)
		slow := Stored{Seq: 30, Time: dayLater, Header: nats.Header{
			headerWritten: {strconv.FormatInt(dayLater.Add(-3*time.Minute).UnixMilli(), 10)},
		}}
		if got := c.Shift(slow); got != time.Hour {
			t.Errorf("a day after a step of %v, a slow write moves by %v, want 1h", by, got)
		}
	}
}

// TestLearnedBeforeTheFirstReading: a clock that has not been read keeps the
// steps that another process has measured.
func TestLearnedBeforeTheFirstReading(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	c.Clocks.Learn([]Step{{Stream: "AXE_SUBMIT", Before: 1, After: 1, By: time.Hour}})
	if err := c.Clocks.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if steps := c.Clocks.Steps(); len(steps) != 1 {
		t.Errorf("steps %v, want the one that was learned", steps)
	}
}

// TestRecentEntriesByAWrongClock: a read of the entries since a time of a
// server's clock finds the entries that were stored after it, however wrong the
// clock is.
func TestRecentEntriesByAWrongClock(t *testing.T) {
	for _, ahead := range []time.Duration{-time.Hour, 0, time.Hour} {
		var by atomic.Int64
		by.Store(int64(ahead))
		c := skewedT(t, serveT(t, ServerConfig{}), &by)
		if _, err := c.Workers().Swap(t.Context(), subjects.WorkerOf("w1"), 0, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		for since, want := range map[time.Duration]int{-time.Minute: 1, time.Minute: 0} {
			got, err := c.Workers().List(t.Context(), time.Now().Add(ahead+since))
			if err != nil || len(got) != want {
				t.Errorf("clock %v ahead, entries since %v: got %d, want %d; error %v",
					ahead, since, len(got), want, err)
			}
		}
	}
}
