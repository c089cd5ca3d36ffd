package verify

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unique"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// Message is one message of the stream.
type Message struct {
	Subject string
	Seq     uint64
	Time    time.Time
	// Shift is the sum of the steps of the server's clock since the message
	// was stored.
	Shift time.Duration
	// Header returns the value of a header, "" if there is none. A nil
	// Header has no values.
	Header func(name string) string
	Body   []byte
	// Unproven says that the message does not prove the user that ends its
	// subject.
	Unproven bool
	// Answer says that the message is an answer of the server to a request
	// for a read. It is no message to a run.
	Answer bool
	// Gone says that the body was stored by reference, and was removed.
	Gone bool
	// Fenced says that the writer expected a last message of a subject.
	Fenced bool
	// Fence is the sequence of that last message, 0 for none.
	Fence uint64
}

// Config describes the stream. The zero value works.
type Config struct {
	Space subjects.Space
	// Slack is the difference that is allowed between clocks, and for the
	// last writes of a run.
	Slack time.Duration
	// Takeover is the time for which something may be missing, besides
	// Slack. Another worker continues the runs of one that died, but only
	// after its lease has ended. 0 is DefaultTakeover.
	Takeover time.Duration
	// First are the streams' first sequences, by partition. A sequence
	// above 1 says that the stream has forgotten the messages before.
	First []uint64
	// Aged are the times before which the streams may have dropped messages
	// for their age, by partition. A message that is gone and was stored
	// later was removed. Without such a time every message may have been
	// dropped for its age.
	Aged []time.Time
	// Refuses says why a message does not count as the outcome of a run, ""
	// if it does: outcomes have to be signed. Without it each one counts.
	Refuses func(of subjects.Run, m Message) (why string)
}

// aged is the time before which a tree's stream may have dropped messages for
// their age; ok is false if it is not known.
func (c Config) aged(t subjects.Tree) (at time.Time, ok bool) {
	if p := c.Space.PartitionOf(t); p < len(c.Aged) {
		return c.Aged[p], true
	}
	return at, false
}

// first is the first sequence of a tree's stream.
func (c Config) first(t subjects.Tree) uint64 {
	if p := c.Space.PartitionOf(t); p < len(c.First) {
		return c.First[p]
	}
	return 0
}

// DefaultTakeover is three leases of 10 s, since a worker may die while it
// takes over from a dead one.
const DefaultTakeover = 30 * time.Second

// Checker checks the messages that it is fed. It is for one goroutine.
type Checker struct {
	cfg      Config
	messages int
	trees    map[subjects.Tree]*tree
	remarks  []remark
	named    []named
	// wasted counts the requests of Report.WastedRequests, and wastedMS
	// their time.
	wasted   int
	wastedMS int64
	// longest is the longest time that a root's call leaves to its tree.
	longest time.Duration
}

// Longest is the longest time that the call of a root has left to its tree,
// among the messages so far. It is 0 without such a call.
func (c *Checker) Longest() time.Duration { return c.longest }

// New makes a checker that has seen no message.
func New(cfg Config) *Checker {
	cfg.Takeover = cmp.Or(cfg.Takeover, DefaultTakeover)
	return &Checker{cfg: cfg, trees: map[subjects.Tree]*tree{}}
}

