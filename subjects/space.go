package subjects

import (
	"fmt"
	"strconv"
	"strings"
)

// DefaultPrefix is the first token of every subject unless configured
// otherwise.
const DefaultPrefix = "axe"

// Space is all subjects under one prefix. The zero value is the space of
// DefaultPrefix.
type Space struct {
	prefix string
	// parts is the number of partitions, 0 if the space is not spread.
	parts int
}

// NewSpace makes the space of a prefix. A prefix is one or more tokens of
// [A-Za-z0-9_-], joined by dots. An empty one is DefaultPrefix.
func NewSpace(prefix string) (Space, error) {
	if prefix == "" {
		return Space{}, nil
	}
	for tok := range strings.SplitSeq(prefix, ".") {
		if !plain(tok) {
			return Space{}, fmt.Errorf("subject prefix %s: %w: want tokens of A-Z a-z 0-9 _ - joined by dots",
				quote(prefix), ErrToken)
		}
	}
	return Space{prefix: prefix}, nil
}

// Prefix is the beginning of every subject of the space.
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
	// The array holds the tokens of any subject without an allocation.
	var all [10]string
	return strings.Join(append(append(all[:0], s.Prefix()), tokens...), ".")
}

// Submit is the subject of a submission to an agent. The id becomes the tree's
// id.
func (s Space) Submit(a Agent, id Tree) string { return s.join("submit", a.s, id.s) }

// Submissions matches every submission.
func (s Space) Submissions() string { return s.join("submit", ">") }

// Runs matches every message of every run.
func (s Space) Runs() string { return s.any("run", ">") }

// Results matches the outcome of every root.
func (s Space) Results() string { return s.any("result", ">") }

// Timers matches every schedule.
func (s Space) Timers() string { return s.any("timer", ">") }

// TimersOf matches every schedule of a tree.
func (s Space) TimersOf(t Tree) string { return s.of(t, "timer", "*", t.s, ">") }

// Tally is the subject of the tally of a scope: the run at p and all runs below
// it.
func (s Space) Tally(t Tree, p Path) string { return s.of(t, "tally", t.s, p.s) }

// Dead matches every dead letter.
func (s Space) Dead() string { return s.any("dead", ">") }

// All matches every subject of the space's streams of runs.
func (s Space) All() string { return s.any(">") }

// LiveAll matches every live subject. The streams of runs republish all their
// messages there.
func (s Space) LiveAll() string { return s.join("live", ">") }

// Live is the subject under which a stored message is republished.
func (s Space) Live(subject string) string {
	rest, _, _ := s.unprefixed(subject)
	return s.join("live", rest)
}

// Result is the subject of a root's outcome.
func (s Space) Result(a Agent, t Tree) string { return s.of(t, "result", a.s, t.s) }

// ResultOf matches the outcome of a tree, of any agent.
func (s Space) ResultOf(t Tree) string { return s.of(t, "result", "*", t.s) }

// TreeOf matches every message of a tree's runs.
func (s Space) TreeOf(t Tree) string { return s.of(t, "run", "*", t.s, ">") }

// SubmissionOf match the submission of a tree, to any agent, of any sender.
func (s Space) SubmissionOf(t Tree) []string { return s.Run(Agent{anyToken}, t, Root).AnySubmit() }

// PartsOf matches the progress of all runs of a tree.
func (s Space) PartsOf(t Tree) string { return s.join("live", "part", "*", t.s, "*") }

// CallOf matches the call of the run at p, of any agent.
func (s Space) CallOf(t Tree, p Path) string { return s.of(t, "run", "*", t.s, p.s, "call") }

// ToolCallOf matches the call of the tool run at p, of any agent or toolset.
func (s Space) ToolCallOf(t Tree, p Path) string { return s.of(t, "run", "*", t.s, p.s, "tool") }

// Calls matches the calls of one agent, except those of its tools.
func (s Space) Calls(a Agent) string { return s.any("run", a.s, "*", "*", "call") }

// RootCalls matches the calls of roots: of one agent or, for the zero Agent, of
// all.
func (s Space) RootCalls(a Agent) string { return s.any("run", orAny(a), "*", Root.s, "call") }

// RootTimers matches the timers of the deadlines of roots: of one agent or, for
// the zero Agent, of all. A root that has not ended has one.
func (s Space) RootTimers(a Agent) string { return s.any("timer", orAny(a), "*", Root.s, "0") }

// ResultsBy matches the outcomes of roots: of one agent or, for the zero Agent,
// of all.
func (s Space) ResultsBy(a Agent) string { return s.any("result", orAny(a), "*") }

// RepliesOfAll matches the outcomes of all runs below a root, and the mail,
// timers and decisions of all runs.
func (s Space) RepliesOfAll() string { return s.any("run", "*", "*", "*", "in", "*", "*") }

// orAny is the name of an agent, or the wildcard for the zero Agent.
func orAny(a Agent) string {
	if a.IsZero() {
		return "*"
	}
	return a.s
}

// Inbound matches the messages of work under way at one agent: all messages to
// its runs, of any sender, with cancel messages, and the calls of its tools.
func (s Space) Inbound(a Agent) []string {
	in := s.any("run", a.s, "*", "*", "in", "*", "*")
	return []string{
		in, anyBy.On(in), s.any("run", a.s, "*", "*", "cancel"),
		s.any("run", a.s, "*", "*", "tool"),
	}
}

