package agentd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// deepTree makes a chain of agents of the given depth, of which each calls the
// next one twice.
func (h *harness) deepTree(depth int) {
	h.agents = nil
	for i := range depth {
		name, next := fmt.Sprintf("a%d", i), fmt.Sprintf("a%d", i+1)
		h.agents = append(h.agents, define(name, []string{next}))
		h.models[name] = turns(delayed(time.Second, splitsTask(next, 2)), delayed(time.Second, joinsResults))
	}
	last := fmt.Sprintf("a%d", depth)
	h.agents = append(h.agents, define(last, nil))
	h.models[last] = delayed(time.Second, says("."))
}

// TestDeepTreesWithOneSlot: deep trees finish on one slot, since a run that
// waits for children holds none.
func TestDeepTreesWithOneSlot(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		const trees, depth = 3, 5
		h.deepTree(depth)
		h.startWorker("w", workerOptions{Config: agentd.Config{Slots: 1}})
		from := time.Now()
		var all []subjects.Run
		for i := range trees {
			all = append(all, h.submit("a0", strconv.Itoa(i)))
		}
		want := "."
		for range depth {
			want = "c0=" + want + "|c1=" + want
		}
		for _, r := range all {
			h.expectCompleted(r, want)
		}
		// A tree has 31 runs with two turns, and 32 leaves with one.
		const turns = trees * (31*2 + 32)
		requests := h.requests("")
		if n := peakConcurrency(requests); n != 1 || len(requests) != turns {
			t.Errorf("%d requests, %d at once, want %d, one at once", len(requests), n, turns)
		}
		h.tookAtMost(from, turns*time.Second*5/4) // the slot is rarely empty
		if got := repeatedTurns(requests); len(got) > 0 {
			t.Errorf("turns that were asked more than once: %v, want none", got)
		}
	})
}

// TestWaitingParentHoldsNoSlot: a worker with one slot serves another tree
// while its runs wait for children on another worker.
func TestWaitingParentHoldsNoSlot(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"slow"}), define("quick", nil)}
		h.models["lead"] = turns(calls(call("slow", "x")), joinsResults)
		h.models["slow"] = delayed(time.Minute, says("slow"))
		h.startWorker("w", workerOptions{Config: agentd.Config{Slots: 1}})
		h.startWorker("elsewhere", workerOptions{agents: []configs.Agent{define("slow", nil)}})
		h.awaitReady()
		var waiting []subjects.Run
		for range 5 {
			waiting = append(waiting, h.submit("lead", "go"))
		}
		h.awaitRequests("slow", 5)
		from := time.Now()
		h.expectCompleted(h.submit("quick", "go"), "quick")
		h.tookAtMost(from, time.Second)
		for _, r := range waiting {
			h.expectCompleted(r, "c0=slow")
		}
	})
}

// TestNeverMoreCallsThanSlots: no worker makes more model calls at once than it
// has slots, though more and wider trees are under way.
func TestNeverMoreCallsThanSlots(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		const slots, trees = 3, 4
		h.agents = []configs.Agent{
			define("lead", []string{"mid"}),
			define("mid", []string{"leaf"}),
			define("leaf", nil),
		}
		h.models["lead"] = turns(delayed(time.Second, splitsTask("mid", 4)), delayed(time.Second, says("done")))
		h.models["mid"] = turns(delayed(time.Second, splitsTask("leaf", 4)), delayed(time.Second, says("mid")))
		h.models["leaf"] = delayed(3*time.Second, repeats)
		for _, name := range []string{"w1", "w2"} {
			h.startWorker(name, workerOptions{Config: agentd.Config{Slots: slots}})
		}
		h.awaitReady()
		var all []subjects.Run
		for i := range trees {
			all = append(all, h.submit("lead", strconv.Itoa(i)))
		}
		for _, r := range all {
			h.expectCompleted(r, "done")
		}
		by := map[string][]modelRequest{}
		for _, a := range h.requests("") {
			by[a.worker.name] = append(by[a.worker.name], a)
		}
		for _, name := range []string{"w1", "w2"} {
			if n := peakConcurrency(by[name]); n != slots {
				t.Errorf("%s had %d requests in flight at its busiest, want %d", name, n, slots)
			}
		}
		if got := repeatedTurns(h.requests("")); len(got) > 0 {
			t.Errorf("turns that were asked more than once: %v, want none", got)
		}
	})
}

