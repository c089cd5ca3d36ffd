package verify

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// Message is one message of the stream.
type Message struct {
	Subject string
	Seq     uint64
	Time    time.Time
	Header  func(name string) string // nil: it has none
	Body    []byte
	// the body was stored by reference, and is not there any more
	Gone bool
	// its writer expected something to be the last message …
	Fenced bool
	Fence  uint64 // … this one, 0 for none
}

// Config says what to expect of the stream. The zero value works.
type Config struct {
	Space subjects.Space
	// what clocks, and the last writes, may differ
	Slack time.Duration

	// Takeover is how long after its time something may be missing, besides
	// Slack: another worker goes on where one died, but not before the
	// lease of the dead one is over. 0: DefaultTakeover.
	Takeover time.Duration

	// the streams' first sequences, by partition: beyond 1, what was before
	// has been forgotten
	First []uint64
}

// first is that of a tree's stream.
func (c Config) first(t subjects.Tree) uint64 {
	if p := c.Space.PartitionOf(t); p < len(c.First) {
		return c.First[p]
	}
	return 0
}

// DefaultTakeover is three leases of 10 s: a worker may die while it takes over
// from a dead one.
const DefaultTakeover = 30 * time.Second

// Checker is fed messages, and reports what is wrong with them. It is for one
// goroutine.
type Checker struct {
	cfg   Config
	trees map[subjects.Tree]*tree
	names map[string]string // of workers and agents, each once
	// that runs have in their trees, each once
	places   map[place]place
	remarks  []remark
	messages int
}

// New makes a checker that has seen nothing.
func New(cfg Config) *Checker {
	cfg.Takeover = cmp.Or(cfg.Takeover, DefaultTakeover)
	return &Checker{cfg: cfg, trees: map[subjects.Tree]*tree{}, names: map[string]string{}, places: map[place]place{}}
}

// Add takes the next message of the stream.
func (c *Checker) Add(m Message) {
	c.messages++
	if m.Header == nil {
		m.Header = func(string) string { return "" }
	}
	at, err := c.cfg.Space.Parse(m.Subject)
	if err != nil {
		c.beside(m, err)
		return
	}
	switch at.Kind {
	case subjects.Call:
		c.call(c.node(at.Run), m)
	case subjects.Log:
		c.entry(c.node(at.Run), m)
	case subjects.Reply:
		c.reply(c.node(at.Run), at, m)
	case subjects.Result:
		c.result(c.node(at.Run), m)
	case subjects.Timer:
		c.timer(c.node(at.Run), at.Turn, m)
	case subjects.Cancel:
		c.cancel(c.node(at.Run), m)
	case subjects.Mail:
		c.mail(c.node(at.Run), at.Key, m)
	case subjects.Interrupt:
		c.interrupt(c.node(at.Run), m)
	case subjects.Approve:
		c.approve(c.node(at.Run), m)
	case subjects.Other:
		c.note(c.node(at.Run), m.Seq, Foreign, "this version does not know what %s is for", m.Subject)
	case subjects.Submission, subjects.Progress:
		c.stray(m, "a message that belongs on another stream: "+m.Subject)
	}
}

// beside takes what is on the stream besides the messages of runs: schedules,
// tallies and dead letters.
func (c *Checker) beside(m Message, malformed error) {
	if _, _, err := c.cfg.Space.ParseTimer(m.Subject); err == nil {
		return
	}
	if _, _, err := c.cfg.Space.ParseTally(m.Subject); err == nil {
		// what it says can be counted: Limits
		return
	}
	r, err := c.cfg.Space.ParseDead(m.Subject)
	if err != nil {
		c.stray(m, malformed.Error())
		return
	}
	why := m.Header("Axe-Reason")
	if t := c.trees[r.Tree]; t != nil && t.runs[place{r.Agent, r.Path}] != nil {
		n := t.runs[place{r.Agent, r.Path}]
		n.buried = true
		c.note(n, m.Seq, Foreign, "given up: %s", why)
		return
	}
	c.stray(m, "given up: "+why)
}

func (c *Checker) stray(m Message, text string) {
	c.remarks = append(c.remarks, remark{Finding: Finding{Severity: Note, Rule: Foreign, Seq: m.Seq, Text: text}})
}

// note adds a finding that means nothing bad.
func (c *Checker) note(n *node, seq uint64, r Rule, format string, args ...any) {
	c.remarks = append(c.remarks, remark{Finding: n.finding(Note, seq, r, format, args...)})
}

// violate adds a finding.
func (c *Checker) violate(n *node, seq uint64, r Rule, format string, args ...any) {
	c.remarks = append(c.remarks, remark{Finding: n.finding(Violation, seq, r, format, args...)})
}

// rests adds a finding that another run's fold gives rise to.
func (c *Checker) rests(by, n *node, seq uint64, r Rule, format string, args ...any) {
	c.remarks = append(c.remarks, remark{n.finding(Violation, seq, r, format, args...), by})
}

// orphan adds a finding of what another run has not decided.
func (c *Checker) orphan(by, n *node, seq uint64, format string, args ...any) {
	c.rests(by, n, seq, Orphan, format, args...)
}

// apply folds an event. What the fold is known to refuse has been told before,
// in better words; should it refuse something else, that is told as it says it.
func (c *Checker) apply(n *node, e run.Event, m Message) {
	if n.broken {
		return
	}
	next, err := n.state.Apply(e)
	if err != nil {
		c.violate(n, m.Seq, Log, "%v", err)
		n.broken = true
		return
	}
	n.state, n.moved = next, m.Time
	if last := len(next.Turns); next.Phase == run.Idle && !next.LastTurnIdle() && !slices.Contains(n.stops, last) {
		n.stops = append(n.stops, last)
	}
}

// name is a name that is kept once, however many messages carry it.
func (c *Checker) name(name string) string {
	if known, ok := c.names[name]; ok {
		return known
	}
	c.names[name] = name
	return name
}

func (n *node) finding(s Severity, seq uint64, r Rule, format string, args ...any) Finding {
	return Finding{
		Severity: s, Rule: r, Seq: seq, Text: fmt.Sprintf(format, args...),
		Tree: n.tree.id.String(), Path: n.path.String(), Agent: n.agent.String(),
	}
}
