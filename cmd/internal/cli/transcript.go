package cli

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// transcript tells a tree as axe does with --verbose: the turns of the root,
// and every sub-agent. The forms of its lines are those of axe's specification,
// 7.5 and 8.7.
type transcript struct {
	w io.Writer
	// of the root, 0 before its first
	turn int
	// what it waits for without an outcome
	left  int
	tools int                     // tool calls of the root's turn
	open  map[subjects.Path]child // sub-agents without one

	stopped bool // the root, by a person

	// of the last turn of each run
	calls map[subjects.Path]int
}

type child struct {
	agent string
	fork  bool // nobody waits for it
	// it is a supervisor: it is no tool's result that is waited for
	review bool
	// for its task, 0 if its caller set no limit of its own
	allowed time.Duration
}

func newTranscript(w io.Writer) *transcript {
	return &transcript{w: w, open: map[subjects.Path]child{}, calls: map[subjects.Path]int{}}
}

func (t *transcript) printf(format string, args ...any) {
	fmt.Fprintln(t.w, Printable(fmt.Sprintf(format, args...)))
}

// apply tells one event.
func (t *transcript) apply(e client.Event) {
	switch e.Kind {
	case client.Called:
		t.called(e)
	case client.Retrying:
		t.retrying(e)
	case client.RateLimited:
		t.waiting(e)
	case client.Answered:
		t.answered(e)
	case client.BecameIdle:
		t.rested(e)
	case client.MailReceived:
		t.mailed(e)
	case client.Asking:
		if e.Run.Path.IsRoot() {
			t.reach(e.Turn)
		}
	case client.ChildEnded:
		t.ended(e.Run.Path, e.Outcome)
	case client.TimedOut:
		t.timedOut(e)
	case client.TreeEnded:
		t.concluded(e.Outcome)
	case client.Held, client.Approved, client.Denied:
		t.decided(e)
	case client.Interrupted:
		t.printf("[supervision] %s is interrupted", e.Run.Path)
		t.stopped = t.stopped || e.Run.Path.IsRoot()
	case client.Cancelled:
	}
}

// decided tells of a turn that somebody has looked at. What it does begins now,
// or never.
func (t *transcript) decided(e client.Event) {
	t.printf("[supervision] %s: %s", e.Run.Path, decision(e))
	switch e.Kind { //nolint:exhaustive // a turn that is held goes on later
	case client.Approved:
		t.carriedOut(e)
	case client.Denied:
		if e.Run.Path.IsRoot() {
			t.goOn()
		}
	}
}

// goOn tells of the root's next request, unless a person has stopped it: then
// there is none until it is written to.
func (t *transcript) goOn() {
	if !t.stopped {
		t.send(t.turn+1, t.tools)
	}
}

func (t *transcript) called(e client.Event) {
	if e.Run.Path.IsRoot() {
		t.send(1, 0)
		return
	}
	// its caller's turn has told its time
	c := t.open[e.Run.Path]
	c.agent, c.fork = e.Run.Agent.String(), e.Input.Forked != nil
	t.open[e.Run.Path] = c
	switch {
	case !c.fork:
		t.printf(
			"[sub-agent] Calling %q (depth %d) with task: %s...",
			c.agent,
			e.Run.Path.Depth(),
			opening(e.Input.Task),
		)
	case e.Input.Forked.Inherit:
		t.printf("[sub-agent] Forked %s of %q, which knows the conversation", e.Run.Path, c.agent)
	default:
		t.printf("[sub-agent] Forked %s of %q with task: %s...", e.Run.Path, c.agent, opening(e.Input.Task))
	}
}

// opening is how a text begins.
func opening(text string) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), 80)])
}

// send tells of a request of the root, which carries so many results.
func (t *transcript) send(turn, results int) {
	t.turn = turn
	t.printf("[turn %d] Sending request (%d messages, %d tool calls pending)", turn, 2*turn-1, results)
}

func (t *transcript) retrying(e client.Event) {
	about := attempt(e.Attempt, e.Attempts, e.Next.Sub(e.Time), e.Reason)
	if e.Run.Path.IsRoot() {
		t.printf("[turn %d] Provider failed, %s", e.Turn, about)
	} else {
		t.printf("[sub-agent] %q: provider failed, %s", e.Run.Agent, about)
	}
}

func (t *transcript) waiting(e client.Event) {
	about := limited(e.Next, e.Time, e.Reason)
	if e.Run.Path.IsRoot() {
		t.printf("[turn %d] It %s", e.Turn, about)
	} else {
		t.printf("[sub-agent] %q %s", e.Run.Agent, about)
	}
}

// reach tells of the request for a turn of the root that was not told yet: what
// a run that waits for mail goes on with has no event of its own.
func (t *transcript) reach(turn int) {
	if turn > t.turn {
		t.stopped = false
		t.send(turn, t.tools)
	}
}

