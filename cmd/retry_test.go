package cmd_test

import (
	"encoding/json"
	"regexp"
	"sync/atomic"
	"testing"
	"time"
)

// TestRunRetries: axe run asks again as the agent's file says, not before the
// provider wants it; what it does meanwhile is seen, and how often it did it in
// the end.
func TestRunRetries(t *testing.T) {
	p := newPlay(t)
	var n atomic.Int64
	var from time.Time
	var waited time.Duration
	p.agent("parent", "\n[retry]\nmax_attempts = 3\nbackoff = \"fixed\"\ninitial = 0.01\n", func(*ask) reply {
		if n.Add(1) < 3 {
			from = time.Now()
			return reply{status: 429, message: "slow down", later: "1"}
		}
		waited = time.Since(from)
		return reply{text: "done"}
	})
	end := p.run("parent", "go", "--json", "--verbose")
	// The second pause: the first may have begun before anybody watched.
	// What is left of it when it is told is chance.
	told := regexp.MustCompile(`\n\[turn 1\] Provider failed, attempt 3 of 3 in [0-9.]+m?s \(rate_limit\)\n`)
	if end.code != 0 || !told.MatchString(end.stderr) {
		t.Fatalf("exit code %d, stderr %s", end.code, end.stderr)
	}
	var got struct {
		Content  string
		Attempts int `json:"retry_attempts"`
	}
	if err := json.Unmarshal([]byte(end.stdout), &got); err != nil || got.Content != "done" || got.Attempts != 2 {
		t.Errorf("%+v %v", got, err)
	}
	if p.times("parent", 3); waited < time.Second {
		t.Errorf("asked again after %v", waited)
	}
}

// TestRunRetriesNotUnlessAsked: a file that says nothing of it has its model
// asked once, and the provider's failure is the exit code's.
func TestRunRetriesNotUnlessAsked(t *testing.T) {
	p := newPlay(t)
	p.agent("parent", "", refuses(503, "overloaded"))
	if end := p.run("parent", "go"); end.code != 3 {
		t.Errorf("exit code %d, stderr %q", end.code, end.stderr)
	}
	p.times("parent", 1)
}
