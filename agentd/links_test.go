package agentd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/subjects"
)

// linkTimes has times of one tree, or over several trees. The time that the
// models take is left out.
type linkTimes struct {
	// tree is the time from the root's call to its outcome.
	tree time.Duration
	// calls is the longest time from a parent's own call to the calls of
	// its children.
	calls time.Duration
	// answer is the longest time from the last outcome of a parent's
	// children to the parent's own outcome.
	answer time.Duration
}

// maxTurnTrips is the largest number of round trips of one turn of a parent. A
// first turn takes three. It takes one more if its trigger finds no worker's
// request for messages at the server, and one more if each request that comes
// next is for one message, and gets that of another run. From the last outcome
// to the answer a turn takes three or four, and one more for want of a request.
const maxTurnTrips = 5

// maxTreeTrips is the largest number of round trips of a tree of three levels,
// from its root's call to its outcome. Five turns follow each other: the first
// turns of the root and of a middle run, a leaf's turn, and the second turns of
// the middle run and of the root. Without a wait for a request, each turn of a
// parent takes three round trips, and the leaf's takes one. The three first
// turns may wait for two more, and the second turns for one.
const maxTreeTrips = 2*(3+2) + (1 + 2) + 2*(3+1)

// maxMeanTrips is the largest mean of trees at different times. It has one wait
// for each of the five turns.
const maxMeanTrips = 4*3 + 1 + 5

// TestSlowLink: the workers are far away from the server. At every length of
// the round trip, a tree and a turn of a parent take no more than a fixed
// number of round trips. The tree has 1, 3 and 9 runs on its levels, and all
// workers are equally far away.
func TestSlowLink(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, ms := range []int{0, 100, 200, 240, 260, 300, 1000} {
		roundTrip := time.Duration(ms) * time.Millisecond
		t.Run(roundTrip.String(), func(t *testing.T) {
			t.Parallel()
			withPartitions(t, 1, func(h *harness) { testSlowLink(t, h, roundTrip) })
		})
	}
}

// testSlowLink runs eight trees on three workers, and checks their times and
// the number of turns. roundTrip is the time of a round trip between a worker
// and the server.
func testSlowLink(t *testing.T, h *harness, roundTrip time.Duration) {
	t.Helper()
	h.useTreeAgents(levels(3))
	h.tree.fan = 3
	h.tree.latency = 200 * time.Millisecond
	var workers []*worker
	line := &bustest.Line{RoundTrip: roundTrip}
	for i := range 3 {
		far, err := bus.Open(h.ctx, bus.Config{Dial: bus.Dial{Server: h.server, Wrap: line.Wrap}})
		if err != nil {
			t.Fatal(err)
		}
		workers = append(workers, h.startWorker(fmt.Sprint("w", i),
			workerOptions{conn: far, Config: agentd.Config{Slots: 64}}))
	}
	time.Sleep(10 * time.Second)
	var mean, worst linkTimes
	const trees = 8
	// The workers make their requests for messages again each second. The
	// trees begin at different times within a second.
	for i := range trees {
		time.Sleep(time.Second + time.Duration(i)*time.Second/trees)
		at := h.timeTree()
		mean.tree += at.tree / trees
		worst = linkTimes{
			max(worst.tree, at.tree), max(worst.calls, at.calls), max(worst.answer, at.answer),
		}
	}
	// A request within the server takes no virtual time, but the workers'
	// pauses of a millisecond do.
	const pauses = 30 * time.Millisecond
	trips := func(d time.Duration) float64 { return float64(d) / float64(max(roundTrip, time.Nanosecond)) }
	if roundTrip > 0 {
		t.Logf("round trip %v: a tree takes %v, 1s of it for its models; without: %.1f round trips, at most %.1f; "+
			"a parent's calls %.1f, its answer %.1f",
			roundTrip, mean.tree+time.Second, trips(mean.tree), trips(worst.tree),
			trips(worst.calls), trips(worst.answer))
	}
	if worst.calls > maxTurnTrips*roundTrip+pauses || worst.answer > maxTurnTrips*roundTrip+pauses {
		t.Errorf("a parent's calls came after %v, its outcome after %v, want at most %v: %d round trips of %v, and %v",
			worst.calls, worst.answer, maxTurnTrips*roundTrip+pauses, maxTurnTrips, roundTrip, pauses)
	}
	if worst.tree > maxTreeTrips*roundTrip+pauses {
		t.Errorf("a tree took %v besides its models, want at most %v: %d round trips of %v, and %v",
			worst.tree, maxTreeTrips*roundTrip+pauses, maxTreeTrips, roundTrip, pauses)
	}
	if mean.tree > maxMeanTrips*roundTrip+pauses {
		t.Errorf("a tree took %v in the mean besides its models, want at most %v: %d round trips of %v, and %v",
			mean.tree, maxMeanTrips*roundTrip+pauses, maxMeanTrips, roundTrip, pauses)
	}
	const turns = 2*(1+3) + 9 // of one tree
	if asked := len(h.requests("tree")); asked != trees*turns {
		t.Errorf("the model was asked %d times, want %d, once for each turn", asked, trees*turns)
	}
	for _, w := range workers {
		w.drain()
	}
	h.checkVerified()
}

// timeTree submits a tree of three levels, waits for its answer, and computes
// its times from those of its messages.
func (h *harness) timeTree() linkTimes {
	r := h.submit("a0", "L")
	h.expectAnswer(h.awaitOutcome(r, time.Hour), 2)
	called, outcome := map[subjects.Path]time.Time{}, map[subjects.Path]time.Time{}
	for _, m := range h.readTree(r.Tree) {
		at, err := h.conn.Space().Parse(m.Subject)
		switch {
		case err != nil:
			h.tb.Fatal(err)
		case at.Kind == subjects.Call:
			called[at.Run.Path] = m.Time
		case at.Kind == subjects.Reply:
			outcome[at.Run.Path.Child(at.Turn, at.Index)] = m.Time
		case strings.HasPrefix(m.Subject, "axe.result."):
			outcome[subjects.Root] = m.Time
		}
	}
	// Five turns follow each other, and each waits for the model.
	out := linkTimes{tree: outcome[subjects.Root].Sub(called[subjects.Root]) - 5*h.tree.latency}
	for path, began := range called {
		// The children are called together.
		var theirCall, lastOutcome time.Time
		for i := range h.tree.fan {
			if child := path.Child(1, i); !called[child].IsZero() {
				theirCall = called[child]
				if outcome[child].After(lastOutcome) {
					lastOutcome = outcome[child]
				}
			}
		}
		if !theirCall.IsZero() {
			out.calls = max(out.calls, theirCall.Sub(began)-h.tree.latency)
			out.answer = max(out.answer, outcome[path].Sub(lastOutcome)-h.tree.latency)
		}
	}
	return out
}
