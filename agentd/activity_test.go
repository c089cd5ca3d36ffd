package agentd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// fewActive lets every agent but one go dormant after a second without work.
var fewActive = agentd.Config{ActiveAgents: 1, DormantAfter: time.Second}

// untilDormant is more than the time in which, with fewActive, an agent without
// work becomes dormant and the server removes its consumers.
const untilDormant = time.Minute

// consumers returns the agents that have a consumer for calls on the first
// partition.
func (h *harness) consumers() (agents []string) {
	for _, a := range h.agents {
		c := bus.ConsumerConfig{Stream: "RUNS", Name: "agent_" + a.Name}
		_, ok, err := bus.Consumers{Conn: h.conn}.Position(h.ctx, c)
		if err != nil {
			h.tb.Fatal(err)
		}
		if ok {
			agents = append(agents, a.Name)
		}
	}
	return agents
}

// severalAgents makes the agents m0, m1 …, without sub-agents.
func severalAgents(n int) (all []configs.Agent) {
	for i := range n {
		all = append(all, define(fmt.Sprint("m", i), nil))
	}
	return all
}

// startFewActive starts workers that let agents go dormant.
func (h *harness) startFewActive(names ...string) {
	for _, name := range names {
		h.startWorker(name, workerOptions{Config: fewActive})
	}
	h.awaitReady()
}

// TestDormantAgents: an agent whose workers serve many agents has consumers
// only while it has work. It gets them with its first call, loses them after a
// time without work, and gets them again with the next call.
func TestDormantAgents(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.agents = severalAgents(5)
		h.startFewActive("w1", "w2")
		if left := h.consumers(); len(left) > 0 {
			t.Errorf("%v have consumers before their first call", left)
		}
		for range 2 {
			began := time.Now()
			for _, a := range h.agents {
				h.expectCompleted(h.submit(a.Name, "go"), a.Name)
			}
			h.tookAtMost(began, 5*time.Second)
			if n := len(h.consumers()); n != 5 {
				t.Errorf("%d agents have consumers, want 5", n)
			}
			time.Sleep(untilDormant)
			if left := h.consumers(); len(left) > 1 {
				t.Errorf("%v have consumers without work, want one agent at most", left)
			}
		}
	})
}

// TestFewAgentsStayActive: a worker with few agents keeps the consumers of all
// of them, also beside a worker that would let them go. An autoscaler watches
// the consumers.
func TestFewAgentsStayActive(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.agents = severalAgents(3)
		h.startWorker("few", workerOptions{})
		h.startFewActive("many")
		for _, a := range h.agents {
			h.expectCompleted(h.submit(a.Name, "go"), a.Name)
		}
		time.Sleep(3 * untilDormant)
		if n := len(h.consumers()); n != 3 {
			t.Errorf("%d agents have consumers, want 3", n)
		}
	})
}

// TestWorkOfDormantAgents: a run goes on though its agent became dormant while
// it waited for a child. A task that is submitted to a dormant agent while no
// worker runs is carried out later. With four partitions, four agents may stay
// active, and the lead may be one of them.
func TestWorkOfDormantAgents(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprintf("%d partitions", partitions), func(t *testing.T) {
			t.Parallel()
			withPartitions(t, partitions, func(h *harness) {
				h.callingLead([]string{"leaf", "other"}, call("leaf", "x"), call("other", "y"))
				h.models["leaf"] = delayed(2*untilDormant, says("leaf"))
				h.startFewActive("w1")
				for range 4 {
					h.submit("other", "go")
				}
				r := h.submit("lead", "go")
				h.awaitRequests("leaf", 1)
				h.workers[0].drain()
				h.startFewActive("w2", "w3")
				time.Sleep(untilDormant)
				if left := h.consumers(); partitions == 1 && slices.Contains(left, "lead") {
					t.Errorf("%v have consumers while the lead waits, want none of the lead", left)
				}
				h.expectCompleted(r, "c0=leaf|c1=other")
				time.Sleep(untilDormant)
				for _, w := range h.workers[1:] {
					w.kill()
					<-w.ended
				}
				r = h.submit("lead", "go")
				other := h.submit("other", "go")
				time.Sleep(untilDormant)
				h.startFewActive("w4")
				h.expectCompleted(other, "other")
				h.expectCompleted(r, "c0=leaf|c1=other")
				h.checkVerified()
			})
		})
	}
}

