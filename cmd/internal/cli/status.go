package cli

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/axebus/axe/agentd/run"
)

// mark is the sign before a run, in a style of the terminal.
type mark struct{ style, sign string }

var (
	markQueued  = mark{dim, "·"}
	markAsking  = mark{cyan, ""} // a spinner
	markPaused  = mark{yellow, "↻"}
	markWaiting = mark{dim, "○"}
	markHeld    = mark{yellow, "?"}
	markIdle    = mark{dim, "◌"}
	markEnding  = mark{yellow, "!"}
	markStalled = mark{yellow, "!"}
	markDone    = mark{green, "✓"}
	markFailed  = mark{red, "✗"}
	markCut     = mark{yellow, "⊘"}
)

// status returns the mark of a run and its state in a few words. Above is true
// if a run above it was cancelled.
func (n *node) status(now time.Time, above bool) (m mark, text string) {
	switch {
	case n.refusal != "":
		return markFailed, n.refusal
	case n.isDone():
		return n.ended.mark, n.ended.text + n.takeover.String()
	case n.ended != nil:
		return n.ended.mark, n.ended.text
	case n.state.Ended() && n.state.End.Text == "":
		return markEnding, "ending"
	case n.state.Ended(), n.cancelled:
		return markEnding, "ending: " + n.state.End.Text
	case above:
		return markEnding, "ending: the run above it was cancelled"
	case n.stalled != "":
		m, text = markStalled, n.stalled
	case n.asks():
		m, text = n.asking(now)
		if n.takeover.turn == n.progress.Turn {
			text += n.takeover.String()
		}
	default:
		m, text = n.withoutRequest()
	}
	if n.state.Interrupted() {
		text += ", interrupted"
	}
	if n.hasUnread() {
		text += ", got mail"
	}
	return m, text
}

// asks reports whether a worker asks the model for a turn that is not stored
// yet.
func (n *node) asks() bool { return n.progress.Turn > len(n.state.Turns) }

// asking describes the request for the next turn.
func (n *node) asking(now time.Time) (m mark, text string) {
	p := n.progress
	turn := "turn " + strconv.Itoa(p.Turn)
	switch p.Event {
	case run.ProgressRunning:
		return markAsking, "running"
	case run.ProgressRetrying:
		return markPaused, turn + ": " + retryText(p, now)
	case run.ProgressWaiting:
		return markPaused, turn + ": " + limitText(p, now)
	}
	return markAsking, turn
}

// withoutRequest describes a run while no worker asks its model.
func (n *node) withoutRequest() (m mark, text string) {
	turns := n.state.Turns
	switch {
	case n.state.Phase == run.Held && n.state.Hold != nil:
		return markHeld, "held for a person: " + n.state.Hold.Why
	case n.state.Phase == run.Polling:
		return markWaiting, "its server goes on with the call"
	case len(turns) == 0:
		return markQueued, "called"
	}
	t := turns[len(turns)-1]
	turn := "turn " + strconv.Itoa(len(turns))
	switch n.state.Phase {
	case run.Awaiting:
		return markWaiting, turn + ": " + awaits(n.state, t)
	case run.Held:
		return markHeld, turn + ": held for a person: " + t.Why
	case run.Idle:
		return markIdle, "idle"
	case run.None, run.Ready, run.Polling, run.Completed, run.Failed:
	}
	return markQueued, fmt.Sprintf("turn %d is due", len(turns)+1)
}

// awaits describes the calls, the mail or the review that turn t, the last one
// of s, waits for.
func awaits(s run.State, t run.Turn) string {
	if t.Entry.Review != nil && !t.CarriedOut() {
		return t.Entry.Review.Agent + " reviews it"
	}
	calls := 0
	for i, c := range t.Entry.Calls {
		switch {
		case c.Op == run.OpWait && t.Outcomes[i] == nil:
			return waitText(c)
		case c.Awaited() || c.Failed():
			calls++
		}
	}
	return fmt.Sprintf("%d of %d calls are back", calls-s.Pending(), calls)
}

// hasUnread reports whether the run has mail that it has not read. A request in
// flight has read the messages that are given to the model inline.
func (n *node) hasUnread() bool {
	inbox := n.state.Inbox
	if !n.asks() || len(inbox) == 0 {
		return len(inbox) > 0
	}
	notice := slices.DeleteFunc(n.state.Notice(), func(m run.Mail) bool { return !m.Inline })
	return len(inbox) > len(notice)
}

// turnsTaken describes the end of a run that completed in a number of turns.
func turnsTaken(turns int) string {
	if turns > 1 {
		return fmt.Sprintf("done in %d turns", turns)
	}
	return "done"
}
