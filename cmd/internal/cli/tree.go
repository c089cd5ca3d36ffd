package cli

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// phase is what a run is doing, as far as its events tell.
type phase int

const (
	// called, or ready again: it waits for a slot
	queued phase = iota
	asking       // its model is being asked
	// it is asked again, after a pause
	retrying
	barred  // it may not be asked yet
	waiting // for its calls, or for mail
	// its supervisor looks at what it is about to do
	reviewed
	held // a person does
	// it has answered, and waits to be written to
	resting
	ending // it was told to end
	done
	failed
	cut // cancelled, or timed out
)

func (p phase) ended() bool { return p >= done }

// node is one run of a tree.
type node struct {
	path  subjects.Path
	agent string
	phase phase
	// the last that was asked or answered
	turn int
	// the last that has an answer on the log
	answered int
	// of the answered turn: those that are waited for, and those that were
	// refused
	calls   int
	replies int
	// of the answered turn: its outcome is a reply
	awaited []bool
	worker  string
	began   time.Time
	took    time.Duration // once it ended
	why     string        // it failed, or is to end
	// in the order of turns and calls
	below []*node

	// it goes on beside the run above it
	fork bool
	// of the answered turn: it waits for mail
	wait *run.Call
	// who has written what it has not taken
	inbox []string
	fresh bool // somebody has since it was asked
	// by mail, from being idle: it was not asked since
	woken bool
	// it has no tool that looks for mail: what people write is given to it
	// as it is
	blind bool
	// who has told it so, and was not written to since
	idle []string
	// whose end it is not told, since it was its wish
	kills []string

	// by a person, since it was asked last
	stopped bool
	// it was idle when it was told to end
	rested bool

	// while it is retrying: the next one
	attempt, attempts int
	next              time.Time // while it is retrying or barred
}

// Tree is what is known of a tree, folded from its events. It is pure: Lines
// draws it.
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
		n.began, n.fork = e.Time, e.Input.Forked != nil
	case client.Asking:
		if e.Turn > n.answered && n.phase != ending {
			n.phase, n.turn, n.worker, n.fresh, n.stopped = asking, e.Turn, e.Worker, false, false
			n.take()
			n.read()
		}
	case client.Retrying:
		if e.Turn > n.answered && n.phase != ending {
			n.phase, n.turn, n.worker, n.why = retrying, e.Turn, e.Worker, e.Reason
			n.attempt, n.attempts, n.next = e.Attempt, e.Attempts, e.Next
		}
	case client.RateLimited:
		if e.Turn > n.answered && n.phase != ending {
			n.phase, n.turn, n.worker, n.why, n.next = barred, e.Turn, e.Worker, e.Reason, e.Next
		}
	case client.Answered:
		t.answered(n, e)
	case client.BecameIdle:
		t.rested(n, e)
	case client.MailReceived:
		t.mailed(n, e.Mail)
	case client.TimedOut:
		if e.Turn == n.answered && (n.phase == waiting || n.phase == reviewed && n.stopped) {
			n.goOn()
			n.take()
		}
	case client.Held:
		n.hold(held, e.Reason)
	case client.Approved:
		t.carryOut(n, e.Calls)
	case client.Denied:
		if n.phase != ending {
			n.phase = queued
		}
	case client.Interrupted:
		n.stop()
	case client.Cancelled:
		n.end(e.Reason)
	case client.ChildEnded, client.TreeEnded:
		t.end(n, e)
	}
}

// end marks a run that was told to end, and all below it: no model is asked for
// any of them.
func (n *node) end(why string) {
	if !n.phase.ended() {
		n.rested = n.rested || n.phase == resting
		n.phase, n.why = ending, why
	}
	for _, b := range n.below {
		b.end("the run above it was cancelled")
	}
}

// answered opens a turn of calls. If somebody looks at it first, nothing of it
// is done until then.
func (t *Tree) answered(n *node, e client.Event) {
	n.logged(e)
	n.fresh, n.stopped = false, false
	if e.Review != nil {
		n.hold(reviewed, e.Review.Agent)
		return
	}
	t.carryOut(n, e.Calls)
}

// logged notes an entry of the log.
func (n *node) logged(e client.Event) {
	n.take()
	n.read()
	n.turn, n.answered, n.worker, n.calls, n.replies = e.Turn, e.Turn, e.Worker, 0, 0
	if e.Start != nil {
		n.blind = !e.Start.HasInboxTools()
	}
}

// hold keeps a turn from being carried out.
func (n *node) hold(at phase, why string) {
	if n.phase != ending {
		n.phase, n.why = at, why
	}
}

// goOn makes the next turn due, or a run idle that a person has stopped.
func (n *node) goOn() {
	n.phase = queued
	if n.stopped && !n.fresh {
		n.phase = resting
	}
}

// stop notes that a person wants a run to stop what it is doing. What it waits
// for is cancelled, and its end is waited for.
func (n *node) stop() {
	if n.phase == resting || n.phase >= ending {
		return
	}
	n.stopped, n.fresh = true, false
	if n.phase == held || n.phase == waiting && n.wait != nil {
		n.take()
		n.phase = resting
	}
}