// TestCallWhileLeaving: a worker has found an agent without work and is about
// to mark it as leaving. A call that comes then is carried out. The worker that
// has taken the call dies, and another worker takes it over.
func TestCallWhileLeaving(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.agents = severalAgents(3)
		h.models["m0"] = delayed(20*time.Second, says("m0"))
		var late subjects.Run
		h.startWorker("checks", workerOptions{
			Config: agentd.Config{ActiveAgents: 1, DormantAfter: 30 * time.Second, Slots: 1},
			atStep: func(s step) error {
				if s.Op != "write" || s.After || !strings.HasSuffix(s.Subject, "AXE_ACTIVE.0.m0") {
					return nil
				}
				if len(h.requests("m0")) != 1 || late.Tree != (subjects.Tree{}) {
					return nil
				}
				// This write marks the agent as leaving.
				late = h.submit("m0", "again")
				h.awaitRequests("m0", 2)
				return nil
			},
		})
		h.awaitReady()
		for _, a := range h.agents {
			h.expectCompleted(h.submit(a.Name, "go"), a.Name)
		}
		h.eventually("the model is asked about the late call", func() bool { return len(h.requests("m0")) == 2 })
		time.Sleep(10 * time.Second)
		h.workers[0].kill() // it has taken the call
		h.startFewActive("other")
		h.expectCompleted(late, "m0")
	})
}

// TestCrashWhileDormant kills a worker at each of its steps while agents become
// active and dormant. A successor completes the tree. Without -rapid.checks it
// takes one step in 12.
func TestCrashWhileDormant(t *testing.T) {
	t.Parallel()
	thorough(t)
	atEachStep(t, 40, 12, func(h *harness, at int) (reached bool) {
		h.callingLead([]string{"leaf", "other"})
		h.models["lead"] = turns(calls(call("leaf", "x")), calls(call("other", "y")), joinsResults)
		h.models["leaf"] = delayed(20*time.Second, says("leaf"))
		h.models["other"] = delayed(2*untilDormant, says("other"))
		f := &faultAt{step: at, config: fewActive, strike: func(s step) { s.worker.kill() }}
		root, o := f.runTask(h, "lead", "go")
		if o.Result != "c0=other" {
			h.tb.Errorf("outcome %s %s %q, want the result \"c0=other\"", o.Status, o.Error, o.Result)
		}
		if n := len(h.requests("lead")); n > 4 {
			h.tb.Errorf("%s: the lead's model was asked %d times, want 4 at most", root, n)
		}
		h.checkVerified()
		h.startFewActive("last") // the victim may have died after the outcome
		time.Sleep(2 * untilDormant)
		if left := h.consumers(); len(left) > 1 {
			h.tb.Errorf("%v have consumers without work, want one agent at most", left)
		}
		return f.struck()
	})
}

// TestActiveBucketRemoved: calls that wait for a slot are served though a
// person removes the records of the active agents. The calls were acknowledged
// to the consumer "activations", so they are not delivered there again.
func TestActiveBucketRemoved(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.agents = severalAgents(5)
		for _, a := range h.agents {
			h.models[a.Name] = delayed(2*time.Minute, says(a.Name))
		}
		cfg := fewActive
		cfg.Slots = 1
		h.startWorker("w", workerOptions{Config: cfg})
		h.awaitReady()
		var waiting []subjects.Run
		for _, a := range h.agents {
			waiting = append(waiting, h.submit(a.Name, "go"))
		}
		time.Sleep(time.Minute)
		_, js := h.conn.NATS()
		if err := js.DeleteKeyValue(h.ctx, "AXE_ACTIVE"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i, r := range waiting {
			h.expectCompleted(r, h.agents[i].Name)
		}
		h.tookAtMost(began, 15*time.Minute)
	})
}
