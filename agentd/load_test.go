package agentd

import (
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// TestDated: a worker learns of a step of the server's clock after it has read a
// run. A message with times of the run is dated by the clock of these times,
// until the run is read again.
func TestDated(t *testing.T) {
	t.Parallel()
	server, err := bus.Serve(bus.ServerConfig{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{Server: server}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := loadedRun{w: &Worker{conn: conn}, run: subjects.Run{Path: subjects.Root}}
	conn.Clocks.Learn([]bus.Step{{Stream: conn.Space().Name("RUNS"), By: time.Hour}})
	for _, want := range []time.Duration{-time.Hour, 0} {
		if off := r.dated().Sub(r.clock().Now()); (off - want).Abs() > time.Second {
			t.Errorf("dated by a clock that is off by %v, want %v", off, want)
		}
		r.forgetOldTimes()
	}
}
