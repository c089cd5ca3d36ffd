package bus

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// Clocks are the clocks of a connection's streams. The server that leads a
// stream stamps its messages. Deadlines, timers and ages are reckoned in that
// time, so the clock of this machine does not matter, and need not be right.
type Clocks struct {
	conn *Conn

	// byStream has the *Clock of each stream, by its name.
	byStream sync.Map

	mu sync.Mutex
	// stepped is ready when untold has got a step.
	stepped chan struct{}
	// doubted is ready when Keep has to measure before its next time.
	doubted chan struct{}
	// untold has the steps measured here that Keep has not passed on.
	untold []Step

	// began is the origin of sleep.apart.
	began time.Time
	sleep atomic.Pointer[sleep]
}

// sleep is a reading of the time for which this machine was suspended.
type sleep struct {
	suspended time.Duration
	// apart is the time by which this machine's own clock has moved further
	// than its monotonic clock since the process began to measure.
	apart time.Duration
}

// suspended is the time for which this machine had been suspended at a moment.
// It makes system calls only if the machine's own clock has moved further than
// the monotonic clock since the last one: that clock was set, or the machine
// was suspended.
func (cs *Clocks) suspended(now time.Time) time.Duration {
	apart := now.Round(0).Sub(cs.began.Round(0)) - now.Sub(cs.began)
	if last := cs.sleep.Load(); last != nil && (apart-last.apart).Abs() < leastSleep {
		return last.suspended
	}
	s := sleep{suspended: suspended(), apart: apart}
	cs.sleep.Store(&s)
	return s.suspended
}

// begin begins a reading with the time here.
func (cs *Clocks) begin() reading {
	now := time.Now()
	return reading{at: now, suspended: cs.suspended(now)}
}

// Clock is the clock of a stream, as this process has measured it. Before its
// first measurement it shows the time of another measured clock of the
// connection or, without one, of this machine.
//
// A reading is the server's time at a moment of this machine's monotonic clock.
// Between two readings the time is reckoned with the monotonic clock and with
// the time that the machine was suspended. So it does not matter if this
// machine's own clock is set.
type Clock struct {
	clocks *Clocks
	stream string

	// measuring holds a token during a measurement.
	measuring chan struct{}
	mu        sync.Mutex
	reading   reading
	// measured is the time here of the last measurement. It is later than
	// that of the reading if an earlier reading is the better one.
	measured time.Time
	// created is the time at which the stream was made. When it changes,
	// the stream was removed and made again: its old steps are dropped, and
	// the sequences of the last reading are not those of the new stream.
	created time.Time
	// steps has the newest steps, in the order of the stream.
	steps []Step
	// stepped is the sum of all steps so far.
	stepped time.Duration
}

// reading is one measurement of a clock.
type reading struct {
	// at is the time here, with its monotonic part; zero before the first
	// measurement.
	at time.Time
	// suspended is the time for which this machine had been suspended.
	suspended time.Duration
	// server is the server's time at that moment. It is wrong by bound at
	// most.
	server time.Time
	bound  time.Duration
	// last is the last sequence of the stream at that moment.
	last uint64
	// dials counts the attempts to connect until then.
	dials uint64
}

// Step is a change of a server's clock between two measurements. A person or a
// time service has set the clock, or a server with another clock leads the
// stream now.
type Step struct {
	Stream string `json:"stream"`
	// Created is the time at which the stream was made. The sequences are
	// those of that stream, and not of a later one of the same name. It is
	// zero in a step that an older version has measured.
	Created time.Time `json:"created,omitzero"`
	// Before is a sequence of the stream: that message and all earlier ones
	// were stored before the step.
	Before uint64 `json:"before"`
	// After is a sequence of the stream: all later messages were stored
	// after the step.
	After uint64 `json:"after"`
	// From and To are the server's times at the last reading before the
	// step and at the first one after it.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// By is the length of the step. It is negative if the clock was set
	// back.
	By time.Duration `json:"by_ns"`

	// measured says that this process has measured the step.
	measured bool
}

