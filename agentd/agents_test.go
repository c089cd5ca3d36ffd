package agentd_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
)

// TestAgentAddedAndRemoved: an agent that is added while the worker runs is
// known and served at once. When it is removed, it is neither.
func TestAgentAddedAndRemoved(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		one, two := define("one", []string{"two"}), define("two", nil)
		h.models["one"] = turns(calls(call("two", "x")), joinsResults)
		w := h.startWorker("w", workerOptions{agents: []configs.Agent{one}})
		const unknown = `c0=call_agent error: failed to load agent "two": agent config not found: two`
		h.expectCompleted(h.submit("one", "go"), unknown)
		h.expectFailed(h.submit("two", "go"), run.KindUnknownAgent, "agent config not found: two")

		w.serve(one, two)
		h.awaitReady()
		h.expectCompleted(h.submit("one", "go"), "c0=two")
		h.expectCompleted(h.submit("two", "go"), "two")

		w.serve(one)
		h.awaitReady()
		h.expectCompleted(h.submit("one", "go"), unknown)
		h.expectFailed(h.submit("two", "go"), run.KindUnknownAgent, "agent config not found: two")

		w.serve(one, two)
		h.awaitReady()
		h.expectCompleted(h.submit("one", "go"), "c0=two")
	})
}

// TestAgentChanged: when an agent changes while the worker runs, the next run
// gets the new definition. A running execution keeps the definition that it
// started with.
func TestAgentChanged(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		lead, leaf := define("lead", []string{"leaf"}), define("leaf", nil)
		changed := lead
		changed.SystemPrompt, changed.Digest = "new", "changed"
		h.models["lead"] = turns(calls(call("leaf", "x")), joinsResults)
		h.models["leaf"] = delayed(time.Minute, says("leaf"))
		w := h.startWorker("w", workerOptions{agents: []configs.Agent{lead, leaf}})
		first := h.submit("lead", "first")
		h.awaitRequests("leaf", 1)
		w.serve(changed, leaf)
		second := h.submit("lead", "second")
		h.expectCompleted(first, "c0=leaf")
		h.expectCompleted(second, "c0=leaf")
		for _, a := range h.requests("lead") {
			if want := map[string]string{"first": "", "second": "new"}[a.text()]; a.System != want {
				t.Errorf("turn %d of the %s run has the system text %q, want %q", a.turn, a.text(), a.System, want)
			}
		}
	})
}

// TestRemovedAgentsRunsGoOn: a run that waits for a child goes on at the worker
// that removed its agent, if no other worker has the agent. A call that no
// worker has taken is refused, but only after some seconds: an agent that is
// back by then loses no call.
func TestRemovedAgentsRunsGoOn(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		h.models["leaf"] = delayed(time.Minute, says("leaf"))
		w := h.startWorker("w", workerOptions{Config: agentd.Config{Slots: 1}})
		awaiting := h.submit("lead", "first")
		h.awaitRequests("leaf", 1)
		queued := h.submit("lead", "second")
		h.awaitReady()
		w.serve(h.agents[1])
		h.expectCompleted(awaiting, "c0=leaf")
		h.expectFailed(queued, run.KindUnknownAgent, "agent config not found: lead")

		w.serve(h.agents...)
		h.awaitReady()
		back := h.submit("lead", "third")
		h.awaitRequests("leaf", 2)
		queued = h.submit("lead", "fourth")
		// The leaf takes a minute. The worker's one slot becomes free
		// while the lead is removed.
		time.Sleep(time.Minute - time.Second)
		w.serve(h.agents[1])
		time.Sleep(beforeRemovedGrace)
		w.serve(h.agents...) // a deployment brings it back
		h.expectCompleted(back, "c0=leaf")
		h.expectCompleted(queued, "c0=leaf")
	})
}

// beforeRemovedGrace is less than the time after which a worker refuses the
// calls of a removed agent.
const beforeRemovedGrace = 4 * time.Second