// carryOut begins to do what a turn has decided. A call that was refused at
// once is shown as a run that failed.
func (t *Tree) carryOut(n *node, calls []run.Call) {
	n.awaited = make([]bool, len(calls))
	for i, call := range calls {
		switch {
		case refusedRun(call):
			below := t.at(n.path.Child(n.answered, i))
			below.agent, below.phase, below.why = call.Agent, failed, call.Error
			n.calls++
			n.replies++
		case call.Failed():
			n.calls++
			n.replies++
		case call.Awaited():
			n.calls++
			n.awaited[i] = call.MakesRun()
		}
		switch call.Op {
		case run.OpWait:
			n.wait = &calls[i]
		case run.OpMail:
			n.inbox = nil
		case run.OpKill:
			n.kills = append(n.kills, call.To)
		case run.OpSend:
			n.idle = slices.DeleteFunc(n.idle, func(path string) bool { return path == call.To })
		case run.OpCall, run.OpFork, run.OpReview:
		}
	}
	if n.phase != ending {
		n.phase = waiting
		if n.replies == n.calls || n.wait != nil && t.hasMail(n) {
			n.goOn()
			n.take()
		}
	}
}

// rested ends a turn with an answer. Mail that came during it makes another one
// due.
func (t *Tree) rested(n *node, e client.Event) {
	n.logged(e)
	if n.phase != ending {
		n.phase = resting
		if n.fresh {
			n.phase, n.woken, n.stopped = queued, true, false
		}
	}
	n.fresh = false
}

// mailed notes who has written to a run, which goes on if it waits for that.
func (t *Tree) mailed(n *node, m run.Mail) {
	n.inbox = append(n.inbox, m.From)
	if m.Idle {
		n.idle = append(n.idle, m.From)
	}
	switch {
	case n.phase == resting:
		n.phase, n.woken, n.stopped = queued, true, false
	case n.phase == waiting && n.wait != nil && t.hasMail(n):
		n.phase = queued
		n.take()
	default:
		n.fresh = n.phase != queued
	}
}

// hasMail reports whether there is what a run waits for: anybody's mail, or
// some from each that it names and that has anything to say.
func (t *Tree) hasMail(n *node) bool {
	if len(n.wait.From) == 0 {
		return len(n.inbox) > 0
	}
	return !slices.ContainsFunc(n.wait.From, func(from string) bool {
		path, err := subjects.ParsePath(from)
		peer := t.nodes[path]
		ended := err == nil && peer != nil && peer.phase.ended() || slices.Contains(n.wait.Dead, from) ||
			slices.Contains(n.kills, from)
		return !ended && !slices.Contains(n.idle, from) && !slices.Contains(n.inbox, from)
	})
}

// take ends the wait for mail of the last turn, if it had one.
func (n *node) take() {
	if n.wait == nil {
		return
	}
	wanted := n.wait.From
	n.inbox = slices.DeleteFunc(
		n.inbox,
		func(from string) bool { return len(wanted) == 0 || slices.Contains(wanted, from) },
	)
	n.wait = nil
}

// read empties the inbox of a run that was idle and cannot look for mail: what
// people wrote was given to it as it is.
func (n *node) read() {
	if n.woken && n.blind {
		n.inbox = slices.DeleteFunc(
			n.inbox,
			func(from string) bool { return from != "r" && !strings.HasPrefix(from, "r-") },
		)
	}
	n.woken = false
}

func (t *Tree) end(n *node, e client.Event) {
	o := e.Outcome
	n.took, n.turn = time.Duration(o.DurationMS)*time.Millisecond, o.Turns
	if e.Worker != "" {
		n.worker = e.Worker
	}
	switch {
	case o.Status == run.StatusCompleted:
		n.phase, n.why = done, ""
	case dismissed(o):
		idle := n.rested || n.phase == resting
		n.phase, n.why = cut, withAbove
		if idle {
			// what it was asked to do it had done
			n.phase = done
		}
	case o.Kind == run.KindCancelled || o.Kind == run.KindTimeout:
		n.phase, n.why = cut, o.Error
	default:
		n.phase, n.why = failed, o.Error
	}
	above, turn, index, below := n.path.Parent()
	if !below {
		return
	}
	p := t.at(above)
	switch {
	case n.fork:
		if !p.phase.ended() && !slices.Contains(p.kills, n.path.String()) {
			t.mailed(p, run.Mail{From: n.path.String()})
		}
	case turn == p.answered && p.phase == waiting && index < len(p.awaited) && p.awaited[index]:
		if p.replies++; p.replies >= p.calls {
			p.goOn()
		}
	case turn == p.answered && p.phase == reviewed && p.stopped:
		p.goOn()
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

// status is a run's state in a few words, whether a person has stopped it, and
// whether it has mail that it has not taken.
func (n *node) status(now time.Time) string {
	text := n.doing(now)
	if n.stopped && n.phase < ending {
		text += ", interrupted"
	}
	if len(n.inbox) > 0 && n.phase < ending {
		text += ", got mail"
	}
	return text
}

func (n *node) doing(now time.Time) string {
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
	case resting:
		return "idle"
	case waiting:
		if n.wait != nil {
			return turn + ": " + waitsForMail(*n.wait)
		}
		return turn + ": " + strconv.Itoa(n.replies) + " of " + strconv.Itoa(n.calls) + " calls are back"
	case reviewed:
		return turn + ": " + n.why + " looks at it"
	case held:
		return turn + ": held for a person: " + n.why
	case ending:
		return "ending: " + n.why
	case done:
		if n.why != "" {
			return n.why
		}
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
