package cmd_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/provider"
)

// TestRunRetries: axe run retries as the agent's file says, and not earlier
// than the provider's Retry-After. stderr shows a failed attempt, and the
// outcome counts the retries.
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
	// axe run follows the tree. The time that is left of a pause depends on
	// the moment of the message.
	told := regexp.MustCompile(`\n\[turn 1\] Provider failed, attempt 3 of 3 in [0-9.]+m?s \(rate_limit\)\n`)
	if end.code != 0 || !told.MatchString(end.stderr) {
		t.Fatalf("got exit code %d, stderr %s; want 0 and a line that matches %s", end.code, end.stderr, told)
	}
	var got struct {
		Content  string
		Attempts int `json:"retry_attempts"`
	}
	if err := json.Unmarshal([]byte(end.stdout), &got); err != nil || got.Content != "done" || got.Attempts != 2 {
		t.Errorf("got %+v, %v; want the content done after 2 retries", got, err)
	}
	p.wantRequests("parent", 3)
	if waited < time.Second {
		t.Errorf("the last request came after %v, want the Retry-After of 1s or more", waited)
	}
}

// defaultRetry is a [retry] table without keys, so that the defaults hold.
const defaultRetry = "\n[retry]\n"

// TestRunRetriesByDefault: an agent calls nine others at once, and the provider
// refuses the first two requests of each. All nine complete.
func TestRunRetriesByDefault(t *testing.T) {
	const readers = 9
	p := newScenario(t)
	var tcs []provider.ToolCall
	var want []string
	for i := range readers {
		task := fmt.Sprintf("part %d", i)
		tcs = append(tcs, call("reader", task))
		want = append(want, "read "+task)
	}
	p.agent("parent", subAgents("reader"), delegates(tcs...))
	var mu sync.Mutex
	refused := map[string]int{}
	p.agent("reader", defaultRetry, func(a *modelRequest) reply {
		mu.Lock()
		defer mu.Unlock()
		task := strings.TrimPrefix(a.user(), "Task: ")
		if refused[task] < 2 {
			refused[task]++
			return reply{status: 429, message: "slow down", later: "1"}
		}
		return reply{text: "read " + task}
	})
	if got := p.wantAnswer("parent", "go"); got != strings.Join(want, " | ") {
		t.Errorf("got %q, want the answers of all %d readers in order", got, readers)
	}
	p.wantRequests("reader", 3*readers)
}

// TestRunRetriesAtMostTwice: by default the provider's third failure ends the
// run. With max_attempts = 1 the first one does.
func TestRunRetriesAtMostTwice(t *testing.T) {
	for name, test := range map[string]struct {
		retry    string
		requests int
	}{
		"by default": {defaultRetry, 3},
		"turned off": {defaultRetry + "max_attempts = 1\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := newScenario(t)
			p.agent("parent", test.retry, refuses(503, "overloaded"))
			if end := p.run("parent", "go"); end.code != 3 {
				t.Errorf("got exit code %d, want 3; stderr %q", end.code, end.stderr)
			}
			p.wantRequests("parent", test.requests)
		})
	}
}

// TestRunRetriesOnlyInTime: a provider asks for a pause that is longer than the
// run may take. The run fails at once and says why.
func TestRunRetriesOnlyInTime(t *testing.T) {
	p := newScenario(t)
	p.agent("parent", defaultRetry, func(*modelRequest) reply {
		return reply{status: 429, message: "slow down", later: "3600"}
	})
	end := p.run("parent", "go", "--timeout", "600")
	const want = "axe: rate_limit (HTTP 429): slow down " +
		"(the next attempt would be in 1h0m0s, after the run's deadline)"
	if said, hinted := errorLine(end.stderr); end.code != 3 || said != want || !hinted {
		t.Errorf("got exit code %d, stderr %q; want 3, %q", end.code, end.stderr, want)
	}
	p.wantRequests("parent", 1)
}