// TestSaturatedWorkerLeavesCalls: an idle worker takes the calls that a worker
// without free slots leaves, at once: calls from before it started and later
// ones.
func TestSaturatedWorkerLeavesCalls(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead(nil)
		h.models["lead"] = delayed(10*time.Minute, repeats)
		h.startWorker("busy", workerOptions{Config: agentd.Config{Slots: 2}})
		for i := range 4 {
			h.submit("lead", strconv.Itoa(i))
		}
		h.awaitRequests("lead", 2)
		time.Sleep(30 * time.Second)
		if n := len(h.requests("lead")); n != 2 {
			t.Fatalf("%d requests at a worker with two slots, want 2", n)
		}
		joined := time.Now()
		h.startWorker("idle", workerOptions{})
		h.awaitRequests("lead", 4)
		h.tookAtMost(joined, 1500*time.Millisecond)
		for i := range 6 {
			came := time.Now()
			h.submit("lead", strconv.Itoa(4+i))
			h.awaitRequests("lead", 5+i)
			h.tookAtMost(came, 100*time.Millisecond)
		}
		for _, a := range h.requests("lead")[2:] {
			if a.worker.name != "idle" {
				t.Errorf("%s was asked by %s, want idle", a.text(), a.worker.name)
			}
		}
	})
}

// TestCallsOfOneRequestAreReleased: a worker has requested several calls of one
// agent, and replies take all slots but one before the calls come. The first
// call takes that slot. The others go to an idle worker, and do not wait in the
// first one until their leases are over.
func TestCallsOfOneRequestAreReleased(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		const n = 3
		h.agents = []configs.Agent{define("leaf", nil), define("lead", []string{"leaf"}), define("other", nil)}
		h.models["lead"] = turns(calls(call("leaf", "x")), delayed(40*time.Second, joinsResults))
		const leafTime = 10*time.Second + bus.PullExpiry/2
		h.models["leaf"] = delayed(leafTime, says("leaf"))
		slow := delayed(40*time.Second, repeats)
		h.models["other"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if req.task() == "quick" {
				return repeats(ctx, req)
			}
			return slow(ctx, req)
		}
		h.startWorker("leaves", workerOptions{agents: h.agents[:1]})
		h.startWorker("w", workerOptions{Config: agentd.Config{Slots: n + 1}, agents: h.agents[1:]})
		h.awaitReady()
		for i := range n {
			h.submit("lead", strconv.Itoa(i))
		}
		h.awaitRequests("leaf", n)
		replies := h.requests("leaf")[n-1].began.Add(leafTime)
		// A source that had a call lately requests as many as there are
		// slots.
		time.Sleep(time.Until(replies.Add(-2 * time.Second)))
		h.expectCompleted(h.submit("other", "quick"), "quick")
		time.Sleep(time.Until(replies.Add(time.Millisecond)))
		for range n {
			h.submit("other", "slow")
		}
		time.Sleep(bus.PullExpiry)
		joined := time.Now()
		h.startWorker("idle", workerOptions{agents: h.agents[1:]})
		h.awaitRequests("other", 1+n)
		h.tookAtMost(joined, 3*time.Second)
	})
}

// TestCallsWithoutASlotAreReleased: a worker has requested calls of several
// agents, and replies take all slots but one before the calls come. The calls
// without a slot go to an idle worker.
func TestCallsWithoutASlotAreReleased(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		const n = 5
		h.agents = []configs.Agent{define("leaf", nil), define("lead", []string{"leaf"})}
		h.models["lead"] = turns(calls(call("leaf", "x")), delayed(40*time.Second, joinsResults))
		// A worker renews its requests each second. The replies come
		// halfway between.
		const leafTime = 10*time.Second + bus.PullExpiry/2
		h.models["leaf"] = delayed(leafTime, says("leaf"))
		for i := range n {
			name := fmt.Sprint("other", i)
			h.agents = append(h.agents, define(name, nil))
			h.models[name] = delayed(40*time.Second, says(name))
		}
		h.startWorker("leaves", workerOptions{agents: h.agents[:1]})
		h.startWorker("w", workerOptions{Config: agentd.Config{Slots: n + 1}, agents: h.agents[1:]})
		h.awaitReady()
		var roots []subjects.Run
		for i := range n {
			roots = append(roots, h.submit("lead", strconv.Itoa(i)))
		}
		h.awaitRequests("leaf", n)
		time.Sleep(time.Until(h.requests("leaf")[n-1].began.Add(leafTime + time.Millisecond)))
		for i := range n {
			h.submit(fmt.Sprint("other", i), "go")
		}
		others := func() []modelRequest {
			isOther := func(a modelRequest) bool { return strings.HasPrefix(a.agent, "other") }
			return slices.DeleteFunc(h.requests(""), func(a modelRequest) bool { return !isOther(a) })
		}
		time.Sleep(bus.PullExpiry)
		if got := len(others()); got != 1 {
			t.Fatalf("%d calls have got a slot, want the only one that the replies left", got)
		}
		joined := time.Now()
		h.startWorker("idle", workerOptions{agents: h.agents[1:]})
		h.eventually("all calls are carried out", func() bool { return len(others()) == n })
		h.tookAtMost(joined, 1500*time.Millisecond)
		for _, r := range roots {
			h.expectCompleted(r, "c0=leaf")
		}
		time.Sleep(2 * time.Minute)
		if got := repeatedTurns(append(h.requests("lead"), others()...)); len(got) > 0 {
			t.Errorf("turns that were asked more than once: %v, want none", got)
		}
	})
}