func (t *transcript) answered(e client.Event) {
	root := e.Run.Path.IsRoot()
	if root {
		t.reach(e.Turn)
	}
	t.calls[e.Run.Path] = len(e.Calls)
	if root {
		t.received(e.Stop, e.Tools)
		t.tools = e.Tools
		t.left = 0
	}
	if e.Review == nil {
		t.carriedOut(e)
		return
	}
	t.open[e.Run.Path.Child(e.Turn, len(e.Calls))] = child{agent: e.Review.Agent, review: true}
}

// carriedOut tells what a turn does.
func (t *transcript) carriedOut(e client.Event) {
	root := e.Run.Path.IsRoot()
	for i, c := range e.Calls {
		if root && c.Awaited() {
			t.left++
		}
		switch {
		case c.Failed() && c.Agent == "": // no sub-agent was meant
			t.printf("[turn %d] %s", e.Turn, c.Error)
		case c.Failed():
			t.printf("[sub-agent] %q failed: %s", c.Agent, c.Error)
		case c.MakesRun():
			t.open[e.Run.Path.Child(e.Turn, i)] = child{
				agent:   c.Agent,
				fork:    c.Op == run.OpFork,
				allowed: c.Deadline.Sub(e.Time).Round(time.Second),
			}
		case c.Op == run.OpWait:
			t.printf("[mail] %s %s", e.Run.Path, waitsForMail(c))
		case c.Op == run.OpKill:
			t.printf("[sub-agent] %s kills %s", e.Run.Path, c.To)
		}
	}
	if root && t.left == 0 {
		t.goOn()
	}
}

// rested tells what a fork has answered.
func (t *transcript) rested(e client.Event) {
	if e.Outcome.Status == run.StatusCompleted {
		t.printf("[sub-agent] %s of %q is idle: %s...", e.Run.Path, e.Run.Agent, opening(e.Outcome.Result))
	} else {
		t.printf("[sub-agent] %s of %q is idle, it failed: %s", e.Run.Path, e.Run.Agent, e.Outcome.Error)
	}
}

// mailed tells what was written; that a fork is idle was told.
func (t *transcript) mailed(e client.Event) {
	if !e.Mail.Idle {
		t.printf("[mail] %s to %s: %s...", e.Mail.From, e.Run.Path, opening(e.Mail.Text))
	}
}

func (t *transcript) received(stop string, calls int) {
	t.printf("[turn %d] Received response: %s (%d tool calls)", t.turn, stop, calls)
}

// ended tells how a sub-agent ended. Its caller may have given up on it before:
// then it is late. After the last one that the root waits for, its model is
// asked again.
func (t *transcript) ended(p subjects.Path, o run.Outcome) {
	c, ok := t.open[p]
	if !ok {
		return
	}
	delete(t.open, p)
	who := strconv.Quote(c.agent)
	if c.fork {
		who = p.String() + " of " + who
	}
	switch {
	case o.Status == run.StatusCompleted:
		t.printf("[sub-agent] %s completed in %dms (%d chars returned)", who, o.DurationMS, len([]rune(o.Result)))
	case dismissed(o):
		t.printf("[sub-agent] %s %s", who, withAbove)
	default:
		t.printf("[sub-agent] %s failed: %s", who, o.Error)
	}
	parent, turn, _, _ := p.Parent()
	if parent.IsRoot() && turn == t.turn && !c.fork && !c.review {
		if t.left--; t.left == 0 {
			t.goOn()
		}
	}
}

func (t *transcript) timedOut(e client.Event) {
	for i := range t.calls[e.Run.Path] {
		p := e.Run.Path.Child(e.Turn, i)
		if c, ok := t.open[p]; ok && !c.fork {
			o := run.Failure(run.KindTimeout, "timeout after %ds", int(c.allowed/time.Second))
			if e.Reason != "" {
				o = run.Failure(run.KindCancelled, "%s", e.Reason)
			}
			t.ended(p, o)
		}
	}
}

func (t *transcript) concluded(o run.Outcome) {
	if o.Status == run.StatusCompleted {
		t.reach(o.Turns)
		t.received(o.StopReason, 0)
	}
	t.printf("Duration: %dms", o.DurationMS)
	t.printf("Tokens:   %d input, %d output (cumulative)", o.Usage.InputTokens, o.Usage.OutputTokens)
	if o.Subtree.Runs > 1 {
		t.printf(
			"Subtree:  %d runs, %d input, %d output, %d model calls",
			o.Subtree.Runs,
			o.Subtree.InputTokens,
			o.Subtree.OutputTokens,
			o.Subtree.ModelCalls,
		)
	}
	if o.StopReason != "" {
		t.printf("Stop:     %s", o.StopReason)
	}
}
