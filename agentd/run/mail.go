package run

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// Mail is one message to a run.
type Mail struct {
	Seq uint64 `json:"-"`
	Key string `json:"-"` // under which it is stored
	// the path of who wrote it; of a person, a name that is none
	From string `json:"from"`
	Text string `json:"text"` // for the model
	// a fork tells that it has done its task and waits for mail
	Idle bool `json:"idle,omitzero"`
	// with that: what it and all below it have taken so far
	Subtree *Totals `json:"subtree,omitempty"`
	// with that: up to where it had read when it answered
	Seen    uint64   `json:"seen,omitzero"`
	Outcome *Outcome `json:"-"` // a fork has ended, so
	// of a notice: the text itself, and the message is taken with it
	Inline bool `json:"-"`
}

// maxFrom is the length of the longest name that a message may have come from.
const maxFrom = 512

// DecodeMail reads a message to a run from its body.
func DecodeMail(b []byte) (Mail, error) {
	var m Mail
	if err := json.Unmarshal(b, &m); err != nil {
		return Mail{}, fmt.Errorf("mail: %w", err)
	}
	if m.From == "" || len(m.From) > maxFrom {
		return Mail{}, fmt.Errorf("mail: it does not say whom it is from, in at most %d bytes", maxFrom)
	}
	if strings.ContainsFunc(m.From, breaks) {
		return Mail{}, fmt.Errorf("mail: whom it is from, %q, is more than a name", m.From)
	}
	return m, nil
}

// IdleTurn is the turn after which a fork tells by a message that it is idle; ok is
// false for any other message. Only under the fork's own key is it one: whoever
// may write to a run does not speak for its forks.
func (m Mail) IdleTurn() (turn int, ok bool) {
	from, turn, ok := subjects.ParseIdleKey(m.Key)
	return turn, m.Idle && ok && m.isFrom(from)
}

// isFrom reports whether the run at a path has written the message.
func (m Mail) isFrom(path subjects.Path) bool { return m.From == path.String() }

// breaks reports whether a character ends a line, or is another control
// character: names stand in lines that models and people read.
func breaks(r rune) bool {
	return r < ' ' || r >= '\u007f' && r <= '\u009f' || r == '\u2028' || r == '\u2029'
}

// forkOf finds the call of a turn that has made a fork which has not ended.
func (s State) forkOf(turn, index int) bool {
	if turn < 1 || turn > len(s.Turns) {
		return false
	}
	t := s.Turns[turn-1]
	return t.stage == carried && index >= 0 && index < len(t.Outcomes) && t.Entry.Calls[index].Op == OpFork &&
		t.Outcomes[index] == nil
}

// Forks lists the forks that have not ended, in the order of their calls.
func (s State) Forks() []Fork {
	var out []Fork
	for i, t := range s.Turns {
		for index, c := range t.Entry.Calls {
			if c.Op == OpFork && t.stage == carried && t.Outcomes[index] == nil {
				out = append(out, Fork{i + 1, Child{index, c, c.Deadline}})
			}
		}
	}
	return out
}

// forked reports whether a run is a fork that has not ended.
func (s State) forked(path subjects.Path) bool {
	return slices.ContainsFunc(s.Forks(), func(f Fork) bool { return f.Call.To == path })
}

// spent is what a run's forks have taken that have not ended, as they have told
// when they were idle last.
func (s State) spent() Totals {
	var sum Totals
	for _, f := range s.Forks() {
		var last Mail
		for _, m := range s.letters() {
			if m.isFrom(f.Call.To) && m.Subtree != nil && m.Seq >= last.Seq {
				last = m
			}
		}
		if last.Subtree != nil {
			sum = sum.Add(*last.Subtree)
		}
	}
	return sum
}

// letters are the messages that the run has got, taken or not.
func (s State) letters() []Mail {
	all := slices.Clone(s.Inbox)
	for _, t := range s.Turns {
		for _, took := range t.Took {
			all = append(all, took...)
		}
	}
	return all
}

// wrote is the message by which the run has last written to another one, whose
// letter is later; 0 if it has not.
func (s State) wrote(path subjects.Path) (at uint64) {
	for _, t := range s.Turns {
		for _, c := range t.Entry.Calls {
			if c.Op == OpSend && c.To == path && t.stage == carried && !c.Failed() {
				at = t.at
			}
		}
	}
	return at
}

// Fork is a child that goes on beside its parent.
type Fork struct {
	Turn int
	Child
}

// forkEnded notes the outcome of a fork, which is mail.
func (s State) forkEnded(e Replied) State {
	t := s.Turns[e.Turn-1]
	t.Outcomes = slices.Clone(t.Outcomes)
	t.Outcomes[e.Index] = &e.Outcome
	s.Turns = slices.Clone(s.Turns)
	s.Turns[e.Turn-1] = t
	path := t.Entry.Calls[e.Index].To
	if s.killed(path) {
		return s // it was this run's wish
	}
	return s.mailed(Mail{Seq: e.Seq, From: path.String(), Outcome: &e.Outcome})
}

// PeerStatus is what is known of a run whose mail is waited for.
type PeerStatus string

// The standings.
const (
	PeerWrote   PeerStatus = "received" // it has written
	PeerRunning PeerStatus = "running"  // it has not, and may
	PeerIdle    PeerStatus = "idle"     // it waits to be written to
	PeerDead    PeerStatus = "dead"     // it has ended
)

