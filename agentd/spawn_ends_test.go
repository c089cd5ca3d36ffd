package agentd_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestSpawnEnds: of the runs of one call, one takes long and is waited for, one
// is cancelled, and the model of one never answers, so that the caller's
// timeout ends it. All three begin at once.
func TestSpawnEnds(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.spawningLead(
			[]string{"leaf"},
			useJSON(
				"spawn_agents",
				`{"tasks":[{"task":"slow","agent":"leaf"},{"task":"unwanted","agent":"leaf"},`+
					`{"task":"hangs","agent":"leaf"}]}`,
			),
		)
		timeout(600)(&h.agents[0])
		h.models["leaf"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if req.text() == "slow" {
				return delayed(9*time.Minute, submits("at last"))(ctx, req)
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("leaf", 3)
		time.Sleep(time.Second)
		began := time.Now()
		h.publish(h.child(r, "leaf", 1).Cancel(), "")
		if o := h.awaitOutcome(r, time.Hour); o.Status != run.StatusCompleted {
			t.Errorf("outcome of the lead %+v, want it completed", o)
		}
		h.tookAtMost(began, 10*time.Minute+time.Second)
		want := strings.Join([]string{
			`{"agent_id":"r-1-0","outcome":{"success":{"result":"at last"}},"task":"slow","tokens":110,"turns":1}`,
			`{"agent_id":"r-1-1","outcome":{"failure":{"error":"cancelled","error_kind":"cancelled"}},` +
				`"task":"unwanted","tokens":0,"turns":0}`,
			`{"agent_id":"r-1-2","outcome":{"failure":{"error":"timeout after 600s","error_kind":"timed_out"}},` +
				`"task":"hangs","tokens":0,"turns":0}`,
		}, "\n")
		if diff := cmp.Diff(want, h.spawnResultOf(0)); diff != "" {
			t.Errorf("the result of spawn_agents (-want +got):\n%s", diff)
		}
		requests := h.requests("leaf")
		if n := peakConcurrency(requests); n != 3 || len(requests) != 3 {
			t.Errorf("%d requests, %d at once, want 3, all at once", len(requests), n)
		}
		for _, a := range requests {
			if apart := a.began.Sub(requests[0].began); apart > 50*time.Millisecond {
				t.Errorf("%s began %v after the first one, want 50ms at most", a.text(), apart)
			}
		}
		h.eventually("the request that hangs is aborted", func() bool {
			return !slices.ContainsFunc(h.requests("leaf"), func(a modelRequest) bool { return a.ended.IsZero() })
		})
		h.checkVerified()
	})
}

// TestSpawnBesideOthers: a turn's spawned runs are awaited with its other
// calls, and each result stands in its call's place.
func TestSpawnBesideOthers(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.spawningLead(
			[]string{"leaf"},
			use("check_mail"),
			useJSON("spawn_agents", `{"tasks":[{"task":"a","agent":"leaf"},{"task":"b","agent":"leaf"}]}`),
			call("leaf", "c"),
			use("nonsense"),
			useJSON("spawn_agent", `{"task":"d","agent":"leaf"}`),
		)
		h.agents[0].Delegation.Styles = configs.Styles{configs.StyleCall, configs.StyleSpawn, configs.StyleMail}
		h.models["leaf"] = repeats
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitOutcome(r, time.Hour)
		results := h.requests("lead")[1].results()
		// "" stands for the result of a spawn call, which is compared below.
		for i, want := range []string{"no mail", "", "c", `Unknown tool: "nonsense"`, ""} {
			if want != "" && results[i].Content != want || results[i].IsError != (i == 3) {
				t.Errorf("call %d: got %+v, want %q, an error: %t", i, results[i], want, i == 3)
			}
		}
		entry := func(id, task string) string {
			const entry = `{"agent_id":%q,"outcome":{"success":{"result":%q}},"task":%q,"tokens":11,"turns":1}`
			return fmt.Sprintf(entry, id, task, task)
		}
		if diff := cmp.Diff(entry("r-1-1", "a")+"\n"+entry("r-1-2", "b"), h.spawnResultOf(1)); diff != "" {
			t.Errorf("the result of spawn_agents (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(entry("r-1-5", "d"), h.spawnResultOf(4)); diff != "" {
			t.Errorf("the result of spawn_agent (-want +got):\n%s", diff)
		}
		h.checkVerified()
	})
}

// TestSubmitBesideSpawn: a run that submits and spawns in one turn has done
// neither. No run starts, and it may try again.
func TestSubmitBesideSpawn(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.spawningLead([]string{"mid"}, useJSON("spawn_agent", `{"task":"x","agent":"mid"}`))
		spawning(&h.agents[1])
		h.models["mid"] = turns(
			calls(
				use("submit_result", "result", "early"),
				useJSON("spawn_agent", `{"task":"y"}`),
				useJSON("spawn_agents", `{"tasks":[{"task":"z"}]}`),
			),
			submits("late"),
		)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitOutcome(r, time.Hour)
		requests := h.requests("mid")
		if len(requests) != 2 || len(requests[1].results()) != 3 {
			t.Fatalf("the model was asked %d times, want twice, the second time with three results", len(requests))
		}
		for i, name := range []string{"submit_result", "spawn_agent", "spawn_agents"} {
			want := name + " error: submit_result has to be the only call of its turn: nothing of this turn was " +
				"carried out"
			if got := requests[1].results()[i]; got.Content != want || !got.IsError {
				t.Errorf("result %+v, want the error %q", got, want)
			}
		}
		if got := h.spawnResultOf(0); !strings.Contains(got, `"result":"late"`) {
			t.Errorf("result %s, want late", got)
		}
		if n := h.countRuns(r); n != 2 {
			t.Errorf("%d runs, want 2: lead and mid", n)
		}
		h.checkVerified()
	})
}

