package run

import (
	"testing"
	"time"
)

// TestEndTimeout: the text names the time that the run was allowed, and never
// 0 s for a time that was not.
func TestEndTimeout(t *testing.T) {
	t.Parallel()
	for allowed, want := range map[time.Duration]string{
		0:                       "timeout after 0s",
		120 * time.Millisecond:  "timeout after 1s",
		950 * time.Millisecond:  "timeout after 1s",
		4600 * time.Millisecond: "timeout after 5s",
		2 * time.Hour:           "timeout after 7200s",
		1000 * time.Hour:        "timeout after 3600000s",
	} {
		if got := EndTimeout(allowed).Text; got != want {
			t.Errorf("%v: %q, want %q", allowed, got, want)
		}
	}
}