const (
	// clockInterval is the time between two measurements of a clock that is
	// not in doubt.
	clockInterval = 2 * time.Second
	// doubtInterval is the least time between two measurements because of
	// messages that look old. They may only have waited.
	doubtInterval = time.Second
	// leastStep is the smallest difference from the expected time that
	// counts as a step of the server's clock. A smaller one is drift.
	leastStep = 250 * time.Millisecond
	// drift is the divisor of the time since a reading that bounds the
	// drift of two clocks: one in a thousand.
	drift = 1000
	// leastSleep is the shortest time for which a machine counts as
	// suspended. A shorter time is an error of the readings of its clocks.
	leastSleep = 100 * time.Millisecond
	// lateTimes is the time after a step for which messages may name times
	// from before it. A worker that has read a run before the step writes
	// the calls of the run's turn when the model has answered.
	lateTimes = time.Hour
	// maxSteps is the number of steps that a clock remembers.
	maxSteps = 16
)

func newClocks(c *Conn) *Clocks {
	return &Clocks{
		conn: c, stepped: make(chan struct{}, 1), doubted: make(chan struct{}, 1),
		began: time.Now(),
	}
}

// Of returns the clock of the stream of a run.
func (cs *Clocks) Of(r subjects.Run) *Clock {
	return cs.conn.streams.Load().clocks[r.Partition()]
}

// Submissions returns the clock of the stream of submissions.
func (cs *Clocks) Submissions() *Clock { return cs.clock(cs.conn.cfg.Space.Name("SUBMIT")) }

// Now is the present time of the first stream of runs.
func (cs *Clocks) Now() time.Time { return cs.conn.streams.Load().clocks[0].Now() }

// clock returns the clock of a stream.
func (cs *Clocks) clock(stream string) *Clock {
	c, ok := cs.byStream.Load(stream)
	if !ok {
		c, _ = cs.byStream.LoadOrStore(stream, &Clock{clocks: cs, stream: stream, measuring: make(chan struct{}, 1)})
	}
	return c.(*Clock) //nolint:forcetypeassert // nothing else is stored
}

// Measure measures the clocks of all streams once, all at the same time: a
// stream without a leader holds up no other.
func (cs *Clocks) Measure(ctx context.Context) error {
	all := cs.all()
	failed := make([]error, len(all))
	var measuring sync.WaitGroup
	for i, c := range all {
		measuring.Go(func() { failed[i] = c.measure(ctx) })
	}
	measuring.Wait()
	return errors.Join(failed...)
}

// all returns the clocks of all streams.
func (cs *Clocks) all() []*Clock {
	return append(slices.Clone(cs.conn.streams.Load().clocks), cs.Submissions())
}

// Keep measures the clocks every two seconds until ctx ends, and sooner if a
// clock is in doubt (Settle) or another measurement of this process has found
// a step: other streams may have the same leader. It calls measured after each
// attempt, and passes the steps found since the last call, often none. While
// measured runs, Keep measures nothing. A failed measurement is made again
// later: until then the clocks go on from their last readings.
func (cs *Clocks) Keep(ctx context.Context, measured func([]Step)) error {
	tick := time.NewTicker(clockInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		case <-cs.doubted:
		case <-cs.stepped:
		}
		cs.tryMeasure(ctx)
		measured(cs.takeUntold())
	}
}

func (cs *Clocks) tryMeasure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, clockInterval/2)
	defer cancel()
	_ = cs.Measure(ctx)
}

func (cs *Clocks) takeUntold() []Step {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	out := cs.untold
	cs.untold = nil
	return out
}

// Steps returns the known steps of all clocks.
func (cs *Clocks) Steps() []Step {
	var out []Step
	for _, c := range cs.all() {
		c.mu.Lock()
		out = append(out, c.steps...)
		c.mu.Unlock()
	}
	return out
}

// Learn takes over the steps that another process has measured. It leaves out
// those that are known already: two processes measure one step at different
// moments. It also leaves out the steps of a stream that was removed and made
// again since.
func (cs *Clocks) Learn(steps []Step) {
	for _, s := range steps {
		cs.clock(s.Stream).learn(s)
	}
}

func (c *Clock) learn(s Step) {
	c.mu.Lock()
	defer c.mu.Unlock()
	unknown := c.created.IsZero() || s.Created.IsZero()
	if !unknown && !s.Created.Equal(c.created) || s.Before > s.After || slices.ContainsFunc(c.steps, s.same) {
		return
	}
	s.measured = false
	c.addStep(s)
}

