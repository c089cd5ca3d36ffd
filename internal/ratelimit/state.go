package ratelimit

import (
	"encoding/json"
	"maps"
	"time"
)

// Settings are the limits of one provider account. The zero value sets none,
// and then no state is kept.
type Settings struct {
	// Concurrent bounds the requests in flight; 0 is no bound.
	Concurrent int
	// Requests bounds the requests that begin in one window; 0 is no bound.
	Requests int
	// Tokens bounds the input and output tokens of the answers in one
	// window; 0 is no bound.
	Tokens int
	// RetryAfter says that a refusal with a Retry-After closes the account
	// for all workers. The other settings imply it.
	RetryAfter bool
}

// On reports whether any limit is set.
func (s Settings) On() bool { return s != Settings{} }

// State is the stored state of one provider account. The zero value is an open
// account without requests.
type State struct {
	// ClosedUntil is zero while the account is open. Before this time no
	// request begins. After it one request begins as the probe.
	ClosedUntil time.Time `json:"closed_until,omitzero"`
	// Probe is the probe in flight, nil if there is none.
	Probe *Probe `json:"probe,omitempty"`
	// Window is the first instant of the window that Requests and Tokens
	// belong to.
	Window time.Time `json:"window,omitzero"`
	// Requests is the number of requests that began in the window.
	Requests int `json:"requests,omitzero"`
	// Tokens is the number of tokens of the answers in the window.
	Tokens int `json:"tokens,omitzero"`
	// Holders are the workers with requests in flight, by name.
	Holders map[string]Holder `json:"holders,omitempty"`
	// Step names the update that made this state. Its worker knows the
	// state again by it.
	Step string `json:"step,omitzero"`
}

// Probe is the one request that is sent after a closed time has ended.
type Probe struct {
	// Worker is the name of the worker that sends it.
	Worker string `json:"worker"`
	// Until is the end of its lease.
	Until time.Time `json:"until"`
}

// Holder is the requests that one worker has in flight.
type Holder struct {
	N int `json:"n"`
	// Until is the end of the worker's lease.
	Until time.Time `json:"until"`
}

// Lease is the time for which a worker's requests count without a sign of life
// from it.
const Lease = 30 * time.Second

const (
	// renewAt is the rest of a lease at which it is renewed.
	renewAt = 20 * time.Second
	window  = time.Minute
	// maxClosed is the longest time that an account may be closed. No
	// Retry-After counts as more than a day.
	maxClosed = 25 * time.Hour
)

// Decode reads a stored state. An unreadable body is the zero state, since any
// client of the bus may have written it.
func Decode(b []byte) State {
	var s State
	if json.Unmarshal(b, &s) != nil {
		return State{}
	}
	return s
}

// holds reports whether a lease holds. A lease that is longer than any worker
// takes does not.
func holds(until, now time.Time) bool {
	return now.Before(until) && until.Before(now.Add(2*Lease))
}

// current returns the state without the leases and the window that are over by
// now, and without a closed time that is too long to be true. A closed time
// that is over stays, because a probe has to follow it. The result shares no
// memory with s.
func (s State) current(cfg Settings, u Update, now time.Time) State {
	s.Holders = maps.Clone(s.Holders)
	maps.DeleteFunc(s.Holders, func(_ string, h Holder) bool { return h.N <= 0 || !holds(h.Until, now) })
	if s.Probe != nil {
		p := *s.Probe
		s.Probe = &p
		// The write that granted it was stored, and its acknowledgement
		// was lost.
		lost := p.Worker == u.Worker && !u.Probing && !u.hasProbe()
		if lost || !holds(p.Until, now) {
			s.Probe = nil
		}
	}
	if s.ClosedUntil.After(now.Add(maxClosed)) {
		s.ClosedUntil = time.Time{}
	}
	if cfg.Requests == 0 && cfg.Tokens == 0 {
		return s
	}
	if w := now.UTC().Truncate(window); w.After(s.Window) || s.Window.After(now.Add(window)) {
		s.Window = w
		s.Requests, s.Tokens = 0, 0
	}
	return s
}

// others returns the number of requests that the other workers have in flight,
// and the end of the first of their leases.
func (s State) others(worker string) (n int, first time.Time) {
	for name, h := range s.Holders {
		if name == worker {
			continue
		}
		n += h.N
		if first.IsZero() || h.Until.Before(first) {
			first = h.Until
		}
	}
	return n, first
}
