package run_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
)

// drawSupervision draws a supervision. Its supervisor has the given name.
func drawSupervision(t *rapid.T, name string) run.Supervision {
	s := run.Supervision{
		Mode: rapid.SampledFrom([]run.Mode{run.Unsupervised, run.Supervised, run.Human}).Draw(t, name+" mode"),
	}
	if s.Mode != run.Unsupervised {
		s.Agent = name
	}
	if s.Mode == run.Human {
		s.Timeout = time.Duration(rapid.IntRange(1, 3).Draw(t, name+" timeout")) * time.Hour
		s.OnTimeout = rapid.Bool().Draw(t, name+" on timeout")
	}
	return s
}

// TestSupervisionOnlyGetsCloser: a run is supervised at least as closely as its
// caller, and by the caller's supervisor, if the caller has one. A person has
// no more time than each of the two grants. Silence approves only if it does
// for each of them that asks a person.
func TestSupervisionOnlyGetsCloser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		own, above := drawSupervision(t, "own"), drawSupervision(t, "above")
		both := own.Within(above)
		agent := above.Agent
		if agent == "" {
			agent = own.Agent
		}
		if both.Mode != max(own.Mode, above.Mode) || both.Agent != agent {
			t.Fatalf("%+v within %+v is %+v, want mode %v and agent %q",
				own, above, both, max(own.Mode, above.Mode), agent)
		}
		for _, s := range []run.Supervision{own, above} {
			if s.Mode == run.Human && (both.Timeout > s.Timeout || both.OnTimeout && !s.OnTimeout) {
				t.Fatalf("%+v within %+v is %+v, want no more than %+v grants", own, above, both, s)
			}
		}
		if again := both.Within(above); again != both {
			t.Fatalf("%+v within %+v is %+v, and a second time %+v, want no change", own, above, both, again)
		}
		if same := above.Within(above); same != above {
			t.Fatalf("%+v within itself is %+v, want no change", above, same)
		}
	})
}
