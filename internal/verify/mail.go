package verify

import (
	"slices"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// mail checks the writer of a message of mail, and folds the message. Which
// call takes it follows from the fold and needs no check.
func (c *Checker) mail(n *node, e run.Mailed, m Message) {
	e.Key = strings.Clone(e.Key)
	first, again := n.mailAt[e.Key]
	n.noteMail(e.Key, m.Seq)
	here := n.on(m)
	from, err := subjects.ParsePath(e.From)
	byRun := err == nil
	switch {
	case !byRun && isRunKey(e.Key):
		c.violate(here, Mail, "mail of %q is under %s, where a run writes: it cannot any more", e.From, e.Key)
	case !byRun && again:
		c.note(here, Mail, "a second message under %s, message %d was the first: both are taken", e.Key, first)
	case again:
		const text = "a second message of %s under %s, message %d was the first: both are taken"
		c.violate(here, Mail, text, from, e.Key, first)
	case byRun:
		c.writtenByRun(n, from, e.Mail, m)
	}
	kept := run.Mail{Seq: m.Seq, From: shared(e.From), Key: e.Key, Idle: e.Idle, Seen: e.Seen}
	c.apply(n, run.Mailed{Meta: e.Meta, Mail: kept}, m)
}

// isRunKey reports whether a mail key is one of those that runs write under.
func isRunKey(key string) bool {
	path, err := subjects.ParsePath(key)
	_, _, idle := subjects.ParseIdleKey(key)
	return idle || err == nil && path != subjects.Root
}

// noteMail keeps the sequence of the first message under a mail key.
func (n *node) noteMail(key string, seq uint64) {
	if n.mailAt == nil {
		n.mailAt = map[string]uint64{}
	}
	if _, again := n.mailAt[key]; !again {
		n.mailAt[key] = seq
	}
}

// writtenByRun checks a message that names a run as its writer.
func (c *Checker) writtenByRun(n *node, from subjects.Path, l run.Mail, m Message) {
	here := n.on(m)
	if turn, ok := l.IdleTurn(); ok {
		c.idleNotice(here, from, turn, l)
		return
	}
	at, err := subjects.ParsePath(l.Key)
	up, turn, index, below := at.Parent()
	if err != nil || !below || up != from || l.Idle {
		c.violate(here, Mail, "mail of %s is under %s, where that run writes no such message", from, l.Key)
		return
	}
	by := n.tree.calledAt(from)
	if by == nil {
		c.violate(here, Mail, "mail of %s, which was not called", from)
		return
	}
	call, ok := by.decision(turn, index)
	switch {
	case by.broken:
	case !ok || call.Op != run.OpSend || call.Failed() || !by.state.Turns[turn-1].CarriedOut():
		c.violate(here.per(by), Mail, "its writer's log sends nothing as call %d of turn %d", index, turn)
	case call.To != n.path || call.Agent != n.agent.String():
		c.violate(here.per(by), Mail, "its writer sends it to %s %s", call.To, call.Agent)
	case call.Task != l.Text:
		c.violate(here.per(by), Mail, "its text differs from that of its writer's model")
	default:
		call.Task = "" // compared and not kept
	}
}

// idleNotice checks that the writer of an idle notice is a fork that was idle
// after the turn. The notice has the sequence up to which the fork had read
// when it answered. An interrupted fork may have read on since.
func (c *Checker) idleNotice(here spot, from subjects.Path, turn int, l run.Mail) {
	n := here.run
	by := n.fork(from)
	switch {
	case n.broken:
		return
	case by == nil:
		c.violate(here, Mail, "%s says that it is idle, which is no fork of this run", from)
		return
	case by.broken:
		return
	case !by.wasIdle(turn):
		c.violate(here.per(by), Mail, "%s says that it is idle after turn %d, after which it was not", from, turn)
		return
	}
	if read := by.state.Turns[turn-1].ReadTo(); l.Seen != read {
		const text = "%s says that it had read up to %d at turn %d, and its log says %d"
		c.violate(here.per(by), Mail, text, from, l.Seen, turn, read)
	}
}

// wasIdle reports whether a run was idle after a turn.
func (n *node) wasIdle(turn int) bool {
	return turn <= len(n.state.Turns) &&
		(n.state.Turns[turn-1].Entry.Kind == run.EntryIdle || slices.Contains(n.interrupted, turn))
}

// calledAt finds the called run on a path, nil if there is none.
func (t *tree) calledAt(path subjects.Path) *node {
	for at, n := range t.runs {
		if at.path == path && n.call != 0 {
			return n
		}
	}
	return nil
}

// fork finds the run on a path if n has forked it, nil if it has not.
func (n *node) fork(path subjects.Path) *node {
	up, turn, index, below := path.Parent()
	if !below || up != n.path {
		return nil
	}
	call, ok := n.decision(turn, index)
	if !ok || call.Op != run.OpFork || call.Failed() {
		return nil
	}
	f := n.child(turn, index, call.Agent)
	if f == nil || f.call == 0 {
		return nil
	}
	return f
}

// sentBefore checks that the mail and the idle notice of the last turn were
// stored before the run goes on with a message.
func (c *Checker) sentBefore(n *node, m Message) {
	last := len(n.state.Turns)
	if n.broken || last == 0 || !n.state.Turns[last-1].CarriedOut() {
		return
	}
	for i, call := range n.state.Turns[last-1].Entry.Calls {
		if call.Op == run.OpSend && !call.Failed() && !n.tree.hasMail(call, n.path.MailKey(last, i)) {
			const text = "it goes on, and the mail of call %d of turn %d to %s was not written"
			c.violate(n.on(m), Mail, text, i, last, call.To)
		}
	}
	up := n.parent
	if up == nil || !n.state.LastTurnIdle() || up.fork(n.path) != n {
		return
	}
	if up.mailAt[n.path.IdleKey(last).String()] == 0 {
		const text = "it goes on, and has not told %s that it was idle after turn %d"
		c.violate(n.on(m).per(up), Mail, text, up.path, last)
	}
}

// hasMail reports whether the message that a call sends is stored.
func (t *tree) hasMail(call run.Call, k subjects.Key) bool {
	agent, err := subjects.ParseAgent(call.Agent)
	if err != nil || call.To.IsZero() {
		return true // no worker can write it
	}
	to := t.runs[place{agent, call.To}]
	return to != nil && to.mailAt[k.String()] != 0
}
