package run

import (
	"slices"

	"github.com/axebus/axe/subjects"
)

// What an inbox has room for that nobody takes. What is written beyond is
// dropped, and the run is told that it is: it is not known to who writes, and a
// run that never looks must not cost more and more to fold.
const (
	MaxInbox      = 1000     // messages
	MaxInboxBytes = 16 << 20 // of text
)

// Overflow is from whom a run is told that its inbox was full, and TextOverflow
// what.
const (
	Overflow     = "axe"
	TextOverflow = "Your inbox was full. Messages that came after this one were dropped, until you took some."
)

// mailed puts a message into the inbox. What was stored before the call is none
// of the run's: who reads from the call on does not see it.
func (s State) mailed(m Mail) State {
	if s.Phase == None || s.Ended() {
		return s
	}
	if _, ok := m.IdleTurn(); !ok {
		m.Idle, m.Subtree, m.Seen = false, nil, 0
	}
	if s.full(m) {
		if s.overflown {
			return s
		}
		s.overflown, m = true, Mail{Seq: m.Seq, From: Overflow, Text: TextOverflow}
	}
	s.Inbox = append(slices.Clip(s.Inbox), m)
	// m.Idle is set for a fork's own notice alone
	from, _, _ := subjects.ParseIdleKey(m.Key)
	if m.Idle && s.forked(from) && m.Seen >= s.wrote(from) && !slices.Contains(s.idle, from) {
		s.idle = append(slices.Clip(s.idle), from)
	}
	switch s.Phase {
	case Idle:
		if s.wakes(m) {
			return s.ready(m.Seq)
		}
	case Awaiting:
		return s.collect(m.Seq, false)
	case None, Ready, Held, Completed, Failed:
	}
	return s
}

// take removes from the inbox what fits, in stream order.
func (s State) take(fits func(Mail) bool) (State, []Mail) {
	var taken, left []Mail
	for _, m := range s.Inbox {
		if fits(m) {
			taken = append(taken, m)
		} else {
			left = append(left, m)
		}
	}
	s.Inbox, s.overflown = left, s.overflown && len(taken) == 0
	return s, taken
}

// wakes reports whether a run that is idle goes on with a message.
func (s State) wakes(m Mail) bool { return !s.quiet || m.Outcome == nil && !m.Idle }

// full reports whether an inbox has no room for a message. For what a run's
// forks tell of themselves, and for what one of its calls waits for, there
// always is.
func (s State) full(m Mail) bool {
	if _, word := m.IdleTurn(); word || m.Outcome != nil || s.awaits(m) {
		return false
	}
	bytes := len(m.Text)
	for _, kept := range s.Inbox {
		bytes += len(kept.Text)
	}
	return len(s.Inbox) >= MaxInbox || len(s.Inbox) > 0 && bytes > MaxInboxBytes
}

// awaits reports whether a call of the current turn waits for a message, the
// first from whom it is from.
func (s State) awaits(m Mail) bool {
	if s.Phase != Awaiting || s.current().stage != carried ||
		slices.ContainsFunc(s.Inbox, func(kept Mail) bool { return kept.From == m.From }) {
		return false
	}
	t := s.current()
	for i, c := range t.Entry.Calls {
		if c.Op == OpWait && t.Outcomes[i] == nil && c.wants(m) {
			return true
		}
	}
	return false
}
