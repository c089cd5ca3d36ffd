package subjects

import (
	"fmt"
	"strconv"
	"strings"
)

// DefaultPrefix is the first token of every subject unless configured
// otherwise.
const DefaultPrefix = "axe"

// Space is the subjects under one prefix. The zero value is the space of
// DefaultPrefix.
type Space struct {
	prefix string
	// Spread; 0: the trees are not spread
	parts int
}

// NewSpace makes the space of a prefix: one or more tokens of [A-Za-z0-9_-],
// joined by dots; "" is DefaultPrefix.
func NewSpace(prefix string) (Space, error) {
	if prefix == "" {
		return Space{}, nil
	}
	for tok := range strings.SplitSeq(prefix, ".") {
		if !plain(tok) {
			return Space{}, fmt.Errorf(
				"subject prefix %s: %w: want tokens of A-Z a-z 0-9 _ - joined by dots",
				quote(prefix),
				ErrToken,
			)
		}
	}
	return Space{prefix: prefix}, nil
}

// Prefix is the space's first token or tokens.
func (s Space) Prefix() string {
	if s.prefix == "" {
		return DefaultPrefix
	}
	return s.prefix
}

// Name is the name of a stream or bucket of this space: AXE_RUNS for "RUNS"
// under the default prefix.
func (s Space) Name(what string) string {
	return strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(s.Prefix())) + "_" + what
}

func (s Space) join(tokens ...string) string {
	// of as many as a subject has, without an allocation
	var all [10]string
	return strings.Join(append(append(all[:0], s.Prefix()), tokens...), ".")
}

// Submit is where a task for an agent is published; the id becomes the tree's.
func (s Space) Submit(a Agent, id Tree) string { return s.join("submit", a.s, id.s) }

// Submissions matches every task from outside.
func (s Space) Submissions() string { return s.join("submit", ">") }

// Runs matches every message of every run.
func (s Space) Runs() string { return s.any("run", ">") }

// Results matches the outcome of every root.
func (s Space) Results() string { return s.any("result", ">") }

// Timers matches every schedule.
func (s Space) Timers() string { return s.any("timer", ">") }

// Tally is where the use of a run and all below it is counted, if it is
// bounded.
func (s Space) Tally(t Tree, p Path) string { return s.of(t, "tally", t.s, p.s) }

// Dead matches every copy of what could not be carried out.
func (s Space) Dead() string { return s.any("dead", ">") }

// All matches every subject of the space's streams of runs.
func (s Space) All() string { return s.any(">") }

// LiveAll is what they are republished to.
func (s Space) LiveAll() string { return s.join("live", ">") }

// Live is the subject under which the stored message of another subject is
// republished.
func (s Space) Live(subject string) string {
	rest, _, _ := s.unprefixed(subject)
	return s.join("live", rest)
}

// Result is where a root's outcome is stored.
func (s Space) Result(a Agent, t Tree) string { return s.of(t, "result", a.s, t.s) }

// ResultOf matches a tree's outcome, whatever its root's agent.
func (s Space) ResultOf(t Tree) string { return s.of(t, "result", "*", t.s) }

// TreeOf matches every message of a tree's runs.
func (s Space) TreeOf(t Tree) string { return s.of(t, "run", "*", t.s, ">") }

// SubmissionOf matches the submission of a tree, whatever its root's agent.
func (s Space) SubmissionOf(t Tree) string { return s.join("submit", "*", t.s) }

// PartsOf matches what is told of the progress of a tree's runs.
func (s Space) PartsOf(t Tree) string { return s.join("live", "part", "*", t.s, "*") }

// CallOf matches the call of a run of a tree, whatever its agent.
func (s Space) CallOf(t Tree, p Path) string { return s.of(t, "run", "*", t.s, p.s, "call") }

// EndsOf matches what ends a run of a tree, whatever its agent: its tombstone,
// and its outcome where its caller finds it.
func (s Space) EndsOf(t Tree, p Path) []string {
	ends := []string{s.of(t, "run", "*", t.s, p.s, "cancel"), s.ResultOf(t)}
	if parent, turn, index, below := p.Parent(); below {
		ends[1] = s.of(t, "run", "*", t.s, parent.s, "in", strconv.Itoa(turn), strconv.Itoa(index))
	}
	return ends
}