// Add takes the next message of the stream.
func (c *Checker) Add(m Message) {
	c.messages++
	if m.Header == nil {
		m.Header = func(string) string { return "" }
	}
	if m.Gone {
		m.Body = nil
	}
	at, err := c.cfg.Space.Parse(m.Subject)
	switch {
	case err != nil:
		c.otherMessage(m, err)
		return
	case at.Kind == subjects.Submission || at.Kind == subjects.Progress:
		c.foreign(m, "a message that belongs on another stream: "+m.Subject)
		return
	case m.Answer && !at.Kind.Begins() && at.Kind != subjects.Log:
		c.foreign(m, "an answer of the server to a read, which a user has sent to "+m.Subject)
		return
	}
	if m.Unproven {
		at.By = subjects.By{}
	}
	n := c.node(at.Run)
	if n.tree.oldest.IsZero() {
		n.tree.oldest = m.Time
	}
	if isTrigger(at.Kind) {
		n.triggers = append(n.triggers, m.Seq)
	}
	event, err := run.Decode(at, run.Meta{Seq: m.Seq, Time: m.Time, Shift: m.Shift, Answer: m.Answer}, m.Body)
	m.Time = m.Time.Add(m.Shift)
	switch e := event.(type) {
	case run.Called:
		c.call(n, e, m)
	case run.Answered:
		c.entry(n, e.Entry, m)
	case run.AnsweredWithoutCalls:
		c.entry(n, e.Entry, m)
	case run.Ended:
		c.entry(n, e.Entry, m)
	case run.ToolStarted:
		c.entry(n, e.Entry, m)
	case run.ToolHeld:
		c.entry(n, e.Entry, m)
	case run.TaskMade:
		c.entry(n, e.Entry, m)
	case run.Replied:
		c.reply(n, e, m)
	case run.OutcomeStored:
		c.result(n, e, m)
	case run.OutcomeRefused: // no message decodes as that
	case run.TimedOut:
		c.timer(n, e, m)
	case run.Cancelled:
		c.cancel(n, e, m)
	case run.Mailed:
		c.mail(n, e, m)
	case run.Interrupted, run.Approved, run.CancelSent:
		c.apply(n, e, m)
	case run.Settled:
		e.Text, e.Answers = "", nil // the state of a node has no texts
		c.apply(n, e, m)
	case run.Returned:
		c.returned(n, e, m)
	case nil:
		c.undecoded(n, at, err, m)
	}
}

// isTrigger reports whether a message of a kind may be the trigger of a run.
func isTrigger(k subjects.Kind) bool {
	return k != subjects.Log && k != subjects.Due && k != subjects.Result && k != subjects.Returned &&
		k != subjects.Other && k != subjects.CancelBy
}

// undecoded takes a message that is no event. A malformed log entry breaks the
// log. Workers ignore any other such message.
func (c *Checker) undecoded(n *node, at subjects.Address, err error, m Message) {
	text := "a message of a kind that this version does not know: " + m.Subject
	switch at.Kind { //nolint:exhaustive // the other kinds are events or unknown
	case subjects.Log:
		c.brokenEntry(n, err, m)
		return
	case subjects.Due:
		return // a worker decides whether its time has come
	case subjects.Mail:
		n.noteMail(strings.Clone(at.Key.String()), m.Seq)
		text = "a message of mail that cannot be read"
	case subjects.Approve:
		text = "an approval that cannot be read"
	case subjects.Settle:
		text = "a settlement that cannot be read"
	}
	c.note(n.on(m), Foreign, "%s", text)
}

// otherMessage takes a message that belongs to no run: a schedule, a tally or a
// dead letter.
func (c *Checker) otherMessage(m Message, malformed error) {
	if _, _, err := c.cfg.Space.ParseTimer(m.Subject); err == nil {
		return
	}
	if _, _, err := c.cfg.Space.ParseTally(m.Subject); err == nil {
		// The rule Limits counts the runs instead.
		return
	}
	r, err := c.cfg.Space.ParseDead(m.Subject)
	if err != nil {
		c.foreign(m, malformed.Error())
		return
	}
	why := m.Header("Axe-Reason")
	if t := c.trees[r.Tree]; t != nil && t.runs[place{r.Agent, r.Path}] != nil {
		n := t.runs[place{r.Agent, r.Path}]
		n.deadLetter = true
		c.note(n.on(m), Foreign, "given up: %s", why)
		return
	}
	c.foreign(m, "given up: "+why)
}

// apply folds an event. The checks before it have reported all that a fold is
// known to refuse. An event that the fold refuses for another reason is
// reported in the fold's own words.
func (c *Checker) apply(n *node, e run.Event, m Message) {
	if n.broken {
		return
	}
	next, err := n.state.Apply(e)
	if err != nil {
		c.violate(n.on(m), Log, "%v", err)
		n.broken = true
		return
	}
	n.state = next
	n.movedAt = m.Time
	last := len(next.Turns)
	if next.Phase == run.Idle && !next.LastTurnIdle() && !slices.Contains(n.interrupted, last) {
		n.interrupted = append(n.interrupted, last)
	}
}

// shared returns a copy of a name or a place that does not keep the message
// that it was parsed from. Equal values share one copy between two garbage
// collections.
func shared[T comparable](v T) T { return unique.Make(v).Value() }