// Triggers matches all calls and all messages to runs, of all agents.
func (s Space) Triggers() []string {
	in := s.any("run", "*", "*", "*", "in", "*", "*")
	return []string{
		s.any("run", "*", "*", "*", "call"), s.any("run", "*", "*", "*", "tool"), in, anyBy.On(in), s.Cancels(),
	}
}

// Interrupts match every interrupt, of any sender.
func (s Space) Interrupts() []string {
	in := s.any("run", "*", "*", "*", "in", "interrupt", "*")
	return []string{in, anyBy.On(in)}
}

// RootEnds matches the messages that end a root also while no worker serves its
// agent: its deadline and its cancel message.
func (s Space) RootEnds() []string {
	return []string{s.any("run", "*", "*", Root.s, "in", "timer", "0"), s.any("run", "*", "*", Root.s, "cancel")}
}

// DueTimers matches every timer of a turn that has fired.
func (s Space) DueTimers() string { return s.any("run", "*", "*", "*", "due", "*") }

// Cancels matches the cancel message of every run.
func (s Space) Cancels() string { return s.any("run", "*", "*", "*", "cancel") }

// PartsOfTree match all stored messages of a tree. The result is the last one.
func (s Space) PartsOfTree(t Tree) []string {
	return []string{
		s.TreeOf(t), s.TimersOf(t), s.of(t, "tally", t.s, "*"), s.of(t, "dead", "*", t.s, "*"), s.ResultOf(t),
	}
}

// DeadSubmission is the subject of the dead letter of a submission without a
// valid agent or id.
func (s Space) DeadSubmission(key Tree) string { return s.of(key, "dead", "submit", key.s, Root.s) }

// Worker is the subject of requests to a worker.
func (s Space) Worker(w Worker) string { return s.join("worker", w.s) }

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

// At is the run of an agent at a path of the same tree. The error says why the
// name is none of an agent.
func (r Run) At(agent string, p Path) (Run, error) {
	a, err := ParseAgent(agent)
	return Run{r.Space, a, r.Tree, p}, err
}

// Partition is the partition of the run's tree.
func (r Run) Partition() int { return r.Space.PartitionOf(r.Tree) }

// String is the run's subject prefix without the space, for logs.
func (r Run) String() string { return r.Agent.s + "." + r.Tree.s + "." + r.Path.s }

// All matches every message of the run.
func (r Run) All() string { return r.join("run", ">") }

// Owns reports whether a subject is one that All matches, well-formed or not.
func (r Run) Owns(subject string) bool {
	return strings.HasPrefix(subject, r.join("run", ""))
}

// Call is the subject of the request to run.
func (r Run) Call() string { return r.join("run", "call") }

// ToolCall is the subject of the request to run a tool.
func (r Run) ToolCall() string { return r.join("run", "tool") }

// Log is the subject of the run's own record.
func (r Run) Log() string { return r.join("run", "log") }

// Cancel is the subject of the run's cancel message. By.On(Cancel()) is that of
// the record of its sender.
func (r Run) Cancel() string { return r.join("run", "cancel") }

// Cancels reports whether a subject is that of the cancel message, or of a
// record of its sender.
func (r Run) Cancels(subject string) bool {
	a, err := r.Space.Parse(subject)
	return err == nil && a.Run == r && (a.Kind == Cancel || a.Kind == CancelBy)
}

// CancelSenders matches the records of the senders of the cancel message.
func (r Run) CancelSenders() string { return anyBy.On(r.Cancel()) }

// Reply is the reply subject of the index-th call of a turn.
func (r Run) Reply(turn, index int) string {
	return r.join("run", "in", strconv.Itoa(turn), strconv.Itoa(index))
}

// Mail is the subject of a message to the run from another run or a person.
func (r Run) Mail(k Key) string { return r.join("run", "in", "mail", k.s) }

// Interrupt is the subject of a person's interrupt.
func (r Run) Interrupt(k Key) string { return r.join("run", "in", "interrupt", k.s) }

// Approve is the subject of a person's decision about a held turn.
func (r Run) Approve(k Key) string { return r.join("run", "in", "approve", k.s) }

// Settle is the subject of a person's decision about a held tool run.
func (r Run) Settle(k Key) string { return r.join("run", "in", "settle", k.s) }

// Returned is the subject of a worker's return of a delivery.
func (r Run) Returned(k Key) string { return r.join("run", "in", "returned", k.s) }

// Replies matches the outcomes of all calls, and all other messages to the run
// except its call and its cancel message.
func (r Run) Replies() string { return r.join("run", "in", ">") }

// Fired is the subject of the message that a turn's time is over. The timer of
// the run's own deadline, with turn 0, fires into it.
func (r Run) Fired(turn int) string { return r.join("run", "in", "timer", strconv.Itoa(turn)) }

// Due is the subject that the timer of a turn fires into.
func (r Run) Due(turn int) string { return r.join("run", "due", strconv.Itoa(turn)) }

// Timer is the subject of a turn's timer or, with turn 0, of the run's own.
func (r Run) Timer(turn int) string { return r.join("timer", strconv.Itoa(turn)) }

// Dead is the subject of the run's dead letter.
func (r Run) Dead() string { return r.join("dead") }

// Progress is the subject of the run's progress. Its messages are ephemeral.
func (r Run) Progress() string {
	return r.Space.join("live", "part", r.Agent.s, r.Tree.s, r.Path.s)
}
