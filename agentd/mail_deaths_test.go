package agentd_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
)

// TestMailTakenOnce: two workers at a time serve a tree of runs that write to
// each other. One after the other is killed at a random step, and another one
// starts. Each mail message is taken once, and the tree has the right answer.
// Without -rapid.checks it takes two trees; make proofs kills more than 1,000
// workers.
func TestMailTakenOnce(t *testing.T) {
	t.Parallel()
	thorough(t)
	var trees, deaths, mail int
	rapid.Check(t, func(t *rapid.T) {
		if trees == walksOf(2) {
			return
		}
		fan := rapid.IntRange(1, 3).Draw(t, "fan")
		killAt := rapid.SliceOfN(rapid.IntRange(5, 60), 4, 14).Draw(t, "killed at step")
		withRapid(t, fmt.Sprint("workers killed at the steps ", killAt), *partitions, func(h *harness) {
			h.tree.fan = fan
			h.tree.waitSeconds = 1200
			deaths += h.runWithDeaths(killAt)
			mail += h.mailCount
			trees++
		})
	})
	t.Logf("%d messages in %d trees, each taken once, under %d deaths of workers", mail, trees, deaths)
}

// runWithDeaths serves a tree with two workers at a time. The n-th worker is
// killed at step killAt[n]. It returns the number of workers that were killed.
func (h *harness) runWithDeaths(killAt []int) (deaths int) {
	h.useTreeAgents(levels(2, forkingToo))
	died := make(chan bool, len(killAt)+1)
	started := 0
	start := func() {
		at := 0 // never
		if started < len(killAt) {
			at = killAt[started]
		}
		h.startWorker(fmt.Sprintf("w%d", started), workerOptions{atStep: func(s step) error {
			if s.n == at {
				s.worker.kill()
				died <- true
			}
			return nil
		}})
		started++
	}
	start()
	start()
	r := h.submit("a0", "L")
	finished := make(chan run.Outcome, 1)
	go func() {
		// Without an outcome awaitOutcome ends this goroutine alone.
		defer close(finished)
		finished <- h.awaitOutcome(r, time.Hour)
	}()
	for ended := false; !ended; {
		select {
		case <-died:
			deaths++
			start()
		case o := <-finished:
			h.expectAnswer(o, 2)
			ended = true
		}
	}
	h.startWorker("last", workerOptions{})
	time.Sleep(2 * time.Minute) // unacknowledged messages are delivered again
	h.checkTree(r.Tree)
	return deaths + len(died)
}