// standing is what is known of a run, whatever it has written. Of runs that are
// not this one's forks it is known only that they had not ended when the call
// was decided.
func (s State) standing(path subjects.Path) PeerStatus {
	for _, t := range s.Turns {
		for i, c := range t.Entry.Calls {
			if c.Op == OpFork && c.To == path && t.Outcomes[i] != nil {
				return PeerDead
			}
		}
	}
	switch {
	case s.killed(path):
		return PeerDead
	case slices.Contains(s.idle, path):
		return PeerIdle
	}
	return PeerRunning
}

// SaidIdle reports whether the last that a run has from one of its forks is
// that it is idle. Somebody else may have written to it since.
func (s State) SaidIdle(path subjects.Path) bool { return s.standing(path) == PeerIdle }

// killed reports whether this run has killed another one, or one above that.
func (s State) killed(path subjects.Path) bool {
	for _, t := range s.Turns {
		for _, c := range t.Entry.Calls {
			if c.Op == OpKill && t.stage == carried && !c.Failed() && c.To.Covers(path) {
				return true
			}
		}
	}
	return false
}

// find is what there is of each of those whose mail a call waits for.
func (s State) find(c Call) []PeerStatus {
	found := make([]PeerStatus, len(c.From))
	for i, from := range c.From {
		if found[i] = s.standing(from); found[i] == PeerIdle && slices.Contains(c.Busy, from) {
			found[i] = PeerRunning
		}
		if slices.Contains(c.Dead, from) {
			found[i] = PeerDead
		}
		if slices.ContainsFunc(s.Inbox, func(m Mail) bool { return m.isFrom(from) }) {
			found[i] = PeerWrote
		}
	}
	return found
}

// collect lets the calls of the current turn that wait for mail take what is
// there for them: all of it when they have what they wait for, or when their
// time is over.
func (s State) collect(owner uint64, over bool) State {
	t := s.current()
	if t.stage != carried {
		return s
	}
	changed := false
	for i, c := range t.Entry.Calls {
		if c.Op != OpWait || t.Outcomes[i] != nil || !over && !s.hasFor(c) {
			continue
		}
		if !changed {
			t.Outcomes, t.Took, t.Found, changed = slices.Clone(
				t.Outcomes,
			), slices.Clone(
				t.Took,
			), slices.Clone(
				t.Found,
			), true
		}
		t.Found[i] = s.find(c)
		s, t.Took[i] = s.take(c.wants)
		t.Outcomes[i] = &Outcome{Status: StatusCompleted}
		t.left--
	}
	if !changed {
		return s
	}
	s.Turns = slices.Clone(s.Turns)
	s.Turns[len(s.Turns)-1] = t
	if t.left == 0 {
		return s.ready(owner)
	}
	return s
}

// wants reports whether a call that waits for mail takes a message.
func (c Call) wants(m Mail) bool { return len(c.From) == 0 || slices.ContainsFunc(c.From, m.isFrom) }

// hasFor reports whether all that a call waits for is there: any message, or
// one from each that it names and that has anything to say.
func (s State) hasFor(c Call) bool {
	if len(c.From) == 0 {
		return len(s.Inbox) > 0
	}
	return !slices.Contains(s.find(c), PeerRunning)
}

// whole reports whether a message is given to the run as it is.
func (s State) whole(m Mail) bool {
	start := s.Start()
	// what other runs write is a tool's result, and no user's text
	if subjects.IsRunName(m.From) || start == nil {
		return false
	}
	return !start.HasInboxTools()
}

// HasInboxTools reports whether a run can look for mail.
func (s *Start) HasInboxTools() bool {
	looks := func(name string) bool { return name == string(OpMail) || name == string(OpWait) }
	return slices.ContainsFunc(s.Slash, looks) ||
		slices.ContainsFunc(s.Tools, func(t provider.Tool) bool { return looks(t.Name) })
}

// Notice is what a run that was idle is told before its next turn, of what it
// was not told of, in stream order: of each who has written the first message,
// and every message whole that a person has written to a run which cannot look
// for mail itself.
func (s State) Notice() []Mail {
	if !s.resting {
		return nil
	}
	return s.notice(s.Seq)
}

// HasUnread reports whether there is mail of which the run does not know when it
// has answered. It was asked when the messages up to a sequence had been read,
// and was told of those if it had been idle.
func (s State) HasUnread(asked uint64) bool {
	if s.resting {
		s.told = max(s.told, asked)
	}
	return len(s.notice(s.Seq)) > 0
}

func (s State) notice(upTo uint64) []Mail {
	var news []Mail
	for _, m := range s.Inbox {
		m.Inline = s.whole(m)
		known := slices.ContainsFunc(news, func(n Mail) bool { return n.From == m.From })
		if m.Seq > s.told && m.Seq <= upTo && (m.Inline || !known) {
			news = append(news, m)
		}
	}
	return news
}

// LastTurnIdle reports whether the last entry is an answer after which the run waits
// for mail.
func (s State) LastTurnIdle() bool { return len(s.Turns) > 0 && s.current().Entry.Kind == EntryIdle }

// ReadTo is up to where a run had read that is idle after a turn. One that was
// stopped has read all that came before that, and will not answer it unless it
// is written to again.
func (t Turn) ReadTo() uint64 { return max(t.Entry.Seen, t.halted) }
