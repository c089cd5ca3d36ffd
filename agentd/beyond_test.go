package agentd

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestBeyondDeadlineNamesThePause: the error of an attempt without a successor
// names the pause, however short.
func TestBeyondDeadlineNamesThePause(t *testing.T) {
	t.Parallel()
	for delay, want := range map[time.Duration]string{
		40 * time.Millisecond: "in 40ms,", 4 * time.Second: "in 4s,", time.Hour: "in 1h0m0s,",
	} {
		if err := beyondDeadline(errors.New("busy"), delay); !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q", err, want)
		}
	}
}