// TestAdHocReadsNoMemory: an ad hoc run is shown its task, and nothing of the
// memory of its parent's agent. Its parent is shown that memory.
func TestAdHocReadsNoMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		store := memory.Files{Dir: dir}
		h.spawningLeadWithMemory("look", says("seen"))
		h.startWorker("w", workerOptions{Config: agentd.Config{Memory: store}})
		h.awaitReady()
		for range 2 {
			h.awaitOutcome(h.submit("lead", "an old secret"), time.Hour)
			h.awaitReady()
		}
		requests := h.requests("lead")
		if len(requests) != 6 || !strings.Contains(requests[3].System, "an old secret") {
			t.Fatalf("%d requests, want 6, with the memory in the fourth; the system text of the last one: %q",
				len(requests), requests[len(requests)-1].System)
		}
		for _, a := range []modelRequest{requests[1], requests[4]} {
			if a.text() != "look" || a.System != tool.AdHocSystem {
				t.Errorf("asked %q with the system text %q, want look and the text of ad hoc runs", a.text(), a.System)
			}
		}
	})
}

// TestNoSideChannel: a called or spawned run cannot write to its caller, and
// its text before its answer reaches no other run.
func TestNoSideChannel(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.spawningLead(
			[]string{"leaf"},
			call("leaf", "x"),
			useJSON("spawn_agents", `{"tasks":[{"task":"y","agent":"leaf"},{"task":"z"}]}`),
		)
		h.agents[0].Delegation.Styles = configs.Styles{configs.StyleCall, configs.StyleSpawn}
		// A run without tools would end with its first answer.
		h.agents[1].SubAgents = []string{"leaf"}
		const before = "a text before the answer"
		writesFirst := turns(func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			resp, err := calls(use("send", "to", "r", "message", before))(ctx, req)
			resp.Content = before
			return resp, err
		}, func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if r := req.results()[0]; !r.IsError || r.Content != `Unknown tool: "send"` {
				t.Errorf("the result of send is %+v, want an unknown tool", r)
			}
			return says("done")(ctx, req)
		})
		plan := h.models["lead"]
		h.models["leaf"] = writesFirst
		h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if req.text() == "z" {
				return writesFirst(ctx, req)
			}
			return plan(ctx, req)
		}
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitOutcome(r, time.Hour)
		if n := len(h.requests("leaf")); n != 4 {
			t.Errorf("the leaves were asked %d times, want two runs with two turns", n)
		}
		for _, a := range h.requests("lead") {
			if a.text() != "z" && strings.Contains(conversationText(a.Messages)+a.System, before) {
				t.Errorf("the lead was shown the text before an answer: %s", conversationText(a.Messages))
			}
		}
		for _, m := range h.readTree(r.Tree) {
			if at, err := r.Space.Parse(m.Subject); err != nil || at.Kind == subjects.Mail {
				t.Errorf("%s was written (%v), want no mail", m.Subject, err)
			}
		}
		h.checkVerified()
	})
}

// TestLastTurnOfEachWake: a fork may take max_turns turns from its start, and
// as many each time that it is woken. Each time it has one more turn to answer
// in.
func TestLastTurnOfEachWake(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		const fork = "r-1-0-1-0"
		busy := func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			if last := req.Messages[len(req.Messages)-1]; last.Role == provider.User &&
				strings.HasSuffix(last.Content, tool.LastTurnNotice) {
				return says("that is all")(ctx, req)
			}
			return calls(use("check_mail"))(ctx, req)
		}
		waits := useJSON("wait", `{"from":["`+fork+`"]}`)
		h.forkingLead(map[string][]scriptedModel{
			"r": {calls(useJSON("spawn_agent", `{"task":"lead others"}`)), joinsResults},
			"r-1-0": {
				calls(use("fork", "prompt", "work")),
				calls(waits),
				calls(use("send", "to", fork, "message", "more"), waits),
				submits("done"),
			},
			fork: {busy},
		})
		h.agents[0].Delegation.Styles = configs.Styles{configs.StyleSpawn, configs.StyleMail}
		h.agents[0].Delegation.MaxTurns = 4
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("lead", "go")
		if o := h.awaitOutcome(r, time.Hour); o.Status != run.StatusCompleted ||
			!strings.Contains(o.Result, `{"success":{"result":"done"}}`) {
			t.Errorf("outcome of the lead %+v, want it completed, with the child's result done", o)
		}
		requests := h.requestsOf(fork)
		if len(requests) != 10 {
			t.Fatalf("the fork was asked %d times, want 4 and a last one, twice", len(requests))
		}
		for i, a := range requests {
			said := a.Messages[len(a.Messages)-1].Content
			if last := i%5 == 4; strings.HasSuffix(said, tool.LastTurnNotice) != last {
				t.Errorf("request %d ends with %q, want the notice of the last turn: %t", i+1, said, last)
			}
		}
		h.checkVerified()
	})
}
