package agentd_test

import (
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axebus/axe/agentd"
)

// TestDrainFinishesModelCalls: a draining worker finishes its model calls
// within the grace (30 s by default), stores the answers, and takes no new
// calls.
func TestDrainFinishesModelCalls(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.models["lead"] = delayed(20*time.Second, repeats)
		w := h.startWorker("w", workerOptions{})
		r := h.submit("lead", "one")
		h.awaitRequests("lead", 1)
		time.Sleep(5 * time.Second)
		w.stop()
		from := time.Now()
		time.Sleep(2 * time.Second)
		later := h.submit("lead", "two")
		w.drain()
		if d := time.Since(from).Round(time.Second); d != 15*time.Second {
			t.Errorf("the drain took %v, want 15s", d)
		}
		if o := h.expectCompleted(r, "one"); o.Worker != "w" {
			t.Errorf("the outcome is of worker %s, want w", o.Worker)
		}
		h.startWorker("next", workerOptions{})
		h.expectCompleted(later, "two")
		if n := len(h.requests("lead")); n != 2 {
			t.Errorf("%d requests for two answers, want 2", n)
		}
	})
}

// TestDrainFinishesATurn: a draining worker appends the turn in flight to the
// log and calls the run's children. Another worker continues the run.
func TestDrainFinishesATurn(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		h.models["lead"] = turns(delayed(20*time.Second, calls(call("leaf", "x"))), joinsResults)
		w := h.startWorker("w1", workerOptions{})
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 1)
		w.drain()
		if len(h.entries(r)) != 1 || len(h.readAll(h.child(r, "leaf", 0).Call())) != 1 {
			t.Errorf("want one entry and one call of the leaf, got\n%s", h.dumpTree(r.Tree))
		}
		h.startWorker("w2", workerOptions{})
		h.expectCompleted(r, "c0=leaf")
		if got := repeatedTurns(h.requests("")); len(got) > 0 {
			t.Errorf("turns that were asked twice: %v", got)
		}
	})
}

// TestDrainReleasesAfterGrace: a draining worker aborts a model call that
// outlasts the grace. The worker gives the run's trigger back, a call or a
// reply. Another worker asks the model within a second.
func TestDrainReleasesAfterGrace(t *testing.T) {
	thorough(t)
	t.Parallel()
	for slow, asks := range map[string]int{"leaf": 1, "lead": 2} {
		t.Run(slow, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.callingLead([]string{"leaf"}, call("leaf", "x"))
				if slow == "lead" {
					h.models["lead"] = turns(calls(call("leaf", "x")), delayed(time.Minute, joinsResults))
				} else {
					h.models["leaf"] = delayed(time.Minute, says("leaf"))
				}
				w := h.startWorker("w", workerOptions{Config: agentd.Config{Grace: 3 * time.Second}})
				r := h.submit("lead", "go")
				h.awaitRequests(slow, asks)
				h.startWorker("successor", workerOptions{})
				time.Sleep(5 * time.Second)
				from := time.Now()
				w.drain()
				gone := time.Now()
				if d := gone.Sub(from).Round(100 * time.Millisecond); d != 3*time.Second {
					t.Errorf("the drain took %v, want the grace of 3s", d)
				}
				h.awaitRequests(slow, asks+1)
				h.tookAtMost(gone, time.Second)
				if last := h.requests(slow)[asks-1]; last.err == nil || !last.ended.Equal(from.Add(3*time.Second)) {
					t.Errorf("the request ended after %v with error %v, want an error after 3s",
						last.ended.Sub(from), last.err)
				}
				h.expectCompleted(r, "c0=leaf")
				if n := len(h.requests("")); n != 4 {
					t.Errorf("%d requests, want 4: three turns, and one that was asked again", n)
				}
			})
		})
	}
}

// TestDrainLeavesNothingBehind: every goroutine of a worker ends with its
// drain. The test is not parallel, because it looks at all goroutines of the
// process.
func TestDrainLeavesNothingBehind(t *testing.T) {
	thorough(t)
	withHarness(t, func(h *harness) {
		h.startThreeLevels()
		h.submit("lead", "go")
		h.awaitThreeLevels()
		h.workers[0].serve(h.agents[0])
		time.Sleep(time.Second)
		for _, w := range h.workers {
			w.drain()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		buf := make([]byte, 4<<20)
		for g := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(g, "axe/agentd.(*") || strings.Contains(g, "axe/bus.(*Conn)") ||
				strings.Contains(g, "axe/bus.(*Directory)") {
				t.Errorf("a goroutine outlives its worker:\n%s", g)
			}
		}
	})
}
