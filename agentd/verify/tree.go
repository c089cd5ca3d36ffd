package verify

import (
	"fmt"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// tree is what is known of one tree.
type tree struct {
	id   subjects.Tree
	runs map[place]*node
	// as calls below each path have them; nil if there are none
	bounds map[subjects.Path]subjects.Budget
	// the first tombstone on each path; nil while there is none
	tombs map[subjects.Path]uint64
}

// place is a run within its tree.
type place struct {
	agent subjects.Agent
	path  subjects.Path
}

// node is what is known of one run.
type node struct {
	tree *tree
	place
	state run.State // without texts
	call  uint64    // its sequence, 0: not called
	// that has called it, nil for a root
	up       *node
	bad      error // why the call cannot be run
	deadline time.Time
	maxDepth int
	moved    time.Time // when the last event was folded
	// what was stored in the run's subjects besides its log, until its end
	triggers []uint64
	// by their keys: the first of each
	letters map[string]uint64
	// the turns after which it was idle since a person had stopped it
	stops   []int
	overdue bool   // the run's own deadline has fired
	cancel  uint64 // its tombstone
	logEnd  uint64 // the entry that ended it
	end     *end   // its first outcome
	// its log cannot be folded: what rests on the fold is not checked
	broken bool
	// it went on without an outcome that it needed
	hasty bool
	// a message of it was given up
	buried bool
}

// end is a run's first outcome.
type end struct {
	seq    uint64
	status run.Status
	kind   run.Kind
	worker string
}

// node finds a run, or makes one that nothing is known of.
func (c *Checker) node(r subjects.Run) *node {
	t := c.trees[r.Tree]
	if t == nil {
		t = &tree{id: r.Tree, runs: map[place]*node{}}
		c.trees[r.Tree] = t
	}
	at := place{r.Agent, r.Path}
	n := t.runs[at]
	if n == nil {
		n = &node{tree: t, place: c.once(at)}
		t.runs[n.place] = n
	}
	return n
}

// once is a place that does not keep the subject which it was parsed from.
func (c *Checker) once(at place) place {
	if known, ok := c.places[at]; ok {
		return known
	}
	c.places[at] = at
	return at
}

func (c *Checker) run(n *node) subjects.Run { return c.cfg.Space.Run(n.agent, n.tree.id, n.path) }

// waits says what a run waits for that its model may not be asked, "" if it
// does not. Nothing but its log makes a run wait whose model may be asked, and
// the log fences answers: one that is stored meanwhile is no race's.
func (n *node) waits() string {
	switch n.state.Phase {
	case run.Awaiting:
		return fmt.Sprintf(
			"%d calls of turn %d have neither an outcome nor timed out",
			n.state.Pending(),
			len(n.state.Turns),
		)
	case run.Held:
		return fmt.Sprintf("turn %d waits for a person to approve of it", len(n.state.Turns))
	case run.Idle:
		return "it is idle and nobody has written to it"
	case run.None, run.Ready, run.Completed, run.Failed:
	}
	return ""
}

// decision is what the log has decided about a call; ok is false if there is no
// such call on it.
func (n *node) decision(turn, index int) (_ *run.Call, ok bool) {
	if turn < 1 || turn > len(n.state.Turns) {
		return nil, false
	}
	e := n.state.Turns[turn-1].Entry
	calls := e.Calls
	if index == len(calls) && e.Review != nil {
		return e.Review, true
	}
	if index < 0 || index >= len(calls) {
		return nil, false
	}
	return &calls[index], true
}

// unpublished lists the calls of the current turn that are due and were not
// published.
func (n *node) unpublished() []run.Child {
	var missing []run.Child
	for _, e := range n.state.Outstanding().All() {
		call, ok := e.(run.CallChildren)
		if !ok {
			continue
		}
		for _, child := range call.Children {
			if c := n.child(call.Turn, child); c == nil || c.call == 0 {
				missing = append(missing, child)
			}
		}
	}
	return missing
}

// child is the run of a call, nil if nothing is known of it.
func (n *node) child(turn int, c run.Child) *node {
	agent, err := subjects.ParseAgent(c.Call.Agent)
	if err != nil {
		return nil
	}
	return n.tree.runs[place{agent, n.path.Child(turn, c.Index)}]
}

// caller is the run that a called run answers, nil for a root and for one that
// nobody called.
func (n *node) caller(agent subjects.Agent) *node {
	path, _, _, below := n.path.Parent()
	if !below {
		return nil
	}
	return n.tree.runs[place{agent, path}]
}

// covered reports whether a tombstone stored before seq is on a run's path or
// above it.
func (n *node) covered(seq uint64) bool {
	for p, at := range n.tree.tombs {
		if at < seq && p.Covers(n.path) {
			return true
		}
	}
	return false
}

// stopped is a tombstone over the run that the writer of an entry or outcome
// knew, 0 if there is none.
func (n *node) stopped(known uint64) uint64 {
	for p, at := range n.tree.tombs {
		if at <= known && p.Covers(n.path) {
			return at
		}
	}
	return 0
}
