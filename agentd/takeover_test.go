package agentd_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestZombieStopsAsking: a worker that has lost its lease, the zombie, keeps
// its request until another worker asks too, and then aborts it within half a
// lease. It does not ask again, and does not give back the call that the other
// worker has.
func TestZombieStopsAsking(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.models["lead"] = delayed(2*time.Minute, says("done"))
		var frozen atomic.Bool
		h.startWorker("victim", workerOptions{Config: agentd.Config{Slots: 1}, frozen: &frozen})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 1)
		frozen.Store(true)
		time.Sleep(time.Minute)
		if requests := h.requests("lead"); len(requests) != 1 || !requests[0].ended.IsZero() {
			t.Fatalf("%d requests, the first ended at %v, want one in flight while no other worker is there",
				len(requests), requests[0].ended)
		}
		h.startWorker("successor", workerOptions{})
		h.awaitRequests("lead", 2)
		taken := time.Now()
		frozen.Store(false)
		h.expectCompleted(r, "done")
		requests := h.requests("lead")
		if d := requests[0].ended.Sub(taken); d > bus.DefaultAckWait/2 || requests[0].err == nil {
			t.Errorf("the zombie went on for %v, error %v, want an abort within half a lease", d, requests[0].err)
		}
		if len(requests) != 2 || requests[1].worker.name != "successor" {
			t.Errorf("%d requests, the second by %s, want two, by successor", len(requests), requests[1].worker.name)
		}
	})
}

// TestZombieStopsAfterTheEnd: a worker has lost its lease, and the worker that
// took its run over has ended the run before the first one looks. The first
// worker, the zombie, aborts its request within a lease.
func TestZombieStopsAfterTheEnd(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if req.worker.name == "victim" {
				return delayed(10*time.Minute, says("late"))(ctx, req)
			}
			return says("at once")(ctx, req)
		}
		var frozen atomic.Bool
		h.startWorker("victim", workerOptions{Config: agentd.Config{Slots: 1}, frozen: &frozen})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 1)
		frozen.Store(true)
		h.startWorker("successor", workerOptions{})
		if o := h.expectCompleted(r, "at once"); o.Worker != "successor" {
			t.Errorf("worker %s answered, want successor", o.Worker)
		}
		from := time.Now()
		h.eventually("the end of the first request", func() bool { return !h.requests("lead")[0].ended.IsZero() })
		h.tookAtMost(from, bus.DefaultAckWait)
		if got := h.outcomes(r.Space.Result(r.Agent, r.Tree)); len(got) != 1 || got[0].Status != run.StatusCompleted {
			t.Errorf("outcomes %+v, want a completed one alone", got)
		}
	})
}

// TestSubmissionOfADeadWorker: a worker that dies with a submission in hand
// delays it for a moment, not for the lease of a model call. A worker that was
// only slow does no harm: there is one tree.
func TestSubmissionOfADeadWorker(t *testing.T) {
	thorough(t)
	t.Parallel()
	for name, comesBack := range map[string]bool{"dead": false, "slow": true} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.callingLead(nil)
				h.models["lead"] = says("done")
				held := make(chan struct{})
				// The submission may be delivered to the victim
				// again.
				var again atomic.Bool
				victim := h.startWorker("victim", workerOptions{atStep: func(s step) error {
					if s.Op == "write" && !s.After && strings.HasSuffix(s.Subject, ".r.call") &&
						!again.Swap(true) {
						close(held)
						time.Sleep(3 * time.Second)
					}
					return nil
				}})
				h.awaitReady()
				r := h.submit("lead", "go")
				<-held
				from := time.Now()
				if !comesBack {
					victim.kill()
				}
				h.startWorker("successor", workerOptions{})
				h.expectCompleted(r, "done")
				h.tookAtMost(from, 2500*time.Millisecond)
				time.Sleep(time.Minute)
				if n := h.countRuns(r); n != 1 || len(h.requests("lead")) != 1 {
					t.Errorf("%d runs and %d requests, want 1 and 1", n, len(h.requests("lead")))
				}
			})
		})
	}
}

// TestHungModelCallReleasesItsRun: a worker that hangs in a model call keeps
// its run's triggers until a lease after the run's deadline. Then any worker
// gets them, also the same one. The hanging call does not keep the run from
// ending.
func TestHungModelCallReleasesItsRun(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, alone := range []bool{true, false} {
		t.Run(fmt.Sprintf("alone %t", alone), func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.callingLead(nil)
				h.models["lead"] = func(context.Context, *modelRequest) (*provider.Response, error) {
					// The model ignores its context.
					time.Sleep(3 * time.Minute)
					return nil, context.DeadlineExceeded
				}
				h.startWorker("victim", workerOptions{})
				if !alone {
					h.startWorker("successor", workerOptions{})
				}
				h.awaitReady()
				from := time.Now()
				r := h.root("lead")
				h.submitTo(r, "go", [2]string{subjects.HeaderDeadline, from.Add(time.Minute).Format(time.RFC3339Nano)})
				h.expectFailed(r, run.KindTimeout, "timeout after 60s")
				h.tookAtMost(from, time.Minute+3*bus.DefaultAckWait)
				time.Sleep(5 * time.Minute)
				if n := len(h.requests("lead")); n != 1 {
					t.Errorf("%d requests, want 1", n)
				}
				h.checkVerified()
			})
		})
	}
}
