package run

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// Mail is one message to a run. Its JSON is the body of the stored message.
type Mail struct {
	// Seq is the sequence of the stored message.
	Seq uint64 `json:"-"`
	// Key is the last token of the message's subject.
	Key string `json:"-"`
	// Sender is the user that sent the message, zero if it is not known.
	Sender subjects.By `json:"-"`
	// From is the path of the run that wrote the message, or the name of a
	// person. A person's name is no path.
	From string `json:"from"`
	// Text is for the model.
	Text string `json:"text"`
	// Idle marks the notice by which a fork reports that it is idle.
	Idle bool `json:"idle,omitzero"`
	// Subtree has, with Idle, the totals of the fork and all runs below it.
	Subtree *Totals `json:"subtree,omitempty"`
	// Seen is, with Idle, the last sequence that the fork counts as read
	// (Turn.ReadTo).
	Seen uint64 `json:"seen,omitzero"`
	// Outcome is set for the outcome of a fork, which reaches its parent as
	// mail.
	Outcome *Outcome `json:"-"`
	// Inline is set in a notice: the model gets the text itself, and the
	// message is taken with it.
	Inline bool `json:"-"`
}

// maxFrom bounds Mail.From, in bytes.
const maxFrom = 512

// DecodeMail reads a message to a run from its body.
func DecodeMail(b []byte) (Mail, error) {
	var m Mail
	if err := json.Unmarshal(b, &m); err != nil {
		return Mail{}, fmt.Errorf("mail: %w", err)
	}
	if m.From == "" || len(m.From) > maxFrom {
		return Mail{}, fmt.Errorf("mail: from must be 1 to %d bytes, got %d", maxFrom, len(m.From))
	}
	if strings.ContainsFunc(m.From, breaks) {
		return Mail{}, fmt.Errorf("mail: from must be one line without control characters, got %q", m.From)
	}
	return m, nil
}

// IdleTurn returns the turn after which a fork reports that it is idle. It
// returns false for any other message. A notice counts only under a key of the
// fork that it is from.
func (m Mail) IdleTurn() (turn int, ok bool) {
	from, turn, ok := subjects.ParseIdleKey(m.Key)
	return turn, m.Idle && ok && m.isFrom(from)
}

// isFrom reports whether the run at a path has written the message.
func (m Mail) isFrom(path subjects.Path) bool { return m.From == path.String() }

// breaks reports whether a character ends a line, or is another control
// character. Names appear in lines that models and people read.
func breaks(r rune) bool {
	return r < ' ' || r >= '\u007f' && r <= '\u009f' || r == '\u2028' || r == '\u2029'
}

// forkOf reports whether a call of a turn has made a fork that has not ended.
func (ts Turns) forkOf(turn, index int) bool {
	if turn < 1 || turn > len(ts) {
		return false
	}
	t := ts[turn-1]
	return t.stage == carriedOut && index >= 0 && index < len(t.Outcomes) && t.Entry.Calls[index].Op == OpFork &&
		t.Outcomes[index] == nil
}

// Forks lists the forks that have not ended, in the order of their calls.
func (ts Turns) Forks() []Fork {
	var out []Fork
	for i, t := range ts {
		for index, c := range t.Entry.Calls {
			if c.Op == OpFork && t.stage == carriedOut && t.Outcomes[index] == nil {
				out = append(out, Fork{i + 1, Child{index, c, c.Deadline}})
			}
		}
	}
	return out
}

// forked reports whether the run at a path is a fork of this run that has not
// ended.
func (ts Turns) forked(path subjects.Path) bool {
	return slices.ContainsFunc(ts.Forks(), func(f Fork) bool { return f.Call.To == path })
}

// forkTotals sums the totals of the forks that have not ended, from their last
// idle notices.
func (s State) forkTotals() (sum Totals) {
	forks := s.Turns.Forks()
	if len(forks) == 0 {
		return sum
	}
	received := slices.Clone(s.Inbox)
	for _, t := range s.Turns {
		received = append(received, slices.Concat(t.Took...)...)
	}
	last := map[string]Mail{} // by its sender
	for _, m := range received {
		if m.Subtree != nil && m.Seq >= last[m.From].Seq {
			last[m.From] = m
		}
	}
	for _, f := range forks {
		if m := last[f.Call.To.String()]; m.Subtree != nil {
			sum = sum.Add(*m.Subtree)
		}
	}
	return sum
}

// lastSentTo returns the sequence of the message by which the last turn that
// wrote to another run was carried out, 0 if there is no such turn. The mail
// itself is stored later.
func (ts Turns) lastSentTo(path subjects.Path) (at uint64) {
	for _, t := range ts {
		for _, c := range t.Entry.Calls {
			if c.Op == OpSend && c.To == path && t.stage == carriedOut && !c.Failed() {
				at = t.at
			}
		}
	}
	return at
}

// Fork is a child that works beside its parent.
type Fork struct {
	// Turn is the turn of its call, from 1.
	Turn int
	Child
}

// forkEnded folds the outcome of a fork, which is mail. A run that has killed
// the fork itself gets none.
func (s State) forkEnded(e Replied) State {
	s = s.editTurn(e.Turn-1, func(t *Turn) { t.Outcomes[e.Index] = &e.Outcome })
	path := s.Turns[e.Turn-1].Entry.Calls[e.Index].To
	if s.Turns.killed(path) {
		return s
	}
	return s.mailed(Mail{Seq: e.Seq, From: path.String(), Outcome: &e.Outcome})
}

// PeerStatus is a run's knowledge of a peer that it waits for.
type PeerStatus string

