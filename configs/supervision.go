package configs

import (
	"cmp"
	"slices"
	"time"

	"github.com/axebus/axe/subjects"
)

// Supervision says who watches over an agent, and over all that work for it:
// those may be watched over more closely, and never less. The zero value is
// nobody.
type Supervision struct {
	Mode SupervisionMode
	// the supervisor, which sees each turn that would act before anything
	// of it is done
	Agent string
	// how long a person may take, within the time that the run itself has;
	// 0 stands for 30 min
	Timeout time.Duration
	// what it comes to if nobody has answered by then and the run still has
	// time
	OnTimeout OnTimeout
}

// SupervisionMode says how closely an agent is watched over; the empty one
// stands for Unsupervised.
type SupervisionMode string

// The modes.
const (
	Unsupervised SupervisionMode = "unsupervised"
	Supervised   SupervisionMode = "supervised"
	// where the supervisor wants to pause, a person decides
	SupervisedHuman SupervisionMode = "human"
)

// OnTimeout is what a pause comes to that nobody has ended; the empty one
// stands for Deny.
type OnTimeout string

// The ways to go on.
const (
	Deny                  OnTimeout = "deny"
	Approve               OnTimeout = "approve"
	maxSupervisionTimeout           = 30 * 24 * time.Hour
)

// defaultSupervisionTimeout leaves a run that nobody has answered some of the hour that a
// tree has by default.
const defaultSupervisionTimeout = 30 * time.Minute

// WithDefaults is s with its defaults.
func (s Supervision) WithDefaults() Supervision {
	s.Mode, s.OnTimeout = cmp.Or(s.Mode, Unsupervised), cmp.Or(s.OnTimeout, Deny)
	s.Timeout = cmp.Or(s.Timeout, defaultSupervisionTimeout)
	return s
}

func checkSupervision(a Agent) *Error {
	s := a.Supervision.WithDefaults()
	if err := nonNegative(setting{"supervision.timeout", cmp.Compare(a.Supervision.Timeout, 0)}); err != nil {
		return err
	}
	switch {
	case !slices.Contains([]SupervisionMode{Unsupervised, Supervised, SupervisedHuman}, s.Mode):
		return invalid("supervision.mode", "supervision.mode must be one of: unsupervised, supervised, human")
	case !slices.Contains([]OnTimeout{Deny, Approve}, s.OnTimeout):
		return invalid("supervision.on_timeout", "supervision.on_timeout must be one of: deny, approve")
	case s.Timeout > maxSupervisionTimeout:
		return invalid("supervision.timeout", "supervision.timeout cannot exceed 30 days")
	case s.Mode != Unsupervised && s.Agent == "":
		return invalid("supervision.mode", "supervision.agent is required: the agent that watches over this one")
	case s.Agent == "":
		return nil
	case a.Supervision.Mode == "": // whoever names a supervisor means to have one
		return invalid(
			"supervision.agent",
			`watches over nobody without supervision.mode: want mode = "supervised" or mode = "human"`,
		)
	case s.Agent == a.Name:
		return invalid("supervision.agent", "an agent cannot watch over itself")
	}
	if _, err := subjects.ParseAgent(s.Agent); err != nil {
		return invalid("supervision.agent", err.Error())
	}
	return nil
}
