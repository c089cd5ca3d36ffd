package main

import (
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/presence"
)

// TestWorkOfAWorker: the ages are those of the server's clock. A worker with
// more runs than it lists may lose more requests than those of the list.
func TestWorkOfAWorker(t *testing.T) {
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	asking := presence.InHand{Since: began.Add(time.Minute), Progress: run.Progress{Event: run.ProgressAsking}}
	all := []cli.WorkerLine{
		{Name: "one", Known: true, Since: began, Work: presence.Work{Runs: []presence.InHand{asking}}},
		{Name: "two", Known: true, Since: began, Work: presence.Work{Runs: []presence.InHand{asking}, More: 7}},
		{Name: "three", Gone: true, Ended: began},
	}
	for name, want := range map[string][]string{
		"one":   {": up 5 min\n", "killed, it loses 1 requests", " 4 min "},
		"two":   {": up 5 min\n", "killed, it loses at least 1 requests", ", 8 runs in hand"},
		"three": {": ended 5 min ago\n"},
		"":      {" up 5 min ", " ended 5 min ago "},
	} {
		var out strings.Builder
		p := workersPrinter{stdout: &out, now: began.Add(5 * time.Minute)}
		err := p.all(all)
		if name != "" {
			out.Reset()
			err = p.one(all, name)
		}
		for _, part := range want {
			if err != nil || !strings.Contains(out.String(), part) {
				t.Errorf("worker %q: error %v, want %q in:\n%s", name, err, part, out.String())
			}
		}
	}
}