// TestCallRefusedByLastWorkerOnly: a worker that has removed an agent does not
// refuse the agent's calls while another worker's card is in the directory. The
// calls wait for a worker that serves the agent.
func TestCallRefusedByLastWorkerOnly(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		w1 := h.startWorker("w1", workerOptions{})
		h.awaitReady()
		w2 := h.startWorker("w2", workerOptions{})
		h.awaitReady()
		w2.serve(h.agents[1])
		h.awaitReady()
		w1.kill()
		r := h.submit("lead", "go")
		time.Sleep(time.Minute)
		h.startWorker("w3", workerOptions{})
		h.expectCompleted(r, "c0=leaf")
	})
}

// TestRemovedAgentsRunMovesOn: a run whose agent its worker has removed goes on
// at a worker that has the agent.
func TestRemovedAgentsRunMovesOn(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		h.models["leaf"] = delayed(time.Minute, says("leaf"))
		w := h.startWorker("w1", workerOptions{})
		r := h.submit("lead", "go")
		h.awaitRequests("leaf", 1)
		w.serve(h.agents[1])
		h.startWorker("w2", workerOptions{})
		h.expectCompleted(r, "c0=leaf")
		if a := h.requests("lead")[1]; a.worker.name != "w2" {
			t.Errorf("%s went on with the run, want w2", a.worker.name)
		}
	})
}

// TestKnownWhileAnyWorkerServes: an agent that one worker withdraws stays known
// while another worker serves it, whichever announced it first.
func TestKnownWhileAnyWorkerServes(t *testing.T) {
	t.Parallel()
	for _, leaver := range []int{0, 1} {
		withHarness(t, func(h *harness) {
			h.callingLead([]string{"leaf"}, call("leaf", "x"))
			for _, name := range []string{"w1", "w2"} {
				h.startWorker(name, workerOptions{})
				h.awaitReady()
			}
			h.workers[leaver].serve(h.agents[0])
			h.awaitReady()
			h.expectCompleted(h.submit("lead", "go"), "c0=leaf")
			h.expectCompleted(h.submit("leaf", "go"), "leaf")
			h.workers[1-leaver].serve(h.agents[0])
			h.awaitReady()
			h.expectFailed(h.submit("leaf", "go"), run.KindUnknownAgent, "agent config not found: leaf")
		})
	}
}

// TestKnownAfterItsWorkersDied: after the workers of an agent have died, the
// agent stays known, and a call of it waits for a new worker.
func TestKnownAfterItsWorkersDied(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		w := h.startWorker("w1", workerOptions{agents: h.agents[1:]})
		h.startWorker("w2", workerOptions{agents: h.agents[:1]})
		h.awaitReady()
		w.kill()
		r := h.submit("lead", "go")
		time.Sleep(5 * time.Minute)
		h.startWorker("w3", workerOptions{agents: h.agents[1:]})
		h.expectCompleted(r, "c0=leaf")
	})
}

// TestRemovalGivesBackOnce: a worker removes an agent while its request for
// several calls of the agent is at the server. A call that arrives under this
// request is given back once. If the worker gave it back while the request is
// open, the server would deliver it here again until the request is used up.
func TestRemovalGivesBackOnce(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		h.startWorker("other", workerOptions{agents: h.agents[:1]})
		var givenBack atomic.Int64
		w := h.startWorker("w", workerOptions{atStep: func(s step) error {
			if s.Op == "nak" && s.After && strings.HasSuffix(s.Subject, ".r-1-0.call") {
				givenBack.Add(1)
			}
			return nil
		}})
		h.announce("leaf")
		time.Sleep(10 * time.Second)
		// After a call the worker pulls for several more. A pull ends
		// with a full second after the worker's start, and the next
		// call arrives in the middle of one.
		h.submit("leaf", "go")
		time.Sleep(300 * time.Millisecond)
		w.serve(h.agents[0])
		time.Sleep(100 * time.Millisecond)
		// The card of another worker keeps the agent known.
		h.announce("leaf")
		r := h.submit("lead", "go")
		time.Sleep(5 * time.Second)
		h.startWorker("staying", workerOptions{})
		h.expectCompleted(r, "c0=leaf")
		if n := givenBack.Load(); n != 1 {
			t.Errorf("the call was given back %d times, want once", n)
		}
	})
}

