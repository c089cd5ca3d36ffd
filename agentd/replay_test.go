package agentd_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// removeConsumers removes the consumers of the runs that workers share, as a
// person may.
func (h *harness) removeConsumers() error {
	return h.eachConsumer(func(js jetstream.JetStream, stream, name string) error {
		err := js.DeleteConsumer(h.ctx, stream, name)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			return nil
		}
		return err
	})
}

// replaceConsumers removes the consumers of the runs that workers share, and
// makes them again.
func (h *harness) replaceConsumers() error {
	return h.eachConsumer(func(js jetstream.JetStream, stream, name string) error {
		c, err := js.Consumer(h.ctx, stream, name)
		if err != nil {
			return err
		}
		if err := js.DeleteConsumer(h.ctx, stream, name); err != nil {
			return err
		}
		_, err = js.CreateConsumer(h.ctx, stream, c.CachedInfo().Config)
		return err
	})
}

// eachConsumer calls do for each consumer of the runs that workers share.
func (h *harness) eachConsumer(do func(js jetstream.JetStream, stream, name string) error) error {
	_, js := h.conn.NATS()
	for partition := range h.conn.Space().Partitions() {
		names, err := bus.Consumers{Conn: h.conn}.ConsumerNames(h.ctx, partition)
		if err != nil {
			return err
		}
		for _, name := range names {
			if !strings.HasPrefix(name, "agent_") && name != "roots" && name != "activations" {
				continue
			}
			if err := do(js, h.conn.Space().Stream(partition).Name, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// countQuestions counts the questions whether a worker has a message in hand.
func (h *harness) countQuestions() *atomic.Int64 {
	var n atomic.Int64
	err := h.conn.Watch(h.ctx, "axe.worker.*", func(m bus.Stored) {
		if len(m.Body) > 0 {
			n.Add(1)
		}
	})
	if err != nil {
		h.tb.Fatal(err)
	}
	return &n
}

// heldRuns is the number of runs that holdRuns submits.
const heldRuns = 12

// otherRequests is the number of other requests that holdRuns makes: of its
// quick roots, of the first turns of two leads, and of their two children.
const otherRequests = heldRuns + 2 + 2

// holdRuns starts workers, and submits the runs that it returns: ten leaves,
// whose triggers are their calls, and two leads, whose triggers are the
// outcomes of their children. When it returns, a request for each of them is in
// flight. The models answer one after the other, the first one after 20
// seconds. Before the leaves come quick runs. Some of these wait for a slot if
// the workers have no more than heldRuns slots together.
func (h *harness) holdRuns(workers, slots int) (held []subjects.Run) {
	h.agents = []configs.Agent{define("lead", []string{"quick"}), define("leaf", nil), define("quick", nil)}
	h.models["quick"] = delayed(2*time.Second, says("quick"))
	var asked atomic.Int64
	slow := func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		return delayed(time.Duration(12+8*asked.Add(1))*time.Second, says("done"))(ctx, req)
	}
	h.models["lead"], h.models["leaf"] = turns(calls(call("quick", "x")), slow), slow
	for i := range workers {
		h.startWorker(fmt.Sprint("w", i), workerOptions{Config: agentd.Config{Slots: slots, Grace: time.Millisecond}})
	}
	h.awaitReady()
	submit := func(agent string, n int) {
		for range n {
			held = append(held, h.submit(agent, "x"))
		}
		h.eventually("all runs are being asked", func() bool { return int(asked.Load()) == len(held) })
	}
	submit("lead", 2)
	for range heldRuns {
		h.submit("quick", "x")
	}
	time.Sleep(time.Second)
	submit("leaf", heldRuns-2)
	time.Sleep(time.Second)
	return held
}

// expectAsked waits for the runs' answers, and for the replays that come behind
// them. Then it compares the number of requests that they took.
func (h *harness) expectAsked(held []subjects.Run, want int) {
	for _, r := range held {
		h.expectCompleted(r, "done")
	}
	time.Sleep(time.Minute)
	if n := len(h.requests("")) - otherRequests; n != want {
		h.tb.Errorf("the models were asked %d times, want %d", n, want)
	}
	h.checkVerified()
}

// TestRemovedConsumer: all messages come again after their consumers were
// removed. No model is asked again for a message that a worker has in hand: not
// by that worker, and not by another one. A worker with all its slots in use
// has no request at a consumer, and does not learn that it was removed.
func TestRemovedConsumer(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, workers := range []int{1, 3} {
		for _, slots := range []int{heldRuns / workers, 2 * heldRuns} {
			t.Run(fmt.Sprintf("%d workers with %d slots", workers, slots), func(t *testing.T) {
				t.Parallel()
				withPartitions(t, 1, func(h *harness) {
					held := h.holdRuns(workers, slots)
					if err := h.removeConsumers(); err != nil {
						t.Fatal(err)
					}
					h.expectAsked(held, heldRuns)
				})
			})
		}
	}
}

// TestConsumerRemovedAsAWorkerStarts: a worker starts just after the consumers
// were removed, and makes new ones at once. A message that comes again then is
// younger than half a second. Its model is not asked again.
func TestConsumerRemovedAsAWorkerStarts(t *testing.T) {
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil)}
		h.models["lead"] = delayed(time.Minute, says("done"))
		h.startWorker("w1", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "x")
		h.awaitRequests("lead", 1)
		if err := h.removeConsumers(); err != nil {
			t.Fatal(err)
		}
		h.startWorker("w2", workerOptions{})
		h.expectCompleted(r, "done")
		if n := len(h.requests("lead")); n != 1 {
			t.Errorf("the model was asked %d times, want once", n)
		}
	})
}

