package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// Tree holds the latest state of each run of a tree, as its events report it.
// It decides nothing about a run: Lines draws the states.
type Tree struct {
	nodes map[subjects.Path]*node
	root  *node
}

// node is one run of a tree, or a call that was refused before it made a run.
type node struct {
	path  subjects.Path
	agent string
	// task is the beginning of the run's task.
	task string
	// tree is the id of the root's tree, if a person can use it.
	tree string
	// state is the run's state until the run has ended.
	state run.State
	// progress is the last live report. It counts if it is about a turn
	// that the state does not have yet.
	progress run.Progress
	worker   string
	// model is the model of the run, empty if it is not known.
	model string
	// retries is the number of failed requests that were made again, of a
	// run that has ended.
	retries int
	// request is the last request to the run's model that is known.
	request  request
	takeover takeover
	// stalled says why no worker goes on with the run, empty if one may.
	stalled string
	// cancelled reports whether the run has a cancel message.
	cancelled bool
	// wasIdle reports whether the run was idle before it was ended.
	wasIdle bool
	// refusal says why the call made no run.
	refusal string
	// ended holds the end of the run, nil before.
	ended *ending
	// below holds the children in the order of turns and calls.
	below []*node
}

// ending is the part of an outcome that the drawing shows.
type ending struct {
	mark   mark
	text   string
	took   time.Duration
	tokens int
}

// Apply adds an event. Late and repeated events change nothing.
func (t *Tree) Apply(e client.Event) {
	n := t.at(e.Run.Path)
	if e.Kind != client.Cancelled || n.agent == "" {
		n.agent = runName(e)
	}
	if n.ended != nil {
		return
	}
	n.update(e.State)
	n.stalled = ""
	if e.Kind == client.Stalled {
		n.stalled = e.Reason
		return
	}
	if e.Live() {
		n.report(e)
		return
	}
	n.noteTakeover(e)
	if e.Worker != "" {
		n.worker = e.Worker
	}
	switch e.Kind { //nolint:exhaustive // the state says the rest
	case client.Called:
		n.task = title(e)
		if n == t.root && !e.Run.Tree.IsZero() {
			n.tree = e.Run.Tree.String()
		}
	case client.Answered, client.Approved:
		t.refuse(n, e)
	case client.Cancelled:
		n.cancelled = true
	case client.ChildEnded:
		above, _, _, _ := n.path.Parent()
		t.at(above).update(e.Caller)
		n.end(e.Outcome)
	case client.TreeEnded:
		n.end(e.Outcome)
	}
}

// update replaces the state of a run.
func (n *node) update(s run.State) {
	if n.ended != nil {
		return
	}
	if !s.Ended() {
		n.wasIdle = s.Phase == run.Idle
	}
	n.state = s
	if start := s.Start(); start != nil {
		n.model = start.Model
	}
}

// report keeps a live report, unless it is late.
func (n *node) report(e client.Event) {
	if e.Progress.Turn > len(n.state.Turns) {
		n.noteTakeover(e)
		n.progress = e.Progress
		n.worker = e.Worker
	}
}

// refuse shows each call of a turn that was refused at once as a failed run.
func (t *Tree) refuse(n *node, e client.Event) {
	turns := n.state.Turns
	if len(turns) == 0 || !turns[len(turns)-1].CarriedOut() {
		return
	}
	for i, call := range e.Entry.Calls {
		if refusedRun(call) {
			below := t.at(n.path.Child(e.Turn, i))
			below.agent = call.Agent
			below.task = firstWords(call.Task)
			below.refusal = call.Error
		}
	}
}

// isDone reports whether the run ended with its task done.
func (n *node) isDone() bool { return n.ended != nil && n.ended.mark == markDone }

// end keeps the parts of a run's outcome that the drawing shows.
func (n *node) end(o run.Outcome) {
	n.ended = &ending{
		mark: markFailed, text: o.Error, took: time.Duration(o.DurationMS) * time.Millisecond, tokens: tokens(o.Usage),
	}
	switch {
	case o.Status == run.StatusCompleted:
		n.ended.mark, n.ended.text = markDone, turnsTaken(o.Turns)
	case o.Reason == run.ReasonParentAnswered && n.wasIdle:
		// an idle fork has done its task
		n.ended.mark, n.ended.text = markDone, endedWithParent
	case o.Reason == run.ReasonParentAnswered:
		n.ended.mark, n.ended.text = markCut, endedWithParent
	case o.Kind == run.KindCancelled || o.Kind == run.KindTimeout:
		n.ended.mark = markCut
	}
	n.model, n.retries = cmp.Or(o.Model, n.model), o.Retries
	n.state = run.State{}
}

// tokens returns the tokens that the run and all runs below it are known to
// have used.
func (n *node) tokens() int {
	sum := tokens(n.state.Turns.Totals().Usage)
	if n.ended != nil {
		sum = n.ended.tokens
	}
	for _, b := range n.below {
		sum += b.tokens()
	}
	return sum
}

func tokens(u provider.Usage) int { return u.InputTokens + u.OutputTokens }

// at returns the node of a path. It makes the node, and those above it, if need
// be.
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
	return cmp.Or(aTurn-bTurn, aIndex-bIndex)
}

// title returns the beginning of a called run's task. For a review it names the
// turn under review.
func title(e client.Event) string {
	if _, turn, _, _ := e.Run.Path.Parent(); e.Input.Review {
		return fmt.Sprintf("reviews turn %d", turn)
	}
	if t := e.Input.Tool; t != nil {
		return firstWords(subject(*t))
	}
	return firstWords(e.Input.Task)
}

// runName returns the name under which people know the run of an event: its
// agent, or its tool.
func runName(e client.Event) string {
	if t := e.State.Input.Tool; t != nil && t.Name != "" {
		return t.Name
	}
	return cmp.Or(e.Outcome.Tool, e.Run.Agent.String())
}

// subject returns the argument that says most about a call of a tool. Without a
// usual one it is all arguments.
func subject(t run.ToolInput) string {
	arguments := provider.NewToolCall("", t.Name, t.Arguments).Arguments
	for _, name := range []string{"command", "path", "pattern", "url", "query"} {
		if text := arguments[name]; text != "" {
			return text
		}
	}
	return string(t.Arguments)
}

// firstWords returns the beginning of a text on one line.
func firstWords(s string) string {
	words := strings.Join(strings.Fields(text.Head(s, 1<<10)), " ")
	first := opening(words)
	if first != words {
		first += "…"
	}
	return Printable(first)
}

// Printable returns a text on one line, without characters that control a
// terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control):
			return -1
		}
		return r
	}, s)
}
