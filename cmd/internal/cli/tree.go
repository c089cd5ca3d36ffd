package cli

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/client"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// phase is what a run is doing, as far as its events tell.
type phase int

const (
	queued   phase = iota // called, or ready again: it waits for a slot
	asking                // its model is being asked
	retrying              // it is asked again, after a pause
	barred                // it may not be asked yet
	waiting               // for its calls
	ending                // it was told to end
	done
	failed
	cut // cancelled, or timed out
)

func (p phase) ended() bool { return p >= done }

// node is one run of a tree.
type node struct {
	path     subjects.Path
	agent    string
	phase    phase
	turn     int // the last that was asked or answered
	answered int // the last that called tools
	calls    int // of the answered turn
	replies  int
	worker   string
	began    time.Time
	took     time.Duration // once it ended
	why      string        // it failed, or is to end
	below    []*node       // in the order of turns and calls

	attempt, attempts int       // while it is retrying: the next one
	next              time.Time // while it is retrying or barred
}

// Tree is what is known of a tree, folded from its events. It is pure: Lines draws it.
type Tree struct {
	nodes map[subjects.Path]*node
	root  *node
}

// Apply adds an event. Late and repeated ones change nothing.
func (t *Tree) Apply(e client.Event) {
	n := t.at(e.Run.Path)
	if e.Kind != client.Cancelled || n.agent == "" {
		n.agent = e.Run.Agent.String()
	}
	if n.phase.ended() {
		return
	}
	switch e.Kind {
	case client.Called:
		n.began = e.Time
	case client.Asking:
		if e.Turn > n.answered && n.phase != ending {
			n.phase, n.turn, n.worker = asking, e.Turn, e.Worker
		}
	case client.Retrying:
		if e.Turn > n.answered && n.phase != ending {
			n.phase, n.turn, n.worker, n.why = retrying, e.Turn, e.Worker, e.Reason
			n.attempt, n.attempts, n.next = e.Attempt, e.Attempts, e.Next
		}
	case client.Waiting:
		if e.Turn > n.answered && n.phase != ending {
			n.phase, n.turn, n.worker, n.why, n.next = barred, e.Turn, e.Worker, e.Reason, e.Next
		}
	case client.Answered:
		t.answered(n, e)
	case client.TimedOut:
		if e.Turn == n.answered && n.phase == waiting {
			n.phase = queued
		}
	case client.Cancelled:
		n.end(e.Reason)
	case client.Replied, client.Concluded:
		t.end(n, e)
	}
}

// end marks a run that was told to end, and all below it: no model is asked for any of them.
func (n *node) end(why string) {
	if !n.phase.ended() {
		n.phase, n.why = ending, why
	}
	for _, b := range n.below {
		b.end("the run above it was cancelled")
	}
}

// answered opens a turn of calls. A call that was refused at once is shown as a run that failed.
func (t *Tree) answered(n *node, e client.Event) {
	n.turn, n.answered, n.worker, n.calls, n.replies = e.Turn, e.Turn, e.Worker, len(e.Calls), 0
	for i, call := range e.Calls {
		if call.Failed() {
			below := t.at(n.path.Child(e.Turn, i))
			below.agent, below.phase, below.why = call.Agent, failed, call.Error
			n.replies++
		}
	}
	if n.phase != ending {
		n.phase = waiting
		if n.replies == n.calls {
			n.phase = queued
		}
	}
}

func (t *Tree) end(n *node, e client.Event) {
	o := e.Outcome
	n.took, n.turn = time.Duration(o.DurationMS)*time.Millisecond, o.Turns
	if e.Worker != "" {
		n.worker = e.Worker
	}
	switch {
	case o.Status == run.StatusCompleted:
		n.phase = done
	case o.Kind == run.KindCancelled || o.Kind == run.KindTimeout:
		n.phase, n.why = cut, o.Error
	default:
		n.phase, n.why = failed, o.Error
	}
	above, turn, _, below := n.path.Parent()
	if !below {
		return
	}
	if p := t.at(above); turn == p.answered && p.phase == waiting {
		if p.replies++; p.replies >= p.calls {
			p.phase = queued
		}
	}
}

// at is the node of a path, made with all those above it if need be.
func (t *Tree) at(p subjects.Path) *node {
	if n := t.nodes[p]; n != nil {
		return n
	}
	if t.nodes == nil {
		t.nodes = map[subjects.Path]*node{}
	}
	n := &node{path: p}
	t.nodes[p] = n
	above, _, _, below := p.Parent()
	if !below {
		t.root = n
		return n
	}
	parent := t.at(above)
	i, _ := slices.BinarySearchFunc(parent.below, p, func(a *node, p subjects.Path) int { return order(a.path, p) })
	parent.below = slices.Insert(parent.below, i, n)
	return n
}

// order compares two siblings by turn, then by call.
func order(a, b subjects.Path) int {
	_, aTurn, aIndex, _ := a.Parent()
	_, bTurn, bIndex, _ := b.Parent()
	if aTurn != bTurn {
		return aTurn - bTurn
	}
	return aIndex - bIndex
}

// status is a run's state in a few words.
func (n *node) status(now time.Time) string {
	turn := "turn " + strconv.Itoa(n.turn)
	switch n.phase {
	case queued:
		if n.answered > 0 {
			return "turn " + strconv.Itoa(n.answered+1) + " is due"
		}
		return "called"
	case asking:
		return turn
	case retrying:
		return turn + ": " + attempt(n.attempt, n.attempts, n.next.Sub(now), n.why)
	case barred:
		return turn + ": " + limited(n.next, now, n.why)
	case waiting:
		return turn + ": " + strconv.Itoa(n.replies) + " of " + strconv.Itoa(n.calls) + " calls are back"
	case ending:
		return "ending: " + n.why
	case done:
		if n.turn > 1 {
			return "done in " + strconv.Itoa(n.turn) + " turns"
		}
		return "done"
	case failed, cut:
		return n.why
	}
	return ""
}

// Printable is text on one line, without what a terminal would obey.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 || r == '\u2028' || r == '\u2029' || 0x202a <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069:
			return -1
		}
		return r
	}, s)
}