// same reports whether two processes may have measured one step.
func (s Step) same(o Step) bool {
	return s.Before <= o.After && o.Before <= s.After && (s.By < 0) == (o.By < 0)
}

// meets reports whether the times in which two steps happened overlap, by the
// clock from before each. Two steps that follow one another on a stream without
// new messages do not meet.
func (s Step) meets(o Step) bool {
	return !s.From.After(o.To.Add(leastStep-o.By)) && !o.From.After(s.To.Add(leastStep-s.By))
}

// addStep adds a step in the order of the stream. The caller holds the lock.
func (c *Clock) addStep(s Step) {
	c.stepped += s.By
	c.steps = append(c.steps, s)
	slices.SortFunc(c.steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.Before, b.Before), a.From.Compare(b.From))
	})
	c.steps = c.steps[max(0, len(c.steps)-maxSteps):]
}

// expected returns the server's time at a moment here. It is zero before the
// first measurement.
func (r reading) expected(now time.Time, suspended time.Duration) time.Time {
	if r.at.IsZero() {
		return time.Time{}
	}
	elapsed := now.Sub(r.at)
	if slept := suspended - r.suspended; slept > leastSleep {
		elapsed += slept
	}
	return r.server.Add(elapsed)
}

// Now is the server's present time.
func (c *Clock) Now() time.Time {
	now := time.Now()
	c.mu.Lock()
	r := c.reading
	c.mu.Unlock()
	if r.at.IsZero() {
		return c.clocks.otherNow(c, now)
	}
	return r.expected(now, c.clocks.suspended(now))
}

// otherNow returns the time of a clock that was measured, in place of one that
// was not. Without any it is the time here.
func (cs *Clocks) otherNow(except *Clock, now time.Time) time.Time {
	for _, of := range cs.byStream.Range {
		c := of.(*Clock) //nolint:forcetypeassert // nothing else is stored
		if c == except {
			continue
		}
		c.mu.Lock()
		r := c.reading
		c.mu.Unlock()
		if !r.at.IsZero() {
			return r.expected(now, cs.suspended(now))
		}
	}
	return now.UTC()
}

// Offset is the time of the first stream of runs less the time of this
// machine's own clock, with the bound of its error. It is 0 before the first
// measurement.
func (cs *Clocks) Offset() (offset, bound time.Duration) {
	return cs.conn.streams.Load().clocks[0].offset()
}

// Until is the time until an instant of the server's present clock.
func (c *Clock) Until(at time.Time) time.Duration { return at.Sub(c.Now()) }

// Passed reports whether an instant has passed. Before it says so, it measures
// the clock again unless it did in the last second: work must not be given up
// because of an old reading.
func (c *Clock) Passed(ctx context.Context, at time.Time) (bool, error) {
	if c.Now().Before(at) {
		return false, nil
	}
	if c.age() > doubtInterval {
		if err := c.measure(ctx); err != nil {
			return false, err
		}
	}
	return !c.Now().Before(at), nil
}

func (c *Clock) offset() (offset, bound time.Duration) {
	c.mu.Lock()
	r := c.reading
	c.mu.Unlock()
	if r.at.IsZero() {
		return 0, 0
	}
	now := time.Now()
	return r.expected(now, c.clocks.suspended(now)).Sub(now.Round(0)), r.bound
}

// age is the time since the last measurement.
func (c *Clock) age() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.measured)
}

// Stepped is the sum of all steps that this process has learned of. If it
// changes, instants that were read before are off by the difference.
func (c *Clock) Stepped() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stepped
}

