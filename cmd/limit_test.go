package cmd_test

import (
	"sync"
	"testing"
	"time"
)

// TestRunKeepsToLimits: config.toml bounds what axe run asks of a provider at
// the same time.
func TestRunKeepsToLimits(t *testing.T) {
	for name, limit := range map[string]string{"off": "", "one at a time": "max_concurrent = 1\n"} {
		t.Run(name, func(t *testing.T) {
			p := newPlay(t)
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
			p.agent("helper", "", func(*ask) reply {
				change(1)
				defer change(-1)
				// for the others to come, if they do
				time.Sleep(200 * time.Millisecond)
				return reply{text: "done"}
			})
			if got := p.completes("parent", "go"); got != "done | done | done" {
				t.Errorf("answered %q", got)
			}
			if (most > 1) != (limit == "") {
				t.Errorf("%d at once", most)
			}
		})
	}
}
