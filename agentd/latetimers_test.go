package agentd

import (
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/testbus"
)

// TestTimerPutOffAgain: a timer that is put off again, because the write that
// was to make it needless was refused, does not hold up the timers behind it.
func TestTimerPutOffAgain(t *testing.T) {
	start := time.Now()
	l := newLateTimers(&Worker{conn: testbus.Open(t)})
	first := &lateTimer{message: bus.Message{Subject: "first"}}
	behind := &lateTimer{message: bus.Message{Subject: "behind"}}
	l.putOff(first)
	l.putOff(behind)
	removeTimers(l, "first").end(t.Context(), false)
	if next := l.setDue(t.Context(), start); !next.Equal(behind.due) {
		t.Errorf("the next timer is due %s after the one behind, want none before that one", next.Sub(behind.due))
	}
}
