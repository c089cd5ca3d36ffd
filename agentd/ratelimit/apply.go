package ratelimit

import "time"

// Update is what one worker brings to the state at one time.
type Update struct {
	Worker  string
	Held    int  // its requests in flight
	Probing bool // one of these is the probe
	Want    int  // its requests that wait
	// what has ended there since its last step
	Ended []Result
}

// probed reports whether the probe is among what has ended.
func (st Update) probed() bool {
	for _, r := range st.Ended {
		if r.Probe {
			return true
		}
	}
	return false
}

// Reason says what a request waits for.
type Reason string

// The reasons to wait.
const (
	// the provider wants to be left alone
	Closed Reason = "retry_after"
	// one request goes before all others
	Probing Reason = "probe"
	// as many as there may be are in flight
	Concurrent Reason = "max_concurrent"
	Requests   Reason = "requests_per_minute" // the next window
	Tokens     Reason = "tokens_per_minute"   // the next window
)

// Decision is what came of a Step.
type Decision struct {
	// of those that wait, so many may begin
	Granted int
	// the one that is granted is the probe
	Probe bool
	// why the others wait; empty if none does
	Reason Reason
	// and until when, where the clock alone says so
	Until time.Time
	// when the worker has to come again though it has nothing to bring;
	// zero: not at all
	Next time.Time
}

// Apply makes one worker's step. What it decides is in force once the state
// that it returns is stored in place of s; if that is refused, it is applied to
// the state that is there instead.
func (s State) Apply(cfg Settings, st Update, now time.Time) (State, Decision) {
	now = now.UTC()
	s = s.current(cfg, st, now)
	s = s.ended(cfg, st, now)
	d := s.decide(cfg, st, now)
	d.Probe = d.Granted > 0 && !s.ClosedUntil.IsZero()
	if d.Probe || s.Probe != nil && st.Probing && s.Probe.Worker == st.Worker && s.Probe.Until.Sub(now) <= renewed {
		s.Probe = &Probe{st.Worker, now.Add(Lease)}
	}
	if cfg.Requests > 0 {
		s.Requests += d.Granted
	}
	if cfg.Concurrent > 0 {
		s = s.hold(st.Worker, st.Held+d.Granted, now)
	}
	d.Next = s.next(cfg, st, d, now)
	return s, d
}

// ended counts what has ended, and closes or opens the gate. A refusal goes
// before the probe's success: it may be of a request that was begun before it,
// but it is as new.
func (s State) ended(cfg Settings, st Update, now time.Time) State {
	for _, r := range st.Ended {
		if cfg.Tokens > 0 {
			s.Tokens += r.Tokens
		}
		if r.Until.After(s.ClosedUntil) {
			s.ClosedUntil = r.Until
		}
	}
	for _, r := range st.Ended {
		if !r.Probe || s.Probe == nil || s.Probe.Worker != st.Worker {
			continue
		}
		s.Probe = nil
		if r.Passed && !now.Before(s.ClosedUntil) {
			s.ClosedUntil = time.Time{}
		}
	}
	return s
}

// decide says how many of those that wait may begin.
func (s State) decide(cfg Settings, st Update, now time.Time) Decision {
	d := Decision{Granted: max(0, st.Want)}
	allow := func(n int, why Reason, until time.Time) {
		if n = max(0, n); n < d.Granted {
			d.Granted, d.Reason, d.Until = n, why, until
		}
	}
	switch {
	case s.ClosedUntil.IsZero():
	case now.Before(s.ClosedUntil):
		allow(0, Closed, s.ClosedUntil)
	case s.Probe != nil:
		allow(0, Probing, time.Time{})
	default:
		allow(1, Probing, time.Time{})
	}
	end := s.Window.Add(window)
	if cfg.Tokens > 0 && s.Tokens >= cfg.Tokens {
		allow(0, Tokens, end)
	}
	if cfg.Requests > 0 {
		allow(cfg.Requests-s.Requests, Requests, end)
	}
	if cfg.Concurrent > 0 {
		others, _ := s.held(st.Worker)
		allow(cfg.Concurrent-others-st.Held, Concurrent, time.Time{})
	}
	return d
}

// hold writes what a worker has in flight, and renews its lease where that is
// due.
func (s State) hold(worker string, n int, now time.Time) State {
	was, ok := s.Holders[worker]
	switch {
	case n == 0:
		delete(s.Holders, worker)
	case !ok || was.N != n || was.Until.Sub(now) <= renewed:
		if s.Holders == nil {
			s.Holders = map[string]Holder{}
		}
		s.Holders[worker] = Holder{n, now.Add(Lease)}
	}
	return s
}

// next is when a lease has to be renewed, or when those that wait may begin
// though nobody says anything.
func (s State) next(cfg Settings, st Update, d Decision, now time.Time) time.Time {
	var at time.Time
	by := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if h, ok := s.Holders[st.Worker]; ok && cfg.Concurrent > 0 {
		by(h.Until.Add(-renewed))
	}
	if s.Probe != nil && s.Probe.Worker == st.Worker {
		by(s.Probe.Until.Add(-renewed))
	}
	if d.Granted >= st.Want {
		return at
	}
	// whatever it waits for: a lease at most
	by(now.Add(Lease))
	if !d.Until.IsZero() {
		by(d.Until)
	}
	if d.Reason == Probing && s.Probe != nil {
		by(s.Probe.Until)
	}
	if _, first := s.held(st.Worker); d.Reason == Concurrent && !first.IsZero() {
		by(first)
	}
	return at
}
