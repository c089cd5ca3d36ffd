package configs

import (
	"testing"
	"time"
)

// TestPollInterval: a directory whose poll takes long is polled less often, and
// at least once in ten seconds.
func TestPollInterval(t *testing.T) {
	for _, test := range []struct{ every, took, want time.Duration }{
		{time.Second, 0, time.Second},
		{time.Second, 10 * time.Millisecond, time.Second},
		{time.Second, 40 * time.Millisecond, 4 * time.Second},
		{time.Second, time.Second, 10 * time.Second},
		{time.Minute, time.Second, time.Minute},
	} {
		if got := pollInterval(test.every, test.took); got != test.want {
			t.Errorf("every %v, a poll took %v: got %v, want %v", test.every, test.took, got, test.want)
		}
	}
}
