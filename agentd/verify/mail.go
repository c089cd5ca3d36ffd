package verify

import (
	"slices"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// mail checks what was written to a run, and folds it. What cannot be read is
// nothing, as it is for workers. Who takes a letter is not on the bus, but
// follows from the fold: so what there is to check is where letters come from.
func (c *Checker) mail(n *node, k subjects.Key, m Message) {
	n.triggers = append(n.triggers, m.Seq)
	key := strings.Clone(k.String())
	first, again := n.letters[key]
	if !again {
		n.got(key, m.Seq)
	}
	letter, err := run.DecodeMail(m.Body)
	if m.Gone || err != nil {
		c.note(n, m.Seq, Foreign, "a letter that cannot be read")
		return
	}
	letter.Key = key
	from, stranger := subjects.ParsePath(letter.From)
	switch {
	case stranger != nil && ofRun(key):
		c.violate(
			n,
			m.Seq,
			Mail,
			"a letter of %q is under %s, where a run writes: it cannot any more",
			letter.From,
			key,
		)
	case again && stranger != nil:
		c.note(n, m.Seq, Mail, "a second letter under %s, message %d was the first: both are taken", key, first)
	case again:
		c.violate(
			n,
			m.Seq,
			Mail,
			"a second letter of %s under %s, message %d was the first: both are taken",
			from,
			key,
			first,
		)
	case stranger == nil:
		c.written(n, from, letter, m)
	}
	c.apply(
		n,
		run.Mailed{
			Meta: meta(m),
			Mail: run.Mail{From: c.name(letter.From), Key: key, Idle: letter.Idle, Seen: letter.Seen},
		},
		m,
	)
}

// ofRun reports whether a key is one under which a run writes.
func ofRun(key string) bool {
	path, err := subjects.ParsePath(key)
	_, _, idle := subjects.ParseIdleKey(key)
	return idle || err == nil && path != subjects.Root
}

// got notes where a letter of a key is.
func (n *node) got(key string, seq uint64) {
	if n.letters == nil {
		n.letters = map[string]uint64{}
	}
	n.letters[key] = seq
}

// written checks a letter that says that a run has written it.
func (c *Checker) written(n *node, from subjects.Path, l run.Mail, m Message) {
	if turn, ok := l.IdleTurn(); ok {
		c.word(n, from, turn, l, m)
		return
	}
	at, err := subjects.ParsePath(l.Key)
	up, turn, index, below := at.Parent()
	if err != nil || !below || up != from || l.Idle {
		c.violate(n, m.Seq, Mail, "a letter of %s is under %s, where that run writes no such letter", from, l.Key)
		return
	}
	by := n.tree.at(from)
	if by == nil {
		c.violate(n, m.Seq, Mail, "a letter of %s, which was not called", from)
		return
	}
	call, ok := by.decision(turn, index)
	switch {
	case by.broken:
	case !ok || call.Op != run.OpSend || call.Failed() || !by.state.Turns[turn-1].CarriedOut():
		c.rests(by, n, m.Seq, Mail, "its writer's log sends nothing as call %d of turn %d", index, turn)
	case call.To != n.path || call.Agent != n.agent.String():
		c.rests(by, n, m.Seq, Mail, "its writer sends it to %s %s", call.To, call.Agent)
	case call.Task != l.Text:
		c.rests(by, n, m.Seq, Mail, "it says something else than its writer's model did")
	default:
		call.Task = "" // compared: not kept
	}
}

// word checks that a fork which says that it is idle is one, and has been idle
// after that turn. It says up to where it had read: its answer was made with no
// more than that, and a run that a person has stopped may have read on since.
func (c *Checker) word(n *node, from subjects.Path, turn int, l run.Mail, m Message) {
	by := n.fork(from)
	switch {
	case n.broken:
		return
	case by == nil:
		c.violate(n, m.Seq, Mail, "%s says that it is idle, which is no fork of this run", from)
		return
	case by.broken:
		return
	case !by.rested(turn):
		c.rests(by, n, m.Seq, Mail, "%s says that it is idle after turn %d, after which it was not", from, turn)
		return
	}
	if read := by.state.Turns[turn-1].ReadTo(); l.Seen != read {
		c.rests(
			by,
			n,
			m.Seq,
			Mail,
			"%s says that it had read up to %d at turn %d, and its log says %d",
			from,
			l.Seen,
			turn,
			read,
		)
	}
}

// rested reports whether a run has been idle after a turn.
func (n *node) rested(turn int) bool {
	return turn <= len(n.state.Turns) &&
		(n.state.Turns[turn-1].Entry.Kind == run.EntryIdle || slices.Contains(n.stops, turn))
}

// at is the run on a path that was called, nil if there is none.
func (t *tree) at(path subjects.Path) *node {
	for at, n := range t.runs {
		if at.path == path && n.call != 0 {
			return n
		}
	}
	return nil
}

// fork is the run on a path if this run has forked it, nil if it has not.
func (n *node) fork(path subjects.Path) *node {
	up, turn, index, below := path.Parent()
	if !below || up != n.path {
		return nil
	}
	call, ok := n.decision(turn, index)
	if !ok || call.Op != run.OpFork || call.Failed() {
		return nil
	}
	f := n.child(turn, run.Child{Index: index, Call: *call})
	if f == nil || f.call == 0 {
		return nil
	}
	return f
}

// sent checks that what the last turn sends to others was stored before the run
// went on.
func (c *Checker) sent(n *node, m Message) {
	last := len(n.state.Turns)
	if n.broken || last == 0 || !n.state.Turns[last-1].CarriedOut() {
		return
	}
	for i, call := range n.state.Turns[last-1].Entry.Calls {
		if call.Op == run.OpSend && !call.Failed() && !n.tree.has(call, n.path.MailKey(last, i)) {
			c.violate(
				n,
				m.Seq,
				Mail,
				"it goes on, and the letter of call %d of turn %d to %s was not written",
				i,
				last,
				call.To,
			)
		}
	}
	if up := n.up; n.state.LastTurnIdle() && up != nil && up.fork(n.path) == n &&
		up.letters[n.path.IdleKey(last).String()] == 0 {
		c.rests(up, n, m.Seq, Mail, "it goes on, and has not told %s that it was idle after turn %d", up.path, last)
	}
}

// has reports whether what a call sends is there.
func (t *tree) has(call run.Call, k subjects.Key) bool {
	agent, err := subjects.ParseAgent(call.Agent)
	if err != nil || call.To.IsZero() {
		return true // no worker can write it
	}
	to := t.runs[place{agent, call.To}]
	return to != nil && to.letters[k.String()] != 0
}
