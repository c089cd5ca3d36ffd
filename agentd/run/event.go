package run

import (
	"time"

	"github.com/axebus/axe/subjects"
)

// Event is something that happened to a run. The set is closed.
//
//sumtype:decl
type Event interface {
	meta() Meta
	event()
}

// Meta says where in the stream an event is, and when it was stored.
type Meta struct {
	Seq  uint64
	Time time.Time
}

func (m Meta) meta() Meta { return m }

// Called is the request to run.
type Called struct {
	Meta
	Input
	// Malformed says why the body of the call cannot be read, nil if it can.
	// The fold ignores it: a worker that owns the run refuses the call.
	Malformed error
}

// Input is what a run is asked. Context is empty for a root.
type Input struct {
	Task    string `json:"task"`
	Context string `json:"context,omitzero"`
	// by spawn_agent or spawn_agents
	Spawned *Spawned `json:"spawned,omitempty"`
	Forked  *Forked  `json:"forked,omitempty"` // by fork
	// a root that goes on from where another run was
	Copy   *Copy  `json:"copy,omitempty"`
	Policy Policy `json:"policy,omitzero"` // of all above it together
	// it is a supervisor's: what it is asked is what to make of a turn
	Review bool `json:"review,omitzero"`

	Supervision Supervision `json:"supervision,omitzero"` // of its caller
}

// Forked is what a forked run has from its parent. It goes on beside it: its
// answers are mail, and between them it is idle.
type Forked struct {
	// its conversation, as it was at the turn that forked
	Inherit bool `json:"inherit,omitzero"`
}

// CopyOf makes a root continue the conversation of a run after a turn, or the
// whole of it with turn 0.
func CopyOf(r subjects.Run, turn int) *Copy {
	return &Copy{Agent: r.Agent.String(), Tree: r.Tree.String(), Path: r.Path.String(), Turn: turn}
}

// Run is the address of the run in a space. The error says what is malformed:
// a call may come from any client.
func (c Copy) Run(space subjects.Space) (r subjects.Run, _ error) {
	agent, err := subjects.ParseAgent(c.Agent)
	if err != nil {
		return r, err
	}
	tree, err := subjects.ParseTree(c.Tree)
	if err != nil {
		return r, err
	}
	path, err := subjects.ParsePath(c.Path)
	return space.Run(agent, tree, path), err
}

// Copy is the run, of any tree, whose conversation a root begins with.
type Copy struct {
	Agent string `json:"agent"`
	Tree  string `json:"tree"`
	Path  string `json:"path"`
	Turn  int    `json:"turn"` // after which; 0: all of it
}

// AdHoc reports whether the run is of nobody's definition.
func (in Input) AdHoc() bool { return in.Spawned != nil && in.Spawned.AdHoc != nil }

// Spawned is what a spawned run has from its parent.
type Spawned struct {
	Cwd string `json:"cwd,omitzero"` // below the agent's own workdir
	// it may take, before a last one to answer; 0: MaxTurns, and none
	Turns int    `json:"turns,omitzero"`
	AdHoc *AdHoc `json:"ad_hoc,omitempty"`
}

// AdHoc makes a run one of nobody's definition: it has of its parent, as that
// was started, the model and what it may do, and nothing of what it is or
// knows. The agent in its subject is the parent's, so that whoever serves that
// can serve it.
type AdHoc struct {
	Model       string   `json:"model"`
	Temperature *float64 `json:"temperature,omitzero"`
	MaxTokens   int      `json:"max_tokens,omitzero"`
	SubAgents   []string `json:"sub_agents,omitempty"`
	// with which it may delegate
	Tools      []string      `json:"tools,omitempty"`
	Slash      []string      `json:"slash,omitempty"` // as in Start
	Sequential bool          `json:"sequential,omitzero"`
	Timeout    time.Duration `json:"timeout_ns,omitzero"`
	MaxBatch   int           `json:"max_batch,omitzero"`
	ChildTurns int           `json:"child_turns,omitzero"`
	Retry      *Retry        `json:"retry,omitempty"`
}

// Answered is a turn on the log.
type Answered struct {
	Meta
	Entry Entry
}

// Ended is the end of a run on its log, which fences every other writer.
type Ended struct {
	Meta
	Entry Entry
}

// Replied is the outcome of a child.
type Replied struct {
	Meta
	Turn, Index int
	Outcome     Outcome
}

// ofItsCall reports whether the outcome is that of the run which the call made.
func (e Replied) ofItsCall() bool {
	path, err := subjects.ParsePath(e.Outcome.Path)
	_, turn, index, below := path.Parent()
	return err == nil && below && turn == e.Turn && index == e.Index
}

// TimedOut is the timer of a turn that fired.
type TimedOut struct {
	Meta
	Turn int
}

// Mailed is what another run, or a person, has written to this one.
type Mailed struct {
	Meta
	Mail
}

// AnsweredWithoutCalls is an answer on the log that calls nobody.
type AnsweredWithoutCalls struct {
	Meta
	Entry Entry
}

// Approved is a person's word on what the run is about to do.
type Approved struct {
	Meta
	Approval
}

// Interrupted tells that a person wants the run to stop what it is doing, and
// be idle.
type Interrupted struct{ Meta }

// Cancelled is the run's own tombstone.
type Cancelled struct {
	Meta
	End End
}

// OutcomeStored is the run's own outcome, found at its reply subject. Its sequence
// is not of the run's own subjects, so it may be applied at any time.
type OutcomeStored struct {
	Meta
	Outcome Outcome
}

func (Called) event()               {}
func (Answered) event()             {}
func (Ended) event()                {}
func (Replied) event()              {}
func (TimedOut) event()             {}
func (Mailed) event()               {}
func (AnsweredWithoutCalls) event() {}
func (Approved) event()             {}
func (Interrupted) event()          {}
func (Cancelled) event()            {}
func (OutcomeStored) event()        {}
