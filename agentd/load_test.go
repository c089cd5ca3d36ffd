package agentd

import (
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/subjects"
)

// TestDated: a worker has loaded a run, and then learns that the server's clock
// was set an hour forward. It dates messages by the clock before the step,
// since the loaded times are of that clock, until it drops the loaded times.
func TestDated(t *testing.T) {
	t.Parallel()
	conn := testbus.Empty(t)
	r := loadedRun{w: &Worker{conn: conn}, run: subjects.Run{Path: subjects.Root}}
	conn.Clocks.Learn([]bus.Step{{Stream: conn.Space().Name("RUNS"), By: time.Hour}})
	for _, want := range []time.Duration{-time.Hour, 0} {
		if off := r.dated().Sub(r.clock().Now()); (off - want).Abs() > time.Second {
			t.Errorf("dated by a clock that is off by %v, want %v", off, want)
		}
		r.forgetOldTimes()
	}
}