// Shift is the sum of the known steps of the clock since a message was stored.
// An instant that the message names, plus Shift, is the same instant of the
// server's present clock. It is 0 for an imported message.
func (c *Clock) Shift(m Stored) (by time.Duration) {
	if m.IsImported() {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.steps {
		if s.follows(m) {
			by += s.By
		}
	}
	return by
}

// follows reports whether the times in a message are those from before the
// step. A message between the two measurements counts as stored before the step
// if its stamp is nearer to From than to To. In the first hour after the step,
// a writer that had not noticed it wrote times from before it all the same: its
// own time was off from the stamp by the step. Later a difference is the time
// that the write took.
func (s Step) follows(m Stored) bool {
	if m.Seq <= s.Before || m.Seq <= s.After && m.Time.Sub(s.From).Abs() < m.Time.Sub(s.To).Abs() {
		return true
	}
	if m.Time.Sub(s.To) > lateTimes {
		return false
	}
	ms, err := strconv.ParseInt(m.Header.Get(headerWritten), 10, 64)
	behind := m.Time.Sub(time.UnixMilli(ms))
	return err == nil && (behind-s.By).Abs() < behind.Abs()
}

// Settle measures the clock if there is no reading yet, if the connection was
// lost since, or if a delivery shows that the reading is wrong: its stamp lies
// in the future. A delivery that seems to be old may only have waited: Keep
// then measures soon, and Settle does not wait for it. It is cheap otherwise.
func (c *Clock) Settle(ctx context.Context, d *Delivery) error {
	wrong, old := c.doubts(d)
	if old {
		pause.Notify(c.clocks.doubted)
	}
	if !wrong {
		return nil
	}
	return c.measure(ctx)
}

func (c *Clock) doubts(d *Delivery) (wrong, old bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.reading
	if r.at.IsZero() || r.dials != c.clocks.conn.inflight.dials.Load() {
		return true, false
	}
	now := time.Now()
	age := r.expected(now, c.clocks.suspended(now)).Sub(d.Time)
	return age < -(leastStep + r.bound), d.Count == 1 && age > doubtInterval && now.Sub(c.measured) > doubtInterval
}

// measure asks the stream's leader for its time, through a worker if the user
// is Restricted. If another goroutine measures at this moment, its reading
// serves for both.
func (c *Clock) measure(ctx context.Context) error {
	began := time.Now()
	select {
	case c.measuring <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.measuring }()
	c.mu.Lock()
	done := c.measured.After(began)
	c.mu.Unlock()
	if done {
		return nil
	}
	conn := c.clocks.conn
	for taken := false; !taken; {
		var sent reading
		s, err := ask(ctx, conn, func(ctx context.Context) (jetstream.Stream, error) {
			sent = c.clocks.begin()
			return streamBy(ctx, conn, apiOfTree(conn, subjects.Tree{}), c.stream)
		})
		info, err := conn.Health.saw(c.stream, s, err)
		if err != nil {
			return err
		}
		taken = c.read(sent, info)
	}
	return nil
}

// read takes a reading from an answer to a request that was sent at a time. The
// server answered at some time between then and now. It takes none, and returns
// false, if the machine was suspended in between: the server may have answered
// before or after that.
func (c *Clock) read(sent reading, info *jetstream.StreamInfo) (taken bool) {
	r := c.clocks.begin()
	if r.suspended-sent.suspended > leastSleep {
		return false
	}
	now, half := r.at, r.at.Sub(sent.at)/2
	r.server, r.bound = c.clocks.stamp(info.TimeStamp).Add(half), half
	r.last, r.dials = info.State.LastSeq, c.clocks.conn.inflight.dials.Load()
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.reading
	if info.TimeStamp.IsZero() || old.at.After(now) {
		return true
	}
	c.measured = now
	c.madeAt(info.Created, &old)
	expected := old.expected(now, r.suspended)
	slack := now.Sub(old.at) / drift
	by := r.server.Sub(expected)
	switch {
	case old.at.IsZero():
		c.reading = r
	case by.Abs() > leastStep+r.bound+old.bound+slack:
		c.reading = r
		c.step(Step{
			Stream: c.stream, Created: c.created, Before: old.last, After: max(old.last, r.last),
			From: old.server, To: r.server, By: by.Round(time.Millisecond),
		})
	case r.bound <= old.bound+slack:
		c.reading = r
	default:
		// The old reading of the time is the better one.
		c.reading.last = r.last
		c.reading.dials = r.dials
	}
	return true
}

// madeAt notes the time at which the stream was made. If that is news, it drops
// the steps of an earlier stream, and the sequence of the last reading. The
// caller holds the lock.
func (c *Clock) madeAt(created time.Time, last *reading) {
	was := c.created
	if was.Equal(created) {
		return
	}
	c.created = created
	last.last = 0
	c.steps = slices.DeleteFunc(c.steps, func(s Step) bool {
		return !s.Created.Equal(created) && (!was.IsZero() || !s.Created.IsZero())
	})
}

// step notes a step that this process has measured. It may have learned of the
// step before. Two of its own measurements are never of one step. The caller
// holds the lock.
func (c *Clock) step(s Step) {
	s.measured = true
	learned := func(o Step) bool { return !o.measured && s.same(o) && s.meets(o) }
	if i := slices.IndexFunc(c.steps, learned); i >= 0 {
		c.steps[i].measured = true
	} else {
		c.addStep(s)
	}
	c.clocks.mu.Lock()
	c.clocks.untold = append(c.clocks.untold, s)
	c.clocks.mu.Unlock()
	pause.Notify(c.clocks.stepped)
}

// stamp returns a time of the server as Config.ServerTime shows it.
func (cs *Clocks) stamp(t time.Time) time.Time {
	if cs.conn.cfg.ServerTime == nil {
		return t
	}
	return cs.conn.cfg.ServerTime(t)
}

// Rearm sets anew the timers of a step's stream that were set before a known
// step of its clock. Each then fires at the instant for which it was set. A
// timer that has fired meanwhile, or that another worker has set anew, is left
// alone. A replica that lacks the newest of the timers is asked again. A stream
// without runs has no timers.
func (cs *Clocks) Rearm(ctx context.Context, s Step) error {
	if !slices.Contains(cs.conn.streams.Load().names, s.Stream) {
		return nil // it has no timers
	}
	timers := cs.conn.Space().Timers()
	for seq, minSeq := uint64(0), uint64(math.MaxUint64); ; {
		last, _, err := cs.conn.last(ctx, s.Stream, timers)
		if err != nil {
			return err
		}
		// The last timer may be removed meanwhile.
		minSeq = min(minSeq, last.Seq)
		for page, err := range cs.conn.reader.pages(ctx, s.Stream, timers, seq) {
			if err != nil {
				return err
			}
			if err := cs.rearm(ctx, s.Stream, page); err != nil {
				return err
			}
			if len(page) > 0 {
				seq = page[len(page)-1].Seq
			}
		}
		if seq >= minSeq {
			return nil
		}
		if err := pause.For(ctx, lagPoll); err != nil {
			return err
		}
	}
}

// rearm sets those of some timers of a stream anew that need it.
func (cs *Clocks) rearm(ctx context.Context, stream string, timers []Stored) error {
	var ms []Message
	for _, t := range timers {
		at, ok := scheduled(t)
		if by := cs.clock(stream).Shift(t); by != 0 && ok {
			ms = append(ms, Message{
				Subject: t.Subject, Body: t.Body, Fence: After(t.Subject, t.Seq),
				Timer: Timer{At: at.Add(by), Target: t.Header.Get(headerTarget)},
			})
		}
	}
	for _, err := range cs.conn.WriteAll(ctx, ms) {
		if _, gone := errors.AsType[*ConflictError](err); err != nil && !gone {
			return err
		}
	}
	return nil
}

// scheduled returns the time for which a timer is set; ok is false for a
// message that is no timer.
func scheduled(t Stored) (at time.Time, ok bool) {
	text, ok := strings.CutPrefix(t.Header.Get(headerSchedule), "@at ")
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, ok && err == nil
}

// pretend shows the times of a message as Config.ServerTime shows them. A timer
// was set by the clock of the time at which it was stored.
func (cs *Clocks) pretend(s *Stored) {
	if cs.conn.cfg.ServerTime == nil {
		return
	}
	was := s.Time
	s.Time = cs.stamp(was)
	if at, ok := scheduled(*s); ok {
		s.Header.Set(headerSchedule, "@at "+at.Add(s.Time.Sub(was)).Format(time.RFC3339Nano))
	}
}

// serverTime returns the time that the server shows for a time of stamp, at the
// present moment. It is the inverse of stamp.
func (cs *Clocks) serverTime(t time.Time) time.Time {
	now := time.Now()
	return t.Add(now.Sub(cs.stamp(now)))
}
