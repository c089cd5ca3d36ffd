package ratelimit

import (
	"encoding/json"
	"maps"
	"time"
)

// Settings are the limits of one provider and key. The zero value sets none,
// and then nothing is kept.
type Settings struct {
	Concurrent int // requests in flight; 0: any number
	// begun in a window; 0: any number
	Requests int
	// of answers in a window, input and output; 0: any number
	Tokens int
	// what the other three imply: a refusal with a Retry-After closes the
	// gate for all
	RetryAfter bool
}

// On reports whether there is anything to keep to.
func (s Settings) On() bool { return s != Settings{} }

// State is what all workers know of one provider and key. The zero value is a
// gate that is open and through which nobody has gone.
type State struct {
	// ClosedUntil is set while the gate is not open: before it nobody goes,
	// after it one goes as the probe.
	ClosedUntil time.Time         `json:"closed_until,omitzero"`
	Probe       *Probe            `json:"probe,omitempty"`
	Window      time.Time         `json:"window,omitzero"` // its first instant
	Requests    int               `json:"requests,omitzero"`
	Tokens      int               `json:"tokens,omitzero"`
	Holders     map[string]Holder `json:"holders,omitempty"` // by worker
	// names the step that made it, whose worker knows it again so
	Step string `json:"step,omitzero"`
}

// Probe is the one request that is tried when a gate was closed.
type Probe struct {
	Worker string    `json:"worker"`
	Until  time.Time `json:"until"`
}

// Holder is what a worker has in flight.
type Holder struct {
	N     int       `json:"n"`
	Until time.Time `json:"until"`
}

// Lease is how long what a worker holds is believed in without a sign of life.
const Lease = 30 * time.Second

const (
	// of a lease, that are left when it is renewed
	renewed = 20 * time.Second
	window  = time.Minute
	// that a gate may be closed: no Retry-After counts as more than a day
	longest = 25 * time.Hour
)

// Decode reads a stored state. What is no state is the zero one: anybody may
// have written there.
func Decode(b []byte) State {
	var s State
	if json.Unmarshal(b, &s) != nil {
		return State{}
	}
	return s
}

// believed reports whether a lease holds; one that nobody grants does not.
func believed(until, now time.Time) bool {
	return now.Before(until) && until.Before(now.Add(2*Lease))
}

// current is the state without what is over by now. Nothing in it is shared
// with s.
func (s State) current(cfg Settings, st Update, now time.Time) State {
	s.Holders = maps.Clone(s.Holders)
	maps.DeleteFunc(s.Holders, func(_ string, h Holder) bool { return h.N <= 0 || !believed(h.Until, now) })
	if s.Probe != nil {
		p := *s.Probe
		s.Probe = &p
		// granted by a write whose answer was lost
		lost := p.Worker == st.Worker && !st.Probing && !st.probed()
		if lost || !believed(p.Until, now) {
			s.Probe = nil
		}
	}
	if s.ClosedUntil.After(now.Add(longest)) {
		s.ClosedUntil = time.Time{}
	}
	if cfg.Requests == 0 && cfg.Tokens == 0 {
		return s
	}
	if w := now.UTC().Truncate(window); w.After(s.Window) || s.Window.After(now.Add(window)) {
		s.Window, s.Requests, s.Tokens = w, 0, 0
	}
	return s
}

// held is how many requests the other workers have in flight, and when the
// first of them are forgotten.
func (s State) held(but string) (n int, first time.Time) {
	for name, h := range s.Holders {
		if name == but {
			continue
		}
		n += h.N
		if first.IsZero() || h.Until.Before(first) {
			first = h.Until
		}
	}
	return n, first
}