// The statuses.
const (
	PeerWrote   PeerStatus = "received"
	PeerRunning PeerStatus = "running" // has not written yet
	PeerIdle    PeerStatus = "idle"    // waits for mail itself
	PeerDead    PeerStatus = "dead"    // has ended
)

// peerStatus returns the status of a peer without regard to its mail. Of a peer
// that is not a fork of this run, only the end at the time of the call is
// known; Call.Dead has it.
func (s State) peerStatus(path subjects.Path) PeerStatus {
	for _, t := range s.Turns {
		for i, c := range t.Entry.Calls {
			if c.Op == OpFork && c.To == path && t.Outcomes[i] != nil {
				return PeerDead
			}
		}
	}
	switch {
	case s.Turns.killed(path):
		return PeerDead
	case slices.Contains(s.idleForks, path):
		return PeerIdle
	}
	return PeerRunning
}

// SaidIdle reports whether a fork has said that it is idle, and this run has
// not written to it since. Another run or a person may have.
func (s State) SaidIdle(path subjects.Path) bool { return s.peerStatus(path) == PeerIdle }

// killed reports whether this run has killed a run, or one above it.
func (ts Turns) killed(path subjects.Path) bool {
	for _, t := range ts {
		for _, c := range t.Entry.Calls {
			if c.Op == OpKill && t.stage == carriedOut && !c.Failed() && c.To.Covers(path) {
				return true
			}
		}
	}
	return false
}

// peerStatuses returns the status of each peer that a call waits for.
func (s State) peerStatuses(c Call) []PeerStatus {
	found := make([]PeerStatus, len(c.From))
	for i, from := range c.From {
		found[i] = s.peerStatus(from)
		if found[i] == PeerIdle && slices.Contains(c.Busy, from) {
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

// collectMail lets the calls of the last turn that wait for mail take it: each
// call with its condition met, or all of them when their time is over.
func (s State) collectMail(owner uint64, over bool) State {
	if s.Turns.last().stage != carriedOut {
		return s
	}
	changed := false
	for i, c := range s.Turns.last().Entry.Calls {
		if c.Op != OpWait || s.Turns.last().Outcomes[i] != nil || !over && !s.hasMailFor(c) {
			continue
		}
		found := s.peerStatuses(c)
		var took []Mail
		s, took = s.take(c.accepts)
		s = s.edit(func(t *Turn) {
			t.Found[i], t.Took[i] = found, took
			t.Outcomes[i] = &Outcome{Status: StatusCompleted}
			t.pendingCount--
		})
		changed = true
	}
	if changed && s.Turns.last().pendingCount == 0 {
		return s.ready(owner)
	}
	return s
}

// accepts reports whether a call that waits for mail takes a message.
func (c Call) accepts(m Mail) bool { return len(c.From) == 0 || slices.ContainsFunc(c.From, m.isFrom) }

// hasMailFor reports whether the wait of a call is over: there is any message,
// or each of the peers that it names has written, is idle or has ended.
func (s State) hasMailFor(c Call) bool {
	if len(c.From) == 0 {
		return len(s.Inbox) > 0
	}
	return !slices.Contains(s.peerStatuses(c), PeerRunning)
}

// isInline reports whether the model gets a message as user text. It does where
// a person wrote to a run that cannot look for mail. Text of other runs is a
// tool's result and never user text.
func (s State) isInline(m Mail) bool {
	start := s.Start()
	if subjects.IsRunName(m.From) || start == nil {
		return false
	}
	return !start.HasInboxTools()
}

// HasInboxTools reports whether the run has a tool that reads its mail.
func (s *Start) HasInboxTools() bool {
	looks := func(name string) bool { return name == string(OpMail) || name == string(OpWait) }
	return slices.ContainsFunc(s.Slash, looks) ||
		slices.ContainsFunc(s.Tools, func(t provider.Tool) bool { return looks(t.Name) })
}

// Notice lists the mail that the model is told of before the next turn of a run
// that was idle, in stream order. The model was not told of it before. It is
// the first message of each sender, and every inline message.
func (s State) Notice() []Mail {
	if !s.wasIdle {
		return nil
	}
	return s.notice(s.Seq)
}

// HasUnread reports whether there is mail that the run does not know of when it
// has answered. Its model was asked after the messages up to asked had been
// read. A run that was idle knows of the mail among these.
func (s State) HasUnread(asked uint64) bool {
	if s.wasIdle {
		s.notifiedTo = max(s.notifiedTo, asked)
	}
	return len(s.notice(s.Seq)) > 0
}

func (s State) notice(upTo uint64) []Mail {
	var news []Mail
	for _, m := range s.Inbox {
		m.Inline = s.isInline(m)
		known := slices.ContainsFunc(news, func(n Mail) bool { return n.From == m.From })
		if m.Seq > s.notifiedTo && m.Seq <= upTo && (m.Inline || !known) {
			news = append(news, m)
		}
	}
	return news
}

// LastTurnIdle reports whether the entry of the last turn is an EntryIdle.
func (s State) LastTurnIdle() bool { return len(s.Turns) > 0 && s.Turns.last().Entry.Kind == EntryIdle }

// LastFinal reports whether the entry of the last turn is an EntryFinal.
func (ts Turns) LastFinal() bool { return len(ts) > 0 && ts.last().Entry.Kind == EntryFinal }

// ReadTo returns the last sequence that a run had read when it became idle
// after the turn. An interrupted run counts everything before the interrupt as
// read: it will not answer that mail.
func (t Turn) ReadTo() uint64 { return max(t.Entry.Seen, t.interruptedAt) }
