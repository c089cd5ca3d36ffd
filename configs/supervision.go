package configs

import (
	"cmp"
	"slices"
	"time"
)

// Supervision says how the turns of an agent, and of all runs below it, are
// reviewed. A sub-agent may be supervised more closely than its callers, and
// never less. The zero value is no supervision.
type Supervision struct {
	Mode SupervisionMode
	// Agent is the supervisor. It reviews each turn that has effects before
	// the turn is carried out.
	Agent string
	// Timeout bounds the time for a person's decision. The run's own
	// deadline bounds it too. 0 stands for 30 min.
	Timeout time.Duration
	// OnTimeout is the decision if no person has decided in time.
	OnTimeout OnTimeout
}

// SupervisionMode says how closely an agent is supervised. The empty value
// stands for Unsupervised.
type SupervisionMode string

// The modes.
const (
	Unsupervised SupervisionMode = "unsupervised"
	// Supervised does not carry a turn out if the supervisor decides to
	// pause.
	Supervised SupervisionMode = "supervised"
	// SupervisedHuman holds a turn for a person if the supervisor decides
	// to pause.
	SupervisedHuman SupervisionMode = "human"
)

// OnTimeout is the decision about a held turn after the timeout. The empty
// value stands for Deny.
type OnTimeout string

// The decisions.
const (
	Deny    OnTimeout = "deny"
	Approve OnTimeout = "approve"
)

const (
	// defaultSupervisionTimeout is shorter than the hour that a tree has by
	// default, so that a run has time left after a pause without a
	// decision.
	defaultSupervisionTimeout = 30 * time.Minute
	maxSupervisionTimeout     = 30 * 24 * time.Hour
)

// WithDefaults returns s with defaults in place of zero values.
func (s Supervision) WithDefaults() Supervision {
	s.Mode = cmp.Or(s.Mode, Unsupervised)
	s.OnTimeout = cmp.Or(s.OnTimeout, Deny)
	s.Timeout = cmp.Or(s.Timeout, defaultSupervisionTimeout)
	return s
}

func checkSupervision(a Agent) *Error {
	s := a.Supervision.WithDefaults()
	switch {
	case !slices.Contains([]SupervisionMode{Unsupervised, Supervised, SupervisedHuman}, s.Mode):
		return invalid("supervision.mode", "supervision.mode must be one of: unsupervised, supervised, human")
	case !slices.Contains([]OnTimeout{Deny, Approve}, s.OnTimeout):
		return invalid("supervision.on_timeout", "supervision.on_timeout must be one of: deny, approve")
	case s.Timeout > maxSupervisionTimeout:
		return invalid("supervision.timeout", "supervision.timeout cannot exceed 30 days")
	case s.Mode != Unsupervised && s.Agent == "":
		return invalid("supervision.mode", "supervision.agent is required: the agent that reviews this one's turns")
	case s.Agent == "":
		return nil
	// A supervisor without a mode is a mistake, not a default.
	case a.Supervision.Mode == "":
		return invalid("supervision.agent", `has no effect without mode = "supervised" or mode = "human"`)
	case s.Agent == a.Name:
		return invalid("supervision.agent", "an agent cannot supervise itself")
	}
	return checkAgents("supervision.agent", s.Agent)
}
