package agentd_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
)

// TestMailTakenOnce: two workers serve a tree whose runs write to each other;
// one after the other dies at one of its steps, drawn at random, and another
// one comes. Each letter is taken once, and the tree's answer is the right one.
// (A handful of trees, unless a number of walks is asked for: make proofs has
// more than 1,000 workers die.)
func TestMailTakenOnce(t *testing.T) {
	t.Parallel()
	ats.Register()
	defer ats.Unregister()
	trees, deaths, letters := 0, 0, 0
	rapid.Check(t, func(t *rapid.T) {
		if trees == 4 && !long {
			return
		}
		fan := rapid.IntRange(1, 3).Draw(t, "fan")
		fates := rapid.SliceOfN(rapid.IntRange(5, 60), 4, 14).Draw(t, "dies at step")
		defer watch(fmt.Sprint("workers that die at the steps ", fates))()
		rapid.SyncTest(t, func(t *rapid.T) {
			dir, err := os.MkdirTemp("", "deaths") //nolint:usetesting // a rapid.T has no TempDir
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			inBubble(t, dir, *partitions, func(s *sim) {
				s.model.fan, s.model.patience = fan, 1200
				deaths += s.dying(fates)
				letters += s.letters
				trees++
			})
		})
	})
	t.Logf("%d letters in %d trees, each taken once, under %d deaths of workers", letters, trees, deaths)
}

// dying has workers die at their steps, two at a time, while they serve a tree.
// It returns how many did.
func (s *sim) dying(fates []int) (deaths int) {
	s.employ(levels(2, mailingToo))
	died := make(chan bool, len(fates)+1)
	var procs []*proc
	hire := func() {
		at := 0
		if n := len(procs); n < len(fates) {
			at = fates[n]
		}
		procs = append(
			procs,
			s.start(fmt.Sprintf("w%d", len(procs)), agentd.Config{}, func(p *proc, step int, _ bus.Point) {
				if step == at {
					p.kill()
					died <- true
				}
			}),
		)
	}
	hire()
	hire()
	r := s.submit("a0", "L")
	finished := make(chan run.Outcome, 1)
	go func() {
		// a result that never comes ends this goroutine
		defer close(finished)
		finished <- s.result(r, time.Hour)
	}()
	for ended := false; !ended; {
		select {
		case <-died:
			deaths++
			hire()
		case o := <-finished:
			s.right(o, 2)
			ended = true
		}
	}
	procs = append(procs, s.start("last", agentd.Config{}, nil))
	time.Sleep(2 * time.Minute) // what is unacknowledged comes again
	s.check(r.Tree)
	for _, p := range procs {
		p.kill()
		_ = p.wait()
	}
	return deaths + len(died)
}