// TestWrongFile: while an agent's file is wrong, the agent's caller is told the
// mistake. A corrected file, or another worker with a correct one, ends that.
func TestWrongFile(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		leaf := h.agents[1]
		wrong := agentd.Broken{
			Name:    h.root("leaf").Agent,
			Problem: "leaf.toml:3: params.temperature must be between 0 and 2",
		}
		w := h.startWorker("w1", workerOptions{agents: h.agents[:1]})
		try := func(want string) {
			t.Helper()
			h.awaitReady()
			h.expectCompleted(h.submit("lead", "go"), want)
		}
		serve := func(agents []configs.Agent, broken ...agentd.Broken) {
			t.Helper()
			if err := w.Serve(configs.Definitions{Agents: agents}, broken...); err != nil {
				t.Fatal(err)
			}
		}
		const told = `c0=call_agent error: failed to load agent "leaf": leaf.toml:3: params.temperature must be ` +
			`between 0 and 2`
		serve(h.agents[:1], wrong)
		try(told)
		h.expectFailed(
			h.submit("leaf", "go"),
			run.KindError,
			`failed to load agent "leaf": leaf.toml:3: params.temperature must be between 0 and 2`,
		)
		serve(h.agents)
		try("c0=leaf")
		serve(h.agents[:1], wrong)
		try(told)
		other := h.startWorker("w2", workerOptions{agents: []configs.Agent{leaf}})
		try("c0=leaf")
		other.serve()
		try(told)
		serve(h.agents[:1])
		try(`c0=call_agent error: failed to load agent "leaf": agent config not found: leaf`)
	})
}

// TestModelWithoutProvider: a call of an agent whose model names no provider
// fails, and the caller's model is told why.
func TestModelWithoutProvider(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		h.agents[1].Model = "gpt"
		h.startWorker("w", workerOptions{})
		h.expectCompleted(
			h.submit("lead", "go"),
			`c0=call_agent error: invalid model for agent "leaf": invalid model format "gpt": expected `+
				`provider/model-name`,
		)
	})
}

// TestRemovedAfterARestart: a worker that removes an agent withdraws the card
// that a former worker announced. A worker that finds the agent's file wrong
// replaces that card by one with the mistake.
func TestRemovedAfterARestart(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		h.startWorker("w1", workerOptions{}).drain()
		w := h.startWorker("w2", workerOptions{})
		h.awaitReady()
		w.serve(h.agents[0])
		h.awaitReady()
		h.expectFailed(h.submit("leaf", "go"), run.KindUnknownAgent, "agent config not found: leaf")
		h.expectCompleted(
			h.submit("lead", "go"),
			`c0=call_agent error: failed to load agent "leaf": agent config not found: leaf`,
		)

		w.serve(h.agents...)
		h.awaitReady()
		w.drain()
		w = h.startWorker("w3", workerOptions{agents: h.agents[:1]})
		broken := agentd.Broken{Name: h.root("leaf").Agent, Problem: "leaf.toml:1: no"}
		if err := w.Serve(configs.Definitions{Agents: h.agents[:1]}, broken); err != nil {
			t.Fatal(err)
		}
		h.awaitReady()
		h.expectFailed(h.submit("leaf", "go"), run.KindError, `failed to load agent "leaf": leaf.toml:1: no`)
	})
}

