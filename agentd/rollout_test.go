package agentd_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// rollout is a fleet of three workers that is replaced without end: the oldest
// worker is drained, with a grace that is shorter than any model call, and
// another one takes its place.
type rollout struct {
	*harness
	fleet []*worker
	// began is the number of workers started.
	began int
	// aborted is the number of requests that drains have aborted, because
	// they were in flight at the end of the grace.
	aborted int
}

// join starts the next worker of the fleet.
func (r *rollout) join() {
	r.began++
	o := workerOptions{Config: agentd.Config{Grace: time.Second}}
	r.fleet = append(r.fleet, r.startWorker(fmt.Sprintf("w%d", r.began), o))
}

// replaceOldest drains the oldest worker while its successor works already, as
// an orchestrator does.
func (r *rollout) replaceOldest() {
	r.join()
	oldest := r.fleet[0]
	r.fleet = r.fleet[1:]
	oldest.drain()
	for _, req := range r.requests("") {
		if req.worker == oldest && req.err != nil {
			r.aborted++
		}
	}
}

// TestRolloutFinishes: 20 runs with model calls of 30 s go through 70 drains,
// one every 2 s with a grace of 1 s. All of them complete once the drains have
// ended. No request is made again unless a drain has aborted it.
func TestRolloutFinishes(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		const trees, drains = 20, 70
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = delayed(30*time.Second, repeats)
		r := rollout{harness: h}
		for range 3 {
			r.join()
		}
		h.awaitReady()
		var roots []subjects.Run
		for i := range trees {
			roots = append(roots, h.submit("lead", fmt.Sprint("task ", i)))
		}
		h.awaitRequests("lead", trees)
		for range drains {
			began := time.Now()
			r.replaceOldest()
			time.Sleep(time.Until(began.Add(2 * time.Second)))
		}
		wrong := 0
		for i, root := range roots {
			if o := h.awaitOutcome(root, 10*time.Minute); o.Result != fmt.Sprint("task ", i) {
				wrong++
				t.Logf("%s: %s %s", root, o.Status, o.Error)
			}
		}
		asked := len(h.requests("lead"))
		t.Logf("%d of %d trees wrong, %d model calls, %d aborted by %d drains",
			wrong, trees, asked, r.aborted, drains)
		if wrong > 0 {
			t.Errorf("%d of %d trees did not answer with their task", wrong, trees)
		}
		if most := trees + r.aborted; asked > most {
			t.Errorf("%d model calls, want at most %d: %d trees, and %d aborted calls", asked, most, trees, r.aborted)
		}
		h.checkVerified()
	})
}