// RootCallOf matches the call of a tree's root, whatever its agent.
func (s Space) RootCallOf(t Tree) string { return s.CallOf(t, Root) }

// Calls matches the calls of one agent.
func (s Space) Calls(a Agent) string { return s.any("run", a.s, "*", "*", "call") }

// Inbound matches what is said to the runs of one agent: outcomes, timers,
// mail, and tombstones.
func (s Space) Inbound(a Agent) []string {
	return []string{s.any("run", a.s, "*", "*", "in", "*", "*"), s.any("run", a.s, "*", "*", "cancel")}
}

// Interrupts matches what wants runs to stop what they are doing.
func (s Space) Interrupts() string { return s.any("run", "*", "*", "*", "in", "interrupt", "*") }

// RootEnds matches what ends a root though no worker serves its agent: its
// deadline and its tombstone.
func (s Space) RootEnds() []string {
	return []string{s.any("run", "*", "*", Root.s, "in", "timer", "0"), s.any("run", "*", "*", Root.s, "cancel")}
}

// Cancels matches the tombstone of every run.
func (s Space) Cancels() string { return s.any("run", "*", "*", "*", "cancel") }

// DeadOf matches the copies of what could not be carried out for a tree.
func (s Space) DeadOf(t Tree) string { return s.of(t, "dead", "*", t.s, "*") }

// DeadSubmission is where a submission goes that has no usable name or id.
func (s Space) DeadSubmission(key Tree) string { return s.of(key, "dead", "submit", key.s, Root.s) }

// Run addresses one run.
func (s Space) Run(a Agent, t Tree, p Path) Run { return Run{s, a, t, p} }

// Run is the address of one run in a space. It is comparable.
type Run struct {
	Space Space
	Agent Agent
	Tree  Tree
	Path  Path
}

func (r Run) join(kind string, rest ...string) string {
	var all [8]string
	return r.Space.of(r.Tree, append(append(all[:0], kind, r.Agent.s, r.Tree.s, r.Path.s), rest...)...)
}

// Partition is that of the run's tree.
func (r Run) Partition() int { return r.Space.PartitionOf(r.Tree) }

// String is the run's subject prefix without the space, for logs.
func (r Run) String() string { return r.Agent.s + "." + r.Tree.s + "." + r.Path.s }

// All matches every message of the run.
func (r Run) All() string { return r.join("run", ">") }

// Owns reports whether a subject is one that All matches, well-formed or not.
func (r Run) Owns(subject string) bool {
	return strings.HasPrefix(subject, r.join("run")+".")
}

// Call is the request to run.
func (r Run) Call() string { return r.join("run", "call") }

// Log is the run's own history.
func (r Run) Log() string { return r.join("run", "log") }

// Cancel is the run's tombstone.
func (r Run) Cancel() string { return r.join("run", "cancel") }

// Reply is where the outcome of the index-th call of a turn arrives.
func (r Run) Reply(turn, index int) string {
	return r.join("run", "in", strconv.Itoa(turn), strconv.Itoa(index))
}

// Mail is where others write to the run.
func (r Run) Mail(k Key) string { return r.join("run", "in", "mail", k.s) }

// Interrupt is where a person wants the run to stop what it is doing.
func (r Run) Interrupt(k Key) string { return r.join("run", "in", "interrupt", k.s) }

// Approve is where a person has a word on what the run is about to do.
func (r Run) Approve(k Key) string { return r.join("run", "in", "approve", k.s) }

// Replies matches the outcomes of all calls.
func (r Run) Replies() string { return r.join("run", "in", ">") }

// Fired is where the timer of a turn fires; turn 0 is the run's own deadline.
func (r Run) Fired(turn int) string { return r.join("run", "in", "timer", strconv.Itoa(turn)) }

// Timer is the schedule that fires into Fired(turn).
func (r Run) Timer(turn int) string { return r.join("timer", strconv.Itoa(turn)) }

// Dead is where a copy of a poisoned trigger goes.
func (r Run) Dead() string { return r.join("dead") }

// Progress is where a run's progress is told to who watches; it is not stored.
func (r Run) Progress() string {
	return r.Space.join("live", "part", r.Agent.s, r.Tree.s, r.Path.s)
}