// TestDifferingWorkersStopAnnouncing: two workers have different definitions of
// an agent, a third one removes the agent, and a fourth one finds the agent's
// file wrong. They replace each other's cards a few times only, and the agent
// stays served.
func TestDifferingWorkersStopAnnouncing(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"})
		leaf, other := h.agents[1], h.agents[1]
		other.Digest = "other"
		wrong := agentd.Broken{Name: h.root("leaf").Agent, Problem: "leaf.toml:1: no"}
		h.startWorker("w1", workerOptions{agents: []configs.Agent{leaf}})
		h.startWorker("w2", workerOptions{agents: []configs.Agent{other}})
		gone := h.startWorker("w3", workerOptions{agents: []configs.Agent{leaf}})
		bad := h.startWorker("w4", workerOptions{agents: []configs.Agent{leaf}})
		h.awaitReady()
		gone.serve()
		if err := bad.Serve(configs.Definitions{}, wrong); err != nil {
			t.Fatal(err)
		}
		h.awaitReady()
		dir, err := h.conn.Directory(h.ctx)
		if err != nil {
			t.Fatal(err)
		}
		value, before, ok, err := dir.Get(h.ctx, "leaf")
		if err != nil || !ok || strings.Contains(string(value), "problem") {
			t.Fatalf("the card is %s (found %t), error %v, want one without a problem", value, ok, err)
		}
		// Each call of Serve makes a worker look at its cards again.
		for _, w := range h.workers {
			w.serve(h.agents[0])
			h.awaitReady()
			switch w.name {
			case "w1":
				w.serve(h.agents[0], leaf)
			case "w2":
				w.serve(h.agents[0], other)
			}
		}
		time.Sleep(10 * time.Minute)
		// The calls of Serve change the directory some 12 times.
		if _, after, _, err := dir.Get(h.ctx, "leaf"); err != nil || after > before+20 {
			t.Errorf("%d changes of the directory, want 20 at most; error %v", after-before, err)
		}
		h.expectCompleted(h.submit("leaf", "go"), "leaf")
	})
}

// TestManyCardsWrittenTogether: a worker with many agents announces all of them
// with one write. If the server refuses that, the worker announces each by
// itself.
func TestManyCardsWrittenTogether(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		withHarness(t, func(h *harness) {
			var tried atomic.Int64
			atStep := func(s step) error {
				if s.Op != "write" || s.Subject != "$KV.AXE_AGENTS.*" || s.After {
					return nil
				}
				tried.Add(1)
				if refused {
					return errBusBroken
				}
				return nil
			}
			h.callingLead([]string{"leaf"}, call("leaf", "x"))
			agents := h.agents
			for i := range 100 {
				a := h.agents[1]
				a.Name = fmt.Sprintf("leaf%d", i)
				agents = append(agents, a)
			}
			h.startWorker("w1", workerOptions{agents: agents, atStep: atStep})
			h.awaitReady()
			dir, err := h.conn.Directory(h.ctx)
			if err != nil {
				t.Fatal(err)
			}
			cards, err := dir.All(h.ctx)
			if err != nil || len(cards) != len(agents) || tried.Load() != 1 {
				t.Errorf("refused %t: %d of %d cards after %d writes of many, want all after 1; error %v",
					refused, len(cards), len(agents), tried.Load(), err)
			}
			h.expectCompleted(h.submit("lead", "go"), "c0=leaf")
		})
	}
}

// TestCallersReadDescriptions: the model of a caller reads the description of
// an agent that another worker serves. A changed description holds for the next
// tree.
func TestCallersReadDescriptions(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		leaf := h.agents[1]
		leaf.Description = "Knows leaves."
		leaf.Digest = "first"
		h.startWorker("w1", workerOptions{agents: h.agents[:1]})
		other := h.startWorker("w2", workerOptions{agents: []configs.Agent{leaf}})
		h.awaitReady()
		// check reads the description in the lead's request with the
		// index n.
		check := func(n int, want string) {
			t.Helper()
			h.expectCompleted(h.submit("lead", "go"), "c0=leaf")
			if got := h.requests("lead")[n].Tools[0].Description; !strings.HasSuffix(got, "\n- leaf: "+want) {
				t.Errorf("the model read %q, want the description %q", got, want)
			}
		}
		check(0, "Knows leaves.")
		leaf.Description = "Knows roots."
		leaf.Digest = "second"
		other.serve(leaf)
		h.awaitReady()
		check(2, "Knows roots.")
	})
}
