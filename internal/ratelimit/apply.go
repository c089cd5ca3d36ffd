package ratelimit

import (
	"slices"
	"time"
)

// Update is the report of one worker to the shared state.
type Update struct {
	// Worker is the worker's name.
	Worker string
	// Held is the number of the worker's requests in flight.
	Held int
	// Probing says that one of the held requests is the probe.
	Probing bool
	// Want is the number of the worker's requests that wait.
	Want int
	// Ended holds the results of the requests that have ended since the
	// worker's last stored update.
	Ended []Result
}

// hasProbe reports whether one of the ended requests was the probe.
func (u Update) hasProbe() bool {
	return slices.ContainsFunc(u.Ended, func(r Result) bool { return r.Probe })
}

// Reason says why a request waits.
type Reason string

// The reasons to wait.
const (
	// Closed: the provider has asked for a pause.
	Closed Reason = "retry_after"
	// Probing: the probe goes before all other requests.
	Probing Reason = "probe"
	// Concurrent: as many requests are in flight as there may be.
	Concurrent Reason = "max_concurrent"
	// Requests: the window has no more requests.
	Requests Reason = "requests_per_minute"
	// Tokens: the window has no more tokens.
	Tokens Reason = "tokens_per_minute"
)

// Decision is the result of an Update.
type Decision struct {
	// Granted is the number of waiting requests that may begin.
	Granted int
	// Probe says that the one granted request is the probe.
	Probe bool
	// Reason says why the other requests wait; empty if none waits.
	Reason Reason
	// Until is the time until which they wait where the clock alone decides
	// it; otherwise zero.
	Until time.Time
	// Next is the time at which the worker has to make another update
	// though it has no news; zero is never.
	Next time.Time
}

// Apply applies one worker's update. The decision is in force once the returned
// state is stored in place of s. If that write is refused, the update is
// applied to the state that is stored instead.
func (s State) Apply(cfg Settings, u Update, now time.Time) (State, Decision) {
	now = now.UTC()
	s = s.current(cfg, u, now)
	s = s.ended(cfg, u, now)
	d := s.decide(cfg, u, now)
	d.Probe = d.Granted > 0 && !s.ClosedUntil.IsZero()
	renew := s.Probe != nil && u.Probing && s.Probe.Worker == u.Worker && s.Probe.Until.Sub(now) <= renewAt
	if d.Probe || renew {
		s.Probe = &Probe{u.Worker, now.Add(Lease)}
	}
	if cfg.Requests > 0 {
		s.Requests += d.Granted
	}
	if cfg.Concurrent > 0 {
		s = s.hold(u.Worker, u.Held+d.Granted, now)
	}
	d.Next = s.next(cfg, u, d, now)
	return s, d
}

// ended adds the tokens of the requests that have ended, and closes or opens
// the account. A refusal outweighs the probe's success: the refused request may
// have begun before the probe, but its refusal is as recent as the success.
func (s State) ended(cfg Settings, u Update, now time.Time) State {
	for _, r := range u.Ended {
		if cfg.Tokens > 0 {
			s.Tokens += r.Tokens
		}
		if r.Until.After(s.ClosedUntil) {
			s.ClosedUntil = r.Until
		}
	}
	for _, r := range u.Ended {
		if !r.Probe || s.Probe == nil || s.Probe.Worker != u.Worker {
			continue
		}
		s.Probe = nil
		if r.Passed && !now.Before(s.ClosedUntil) {
			s.ClosedUntil = time.Time{}
		}
	}
	return s
}

// decide returns the number of waiting requests that may begin, and why the
// others wait.
func (s State) decide(cfg Settings, u Update, now time.Time) Decision {
	d := Decision{Granted: max(0, u.Want)}
	allow := func(n int, why Reason, until time.Time) {
		if n = max(0, n); n < d.Granted {
			d = Decision{Granted: n, Reason: why, Until: until}
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
		inFlight, _ := s.others(u.Worker)
		allow(cfg.Concurrent-inFlight-u.Held, Concurrent, time.Time{})
	}
	return d
}

// hold writes the number of a worker's requests in flight, and renews its lease
// where that is due.
func (s State) hold(worker string, n int, now time.Time) State {
	h, ok := s.Holders[worker]
	switch {
	case n == 0:
		delete(s.Holders, worker)
	case !ok || h.N != n || h.Until.Sub(now) <= renewAt:
		if s.Holders == nil {
			s.Holders = map[string]Holder{}
		}
		s.Holders[worker] = Holder{n, now.Add(Lease)}
	}
	return s
}

// next returns the time at which the worker's leases have to be renewed, or at
// which its waiting requests may begin without news from any worker.
func (s State) next(cfg Settings, u Update, d Decision, now time.Time) time.Time {
	var at time.Time
	by := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if h, ok := s.Holders[u.Worker]; ok && cfg.Concurrent > 0 {
		by(h.Until.Add(-renewAt))
	}
	if s.Probe != nil && s.Probe.Worker == u.Worker {
		by(s.Probe.Until.Add(-renewAt))
	}
	if d.Granted >= u.Want {
		return at
	}
	// Whatever the requests wait for, the next update is one lease away at
	// most.
	by(now.Add(Lease))
	if !d.Until.IsZero() {
		by(d.Until)
	}
	if d.Reason == Probing && s.Probe != nil {
		by(s.Probe.Until)
	}
	if _, first := s.others(u.Worker); d.Reason == Concurrent && !first.IsZero() {
		by(first)
	}
	return at
}
