package cmd_test

import (
	"encoding/json"
	"regexp"
	"sync/atomic"
	"testing"
	"time"
)

// TestRunRetries: axe run retries as the agent's file says, and not earlier
// than the provider's Retry-After. stderr shows each pause, and the outcome
// counts the retries.
func TestRunRetries(t *testing.T) {
	p := newScenario(t)
	var n atomic.Int64
	var from time.Time
	var waited time.Duration
	p.agent("parent", "\n[retry]\nmax_attempts = 3\nbackoff = \"fixed\"\ninitial = 0.01\n", func(*modelRequest) reply {
		if n.Add(1) < 3 {
			from = time.Now()
			return reply{status: 429, message: "slow down", later: "1"}
		}
		waited = time.Since(from)
		return reply{text: "done"}
	})
	end := p.run("parent", "go", "--json", "--verbose")
	// The test looks at the second pause, since the first may begin before
	// the view follows the tree. The remaining time of a pause depends on
	// the moment of the message.
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
	if p.wantRequests("parent", 3); waited < time.Second {
		t.Errorf("asked again after %v", waited)
	}
}

// TestRunRetriesNotUnlessAsked: without [retry] the model is asked once, and
// the provider's failure gives the exit code.
func TestRunRetriesNotUnlessAsked(t *testing.T) {
	p := newScenario(t)
	p.agent("parent", "", refuses(503, "overloaded"))
	if end := p.run("parent", "go"); end.code != 3 {
		t.Errorf("exit code %d, stderr %q", end.code, end.stderr)
	}
	p.wantRequests("parent", 1)
}
