package verify

import (
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// tree is the knowledge about one tree.
type tree struct {
	id   subjects.Tree
	runs map[place]*node
	// budgets are the budgets in the calls' headers, by the scope's path;
	// nil if there are none.
	budgets map[subjects.Path]subjects.Budget
	// cancels has the first cancel message on each path; nil if there are
	// none.
	cancels map[subjects.Path]uint64
	// oldest is the time at which the server stored the tree's oldest
	// message that was seen.
	oldest time.Time
}

// place is a run within its tree.
type place struct {
	agent subjects.Agent
	path  subjects.Path
}

// node is the knowledge about one run.
type node struct {
	tree *tree
	place
	// state is the run's fold, without texts.
	state run.State
	// call is the sequence of the call, 0 if the run was not called.
	call uint64
	// parent is the run that has called it. It is nil for a root, for a
	// call that cannot be carried out, and if no message of the caller was
	// seen.
	parent *node
	// callErr says why the call cannot be carried out, nil if it can.
	callErr  error
	deadline time.Time
	maxDepth int
	// callShift and entryShift are the steps of the server's clock since
	// the call and since the last log entry.
	callShift  time.Duration
	entryShift time.Duration
	// movedAt is the time of the last event that was folded.
	movedAt time.Time
	// triggers are the sequences of the messages that may be the trigger of
	// a log entry. They are dropped when the run ends.
	triggers []uint64
	// mailAt has the sequence of the first message under each mail key.
	mailAt map[string]uint64
	// interrupted are the turns after which the run was idle because a
	// person interrupted it.
	interrupted []int
	// overdue says that the timer of the run's own deadline has fired. It
	// may have fired early. The timer of a poll does not count.
	overdue bool
	// cancelled is the sequence of the run's cancel message, 0 if there is
	// none.
	cancelled uint64
	// logEnd is the sequence of the entry that ended the run, 0 if there is
	// none.
	logEnd uint64
	// end is the run's first outcome, nil if there is none.
	end *end
	// refused are the outcomes of its calls that do not count, unless the
	// next log entry says otherwise.
	refused []refused
	// broken says that the run's state is not known any more. Nothing that
	// rests on the fold is checked then.
	broken bool
	// skippedWait says that the run went on without an outcome that it
	// needed.
	skippedWait bool
	// deadLetter says that a message of the run was given up.
	deadLetter bool
}

// refused is an outcome of a call that does not count.
type refused struct {
	event   run.Replied
	message Message
}

// end is a run's first outcome.
type end struct {
	seq    uint64
	status run.Status
	kind   run.Kind
	worker string
}

// node finds a run, or makes one without any knowledge.
func (c *Checker) node(r subjects.Run) *node {
	t := c.trees[r.Tree]
	if t == nil {
		t = &tree{id: r.Tree, runs: map[place]*node{}}
		c.trees[r.Tree] = t
	}
	at := place{r.Agent, r.Path}
	n := t.runs[at]
	if n == nil {
		n = &node{tree: t, place: shared(at)}
		t.runs[n.place] = n
	}
	return n
}

// run returns the address of a node's run.
func (c *Checker) run(n *node) subjects.Run { return c.cfg.Space.Run(n.agent, n.tree.id, n.path) }

// awaits says what an awaiting, held or idle run waits for, "" for a run in any
// other phase. Only the log turns a ready run into a waiting one, and the log
// fences answers. So no race explains an answer that is stored while the run
// waits.
func (n *node) awaits() string {
	switch n.state.Phase {
	case run.Awaiting:
		const text = "%d calls of turn %d have no outcome and have not timed out"
		return fmt.Sprintf(text, n.state.Pending(), len(n.state.Turns))
	case run.Held:
		if n.state.Hold != nil {
			return "a person has to settle its call, or to answer its tool"
		}
		return fmt.Sprintf("turn %d waits for a person to approve it", len(n.state.Turns))
	case run.Idle:
		return "it is idle, and no message has come"
	case run.None, run.Ready, run.Polling, run.Completed, run.Failed:
	}
	return ""
}

// decision finds a call on the log; ok is false if there is none.
func (n *node) decision(turn, index int) (_ *run.Call, ok bool) {
	if turn < 1 || turn > len(n.state.Turns) {
		return nil, false
	}
	e := n.state.Turns[turn-1].Entry
	if index == len(e.Calls) && e.Review != nil {
		return e.Review, true
	}
	if index < 0 || index >= len(e.Calls) {
		return nil, false
	}
	return &e.Calls[index], true
}

// due lists the calls of the current turn that are due and have no outcome. It
// lists none for an interrupted run.
func (n *node) due() []run.Child {
	call, _ := n.state.Outstanding().Then.(run.CallChildren)
	return call.Children
}

// unpublished lists the calls of the current turn that are due and were not
// published.
func (n *node) unpublished() []run.Child {
	return slices.DeleteFunc(n.due(), func(child run.Child) bool {
		c := n.child(len(n.state.Turns), child.Index, child.Call.Agent)
		return c != nil && c.call != 0
	})
}

// child finds the run of a call of an agent, nil if no message of it was seen.
func (n *node) child(turn, index int, agent string) *node {
	a, _ := subjects.ParseAgent(agent) // no run has the zero agent
	return n.tree.runs[place{a, n.path.Child(turn, index)}]
}

// cancelUpTo returns the lowest sequence of a cancel message that covers the
// run, 0 if there is none up to seq.
func (n *node) cancelUpTo(seq uint64) (lowest uint64) {
	for p, at := range n.tree.cancels {
		if at <= seq && p.Covers(n.path) && (lowest == 0 || at < lowest) {
			lowest = at
		}
	}
	return lowest
}
