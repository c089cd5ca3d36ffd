package cmd_test

import (
	"sync"
	"testing"
	"time"
)

// TestRunKeepsToLimits: an agent calls three others at once. With a bound of
// one concurrent request in config.toml, axe run makes their requests one after
// the other. Without a bound, some requests are concurrent.
func TestRunKeepsToLimits(t *testing.T) {
	for name, limit := range map[string]string{"off": "", "one at a time": "max_concurrent = 1\n"} {
		t.Run(name, func(t *testing.T) {
			p := newScenario(t)
			p.write("config/axe/config.toml", "[providers.openai]\n"+limit)
			var mu sync.Mutex
			now, most := 0, 0
			change := func(by int) {
				mu.Lock()
				defer mu.Unlock()
				now += by
				most = max(most, now)
			}
			p.agent(
				"parent",
				subAgents("helper"),
				delegates(call("helper", "a"), call("helper", "b"), call("helper", "c")),
			)
			p.agent("helper", "", func(*modelRequest) reply {
				change(1)
				defer change(-1)
				// Leave time for a concurrent request.
				time.Sleep(200 * time.Millisecond)
				return reply{text: "done"}
			})
			if got := p.wantAnswer("parent", "go"); got != "done | done | done" {
				t.Errorf("got the answer %q, want three times done", got)
			}
			if (most > 1) != (limit == "") {
				t.Errorf("got %d requests at once with the limit %q, want 1 with a limit and more without", most, limit)
			}
		})
	}
}