// TestSlowModelsOnFewSlots: model calls last longer than a lease, with more
// agents than slots and many replies waiting. No turn is asked twice, and no
// run is poisoned.
func TestSlowModelsOnFewSlots(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		const agents, trees = 8, 10
		for i := range agents {
			lead, leaf := fmt.Sprintf("lead%d", i), fmt.Sprintf("leaf%d", i)
			h.agents = append(h.agents, define(lead, []string{leaf}), define(leaf, nil))
			h.models[lead] = turns(delayed(25*time.Second, splitsTask(leaf, 2)), delayed(25*time.Second, joinsResults))
			h.models[leaf] = delayed(25*time.Second, repeats)
		}
		h.startWorker("w1", workerOptions{Config: agentd.Config{Slots: 1, Timeout: 24 * time.Hour}})
		h.startWorker("w2", workerOptions{Config: agentd.Config{Slots: 2, Timeout: 24 * time.Hour}})
		h.awaitReady()
		var all []subjects.Run
		for i := range trees {
			all = append(all, h.submit(fmt.Sprintf("lead%d", i%agents), strconv.Itoa(i)))
		}
		for i, r := range all {
			h.expectCompleted(r, fmt.Sprintf("c0=%d.0|c1=%d.1", i, i))
			if got := h.deadLetterReasons(r.Space.Dead()); len(got) > 0 {
				t.Errorf("dead letters: %v, want none", got)
			}
		}
		if got := repeatedTurns(h.requests("")); len(got) > 0 {
			t.Errorf("turns that were asked more than once: %v, want none", got)
		}
		if n, want := len(h.requests("")), trees*4; n != want {
			t.Errorf("%d requests, want %d", n, want)
		}
	})
}

// TestWaitingRepliesKeepTheirLeases: replies wait for the slot of their worker
// for longer than a lease. A second worker, which takes other replies, does not
// get them too: no turn is asked twice.
func TestWaitingRepliesKeepTheirLeases(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("many", []string{"leaf"}),
			define("long", []string{"leaf"}),
			define("leaf", nil),
		}
		start := time.Now()
		until := func(d time.Duration) scriptedModel {
			return func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
				return delayed(time.Until(start.Add(d)), says("leaf"))(ctx, req)
			}
		}
		h.models["many"] = turns(calls(call("leaf", "soon")), delayed(5*time.Second, joinsResults))
		h.models["long"] = turns(calls(call("leaf", "later")), delayed(time.Minute, joinsResults))
		h.models["leaf"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if req.text() == "Task: soon" {
				return until(20*time.Second)(ctx, req)
			}
			return until(20*time.Second+500*time.Millisecond)(ctx, req)
		}
		h.startWorker("leaves", workerOptions{agents: h.agents[2:]})
		h.startWorker("w1", workerOptions{Config: agentd.Config{Slots: 1}, agents: h.agents[:2]})
		h.awaitReady()
		var all []subjects.Run
		for i := range 5 {
			all = append(all, h.submit("many", strconv.Itoa(i)))
		}
		for i := range 4 {
			all = append(all, h.submit("long", strconv.Itoa(i)))
		}
		time.Sleep(time.Until(start.Add(25 * time.Second)))
		h.startWorker("w2", workerOptions{Config: agentd.Config{Slots: 1}, agents: h.agents[:2]})
		for _, r := range all {
			h.expectCompleted(r, "c0=leaf")
		}
		time.Sleep(2 * time.Minute)
		if got := repeatedTurns(append(h.requests("many"), h.requests("long")...)); len(got) > 0 {
			t.Errorf("turns that were asked more than once: %v, want none", got)
		}
	})
}

