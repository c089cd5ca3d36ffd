package run

import (
	"slices"

	"github.com/axebus/axe/subjects"
)

// The bounds of unread mail. Mail beyond them is dropped. The run is told once,
// and again only after it has taken mail. The senders are not told. Without
// bounds, a run that never reads its mail would cost more to fold with every
// message.
const (
	// MaxInbox is in messages.
	MaxInbox = 1000
	// MaxInboxBytes is in bytes of text.
	MaxInboxBytes = 16 << 20
)

// Overflow is the writer of the message to a run with a full inbox.
const Overflow = "axe"

// mailed puts a message into the inbox. Mail that was stored before the call
// does not count: a worker that reads from the call on does not see it.
func (s State) mailed(m Mail) State {
	if s.Phase == None || s.Ended() {
		return s
	}
	if _, ok := m.IdleTurn(); !ok {
		m.Idle = false
		m.Subtree = nil
		m.Seen = 0
	}
	if s.full(m) {
		if s.inboxFull {
			return s
		}
		s.inboxFull, m = true, Mail{Seq: m.Seq, From: Overflow, Text: TextOverflow}
	}
	s.Inbox = append(slices.Clip(s.Inbox), m)
	// m.Idle is still set if the message is from the run that its key names.
	from, _, _ := subjects.ParseIdleKey(m.Key)
	if m.Idle && s.Turns.forked(from) && m.Seen >= s.Turns.lastSentTo(from) && !slices.Contains(s.idleForks, from) {
		s.idleForks = append(slices.Clip(s.idleForks), from)
	}
	switch s.Phase {
	case Idle:
		if s.wakes(m) {
			return s.ready(m.Seq)
		}
	case Awaiting:
		return s.collectMail(m.Seq, false)
	case None, Ready, Held, Polling, Completed, Failed:
	}
	return s
}

// take removes the messages that match from the inbox, in stream order.
func (s State) take(matches func(Mail) bool) (State, []Mail) {
	var taken, left []Mail
	for _, m := range s.Inbox {
		if matches(m) {
			taken = append(taken, m)
		} else {
			left = append(left, m)
		}
	}
	s.Inbox, s.inboxFull = left, s.inboxFull && len(taken) == 0
	return s, taken
}

// wakes reports whether a message makes an idle run ready.
func (s State) wakes(m Mail) bool { return !s.muted || m.Outcome == nil && !m.Idle }

// full reports whether the inbox has no room for a message. There is always
// room for idle notices and outcomes of forks, and for mail that a call waits
// for.
func (s State) full(m Mail) bool {
	if isForksNotice(s, m) || m.Outcome != nil || s.awaits(m) {
		return false
	}
	bytes := len(m.Text)
	for _, kept := range s.Inbox {
		bytes += len(kept.Text)
	}
	return len(s.Inbox) >= MaxInbox || len(s.Inbox) > 0 && bytes > MaxInboxBytes
}

// isForksNotice reports whether a message is the idle notice of a fork after
// one of its turns, and the inbox does not have it. A writer of mail can forge
// a notice. So there is room for one notice of each fork and turn, and no more.
func isForksNotice(s State, m Mail) bool {
	turn, ok := m.IdleTurn()
	from, _, _ := subjects.ParseIdleKey(m.Key)
	return ok && turn <= MaxTurns && s.Turns.forked(from) &&
		!slices.ContainsFunc(s.Inbox, func(kept Mail) bool { return kept.Key == m.Key })
}

// awaits reports whether a call of the last turn waits for a message. It
// returns false if the inbox has a message of the same sender already.
func (s State) awaits(m Mail) bool {
	if s.Phase != Awaiting || s.Turns.last().stage != carriedOut ||
		slices.ContainsFunc(s.Inbox, func(kept Mail) bool { return kept.From == m.From }) {
		return false
	}
	t := s.Turns.last()
	for i, c := range t.Entry.Calls {
		if c.Op == OpWait && t.Outcomes[i] == nil && c.accepts(m) {
			return true
		}
	}
	return false
}