// TestConsumerReplacedUnseen: two workers have all their slots in use while the
// consumers are removed and made again, so they do not learn of it. The one that
// is free first receives the other one's message. Its model is not asked again.
func TestConsumerReplacedUnseen(t *testing.T) {
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		h.agents = []configs.Agent{define("slow", nil), define("quick", nil)}
		h.models["slow"] = delayed(time.Minute, says("done"))
		h.models["quick"] = delayed(20*time.Second, says("done"))
		var all []subjects.Run
		for i, agent := range h.agents {
			h.startWorker(fmt.Sprint("w", i), workerOptions{Config: agentd.Config{Slots: 1}})
			h.awaitReady()
			all = append(all, h.submit(agent.Name, "x"))
			h.awaitRequests(agent.Name, 1)
		}
		if err := h.replaceConsumers(); err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			h.expectCompleted(r, "done")
		}
		if n := len(h.requests("")); n != 2 {
			t.Errorf("the models were asked %d times, want 2", n)
		}
	})
}

// TestReplaysOfOneRun: more messages of a run come again than wait behind a
// model call. The run gets a second queue, but the model is not asked a second
// time.
func TestReplaysOfOneRun(t *testing.T) {
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["lead"] = turns(calls(call("leaf", "x")), delayed(time.Minute, says("done")))
		h.models["leaf"] = delayed(10*time.Second, repeats)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "x")
		h.awaitRequests("leaf", 1)
		for i := range 100 {
			mail := r.Mail(h.key(fmt.Sprint("m", i)))
			h.write(bus.Message{Subject: mail, Body: []byte(`{"from":"user","text":"hi"}`)})
		}
		h.awaitRequests("lead", 2)
		if err := h.removeConsumers(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Second)
		if n := len(h.requests("lead")); n != 2 {
			t.Errorf("the model was asked %d times, want 2", n)
		}
	})
}

// TestReplayOutlivesItsHolder: a worker that kept messages when they came again
// from a new consumer dies, or drains. Another worker goes on with each of
// them: after the lease, or at once.
func TestReplayOutlivesItsHolder(t *testing.T) {
	t.Parallel()
	thorough(t)
	limits := map[string]time.Duration{"dies": bus.DefaultAckWait + 10*time.Second, "drains": 5 * time.Second}
	for end, limit := range limits {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			withPartitions(t, 1, func(h *harness) {
				held := h.holdRuns(3, 2*heldRuns)
				if err := h.removeConsumers(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				lost := 0
				for _, q := range h.requests("") {
					if q.ended.IsZero() && q.worker == h.workers[0] {
						lost++
					}
				}
				began := time.Now()
				if end == "dies" {
					h.workers[0].kill()
				} else {
					h.workers[0].drain()
				}
				h.awaitRequests("", heldRuns+otherRequests+lost)
				h.tookAtMost(began, limit)
				h.expectAsked(held, heldRuns+lost)
			})
		})
	}
}

// TestOrdinaryDeliveriesAskNoWorker: a worker asks no other one for a message
// in hand unless the message's consumer was removed. Calls that wait long for a
// slot are no reason. Nor are calls that wake a dormant agent, though its
// consumers are younger.
func TestOrdinaryDeliveriesAskNoWorker(t *testing.T) {
	t.Parallel()
	thorough(t)
	waking := fewActive
	waking.Slots = 10
	for name, config := range map[string]agentd.Config{"waiting": {Slots: 1}, "waking": waking} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withPartitions(t, 1, func(h *harness) {
				h.agents = severalAgents(5)
				for _, a := range h.agents {
					h.models[a.Name] = delayed(3*time.Second, says("done"))
				}
				for _, name := range []string{"w1", "w2"} {
					h.startWorker(name, workerOptions{Config: config, atStep: func(step) error {
						// So a consumer that a call
						// needs is made after the call.
						time.Sleep(10 * time.Millisecond)
						return nil
					}})
				}
				h.awaitReady()
				questions := h.countQuestions()
				// The first round is for all agents, and the
				// second one for one of them.
				for round := range 2 {
					var all []subjects.Run
					for i := range 10 {
						all = append(all, h.submit(h.agents[i%(5-4*round)].Name, "x"))
					}
					for _, r := range all {
						h.expectCompleted(r, "done")
					}
					time.Sleep(untilDormant)
				}
				if n := questions.Load(); n != 0 {
					t.Errorf("workers were asked %d times for a message in hand, want never", n)
				}
			})
		})
	}
}