// TestReplyAndCallShareOneSlot: a worker with one slot receives a reply and, at
// the same moment, its run's call once more. The order of the two is random, so
// the test takes several rounds. In some of them the call holds the slot for
// which the reply's turn waits, and stands behind the reply in the run queue.
// The run completes in each round.
func TestReplyAndCallShareOneSlot(t *testing.T) {
	t.Parallel()
	thorough(t)
	rounds := 10
	if full {
		rounds = 30
	}
	for range rounds {
		withHarness(t, func(h *harness) {
			h.callingLead([]string{"leaf"}, call("leaf", "x"))
			r := h.root("lead")
			var replied atomic.Bool
			victim := h.startWorker("victim", workerOptions{atStep: func(s step) error {
				replied.CompareAndSwap(false, s.After && s.Subject == r.Reply(1, 0))
				if replied.Load() || s.Op == "ack" && s.Subject == r.Call() {
					return errKilled
				}
				return nil
			}})
			h.awaitReady()
			h.submitTo(r, "go")
			h.eventually("the outcome of the leaf", replied.Load)
			victim.kill()
			time.Sleep(2 * bus.DefaultAckWait)
			h.startWorker("successor", workerOptions{Config: agentd.Config{Slots: 1}})
			h.expectCompleted(r, "c0=leaf")
		})
		if t.Failed() {
			return
		}
	}
}

// TestIdleWorkerPullsInStep: an idle worker pulls for all its agents at the
// same moments, whether it has slots for all of them or not.
func TestIdleWorkerPullsInStep(t *testing.T) {
	t.Parallel()
	thorough(t)
	// By the number of slots, the time from one moment to the next. Without a
	// slot for each agent the worker polls.
	for slots, every := range map[int]time.Duration{4: 100 * time.Millisecond, 64: bus.PullExpiry} {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) {
			withHarness(t, func(h *harness) {
				const agents, watched = 16, 10 * time.Second
				for i := range agents {
					h.agents = append(h.agents, define(fmt.Sprint("a", i), nil))
				}
				var mu sync.Mutex
				asked := map[time.Duration]int{}
				from := time.Now()
				err := h.conn.Watch(h.ctx, "$JS.API.CONSUMER.MSG.NEXT.>", func(bus.Stored) {
					mu.Lock()
					defer mu.Unlock()
					asked[time.Since(from).Round(5*time.Millisecond)]++
				})
				if err != nil {
					t.Fatal(err)
				}
				h.startWorker("w", workerOptions{Config: agentd.Config{Slots: slots}})
				// Each agent gets its task at a moment of its
				// own.
				for _, a := range h.agents {
					h.expectCompleted(h.submit(a.Name, "go"), a.Name)
					time.Sleep(137 * time.Millisecond)
				}
				time.Sleep(10 * time.Second)
				mu.Lock()
				clear(asked)
				mu.Unlock()
				time.Sleep(watched)
				mu.Lock()
				defer mu.Unlock()
				n := 0
				for _, k := range asked {
					n += k
				}
				if most := int(watched/every) + 1; len(asked) > most || n < agents*most {
					t.Errorf("%d requests at %d moments, want at least %d, at %d moments at most: %v",
						n, len(asked), agents*most, most, asked)
				}
			})
		})
	}
}

// TestWaitingCallsAreRequested: a worker that has served eight agents lately
// gets 50 calls for one of them. It requests more of them at once than its
// eighth of the slots.
func TestWaitingCallsAreRequested(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		const agents, slots = 8, 64
		h.agents = []configs.Agent{define("lead", []string{"a0"})}
		for i := range agents - 1 {
			h.agents = append(h.agents, define(fmt.Sprint("a", i), nil))
		}
		h.models["lead"] = turns(calls(slices.Repeat([]provider.ToolCall{call("a0", "x")}, 50)...), joinsResults)
		var most atomic.Int64
		err := h.conn.Watch(h.ctx, "$JS.API.CONSUMER.MSG.NEXT.*.agent_a0", func(m bus.Stored) {
			var request struct{ Batch int64 }
			if err := json.Unmarshal(m.Body, &request); err != nil {
				h.tb.Errorf("a request %q: %v", m.Body, err)
			}
			most.Store(max(most.Load(), request.Batch))
		})
		if err != nil {
			t.Fatal(err)
		}
		h.startWorker("w", workerOptions{Config: agentd.Config{Slots: slots}})
		h.awaitReady()
		for _, a := range h.agents[1:] {
			h.expectCompleted(h.submit(a.Name, "go"), a.Name)
		}
		time.Sleep(bus.PullExpiry) // larger requests have stood
		most.Store(0)
		if o := h.awaitOutcome(h.submit("lead", "go"), time.Minute); o.Subtree.Runs != 51 {
			t.Errorf("outcome %s of a tree of %d runs, want 51: %s", o.Status, o.Subtree.Runs, o.Error)
		}
		if n := most.Load(); n <= 1+(slots-agents)/agents {
			t.Errorf("the largest request is for %d calls", n)
		}
	})
}
