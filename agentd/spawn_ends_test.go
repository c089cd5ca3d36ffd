package agentd_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestSpawnEnds: of the runs of one call one takes its time and is waited for,
// one is cancelled, and the model of one never returns, for which the caller's
// time answers. All three begin at once.
func TestSpawnEnds(t *testing.T) {
	onStage(t, func(s *stage) {
		s.spawner(
			[]string{"leaf"},
			spawnCall(
				"spawn_agents",
				`{"tasks":[{"task":"slow","agent":"leaf"},{"task":"unwanted","agent":"leaf"},{"task":"hangs","agent":"leaf"}]}`,
			),
		)
		timeout(600)(&s.agents[0])
		s.parts["leaf"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			if a.text() == "slow" {
				return after(9*time.Minute, submits("at last"))(ctx, a)
			}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("leaf", 3)
		time.Sleep(time.Second)
		began := time.Now()
		s.pub(s.child(r, "leaf", 1).Cancel(), "")
		if o := s.result(r, time.Hour); o.Status != run.StatusCompleted {
			t.Errorf("%+v", o)
		}
		s.within(began, 10*time.Minute+time.Second)
		want := strings.Join([]string{
			`{"agent_id":"r-1-0","outcome":{"success":{"result":"at last"}},"task":"slow","tokens":110,"turns":1}`,
			`{"agent_id":"r-1-1","outcome":{"failure":{"error":"cancelled","error_kind":"cancelled"}},"task":"unwanted","tokens":0,"turns":0}`,
			`{"agent_id":"r-1-2","outcome":{"failure":{"error":"timeout after 600s","error_kind":"timed_out"}},"task":"hangs","tokens":0,"turns":0}`,
		}, "\n")
		if diff := cmp.Diff(want, s.aggregated(0)); diff != "" {
			t.Error(diff)
		}
		asks := s.asked("leaf")
		if n := peak(asks); n != 3 || len(asks) != 3 {
			t.Errorf("%d of %d were at work at once", n, len(asks))
		}
		for _, a := range asks {
			if apart := a.from.Sub(asks[0].from); apart > 50*time.Millisecond {
				t.Errorf("%s began %v after the first one", a.text(), apart)
			}
		}
		s.eventually(
			"the one that hangs is told to stop",
			func() bool { return !slices.ContainsFunc(s.asked("leaf"), func(a asked) bool { return a.to.IsZero() }) },
		)
		s.clean()
	})
}

// TestSpawnBesideOthers: what a turn spawns is waited for with what else it
// calls, and each result stands where its call does.
func TestSpawnBesideOthers(t *testing.T) {
	onStage(t, func(s *stage) {
		s.spawner(
			[]string{"leaf"},
			toolCall("check_mail", nil),
			spawnCall("spawn_agents", `{"tasks":[{"task":"a","agent":"leaf"},{"task":"b","agent":"leaf"}]}`),
			call("leaf", "c"),
			toolCall("nonsense", nil),
			spawnCall("spawn_agent", `{"task":"d","agent":"leaf"}`),
		)
		s.agents[0].Delegation.Styles = configs.Styles{configs.StyleCall, configs.StyleSpawn, configs.StyleMail}
		s.parts["leaf"] = repeats
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.result(r, time.Hour)
		results := s.asked("lead")[1].results()
		for i, want := range []string{"no mail", "", "c", `Unknown tool: "nonsense"`, ""} {
			if want != "" && results[i].Content != want || results[i].IsError != (i == 3) {
				t.Errorf("call %d: %+v", i, results[i])
			}
		}
		entry := func(id, task string) string {
			return `{"agent_id":"` + id + `","outcome":{"success":{"result":"` + task + `"}},"task":"` + task + `","tokens":11,"turns":1}`
		}
		if diff := cmp.Diff(entry("r-1-1", "a")+"\n"+entry("r-1-2", "b"), s.aggregated(1)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(entry("r-1-5", "d"), s.aggregated(4)); diff != "" {
			t.Error(diff)
		}
		s.clean()
	})
}

// TestSubmitBesideSpawn: a run that ends and spawns in one turn has done
// neither: nobody is started, and it may try again.
func TestSubmitBesideSpawn(t *testing.T) {
	onStage(t, func(s *stage) {
		s.spawner([]string{"mid"}, spawnCall("spawn_agent", `{"task":"x","agent":"mid"}`))
		spawning(&s.agents[1])
		s.parts["mid"] = turns(
			calls(
				toolCall("submit_result", map[string]string{"result": "early"}),
				spawnCall("spawn_agent", `{"task":"y"}`),
				spawnCall("spawn_agents", `{"tasks":[{"task":"z"}]}`),
			),
			submits("late"),
		)
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.result(r, time.Hour)
		asks := s.asked("mid")
		if len(asks) != 2 || len(asks[1].results()) != 3 {
			t.Fatalf("the model was asked %d times", len(asks))
		}
		for i, name := range []string{"submit_result", "spawn_agent", "spawn_agents"} {
			want := name + " error: submit_result has to be the only call of its turn: nothing of this turn was carried out"
			if got := asks[1].results()[i]; got.Content != want || !got.IsError {
				t.Errorf("%+v", got)
			}
		}
		if got := s.aggregated(0); !strings.Contains(got, `"result":"late"`) {
			t.Error(got)
		}
		if n := s.runs(r); n != 2 {
			t.Errorf("%d runs", n)
		}
		s.clean()
	})
}

// TestAdHocReadsNoMemory: a run of nobody's definition is told what it is, and
// nothing that its parent's agent remembers, though its parent is.
func TestAdHocReadsNoMemory(t *testing.T) {
	dir := t.TempDir()
	onStage(t, func(s *stage) {
		store := memory.Files{Dir: dir}
		s.spawnerThatRemembers("look", says("seen"))
		s.hire("w", engagement{Config: agentd.Config{Memory: store}})
		s.settle()
		for range 2 {
			s.result(s.submit("lead", "an old secret"), time.Hour)
			s.settle()
		}
		asks := s.asked("lead")
		if len(asks) != 6 || !strings.Contains(asks[3].req.System, "an old secret") {
			t.Fatalf("%d requests; the second root is told %q", len(asks), asks[len(asks)-1].req.System)
		}
		for _, a := range []asked{asks[1], asks[4]} {
			if a.text() != "look" || a.req.System != tool.AdHocSystem {
				t.Errorf("asked %q, told %q", a.text(), a.req.System)
			}
		}
	})
}

// TestNoSideChannel: who was called, or spawned, has no way to write to its
// caller, and what it says before its answer reaches nobody.
func TestNoSideChannel(t *testing.T) {
	onStage(t, func(s *stage) {
		s.spawner(
			[]string{"leaf"},
			call("leaf", "x"),
			spawnCall("spawn_agents", `{"tasks":[{"task":"y","agent":"leaf"},{"task":"z"}]}`),
		)
		s.agents[0].Delegation.Styles = configs.Styles{configs.StyleCall, configs.StyleSpawn}
		// who has no tools at all has answered
		s.agents[1].SubAgents = []string{"leaf"}
		const aside = "a word on the way"
		whispers := turns(func(ctx context.Context, a *asked) (*provider.Response, error) {
			resp, err := calls(uses("send", "to", "r", "message", aside))(ctx, a)
			resp.Content = aside
			return resp, err
		}, func(ctx context.Context, a *asked) (*provider.Response, error) {
			if r := a.results()[0]; !r.IsError || r.Content != `Unknown tool: "send"` {
				t.Errorf("%+v", r)
			}
			return says("done")(ctx, a)
		})
		plan := s.parts["lead"]
		s.parts["leaf"] = whispers
		s.parts["lead"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			if a.text() == "z" {
				return whispers(ctx, a)
			}
			return plan(ctx, a)
		}
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		s.result(r, time.Hour)
		if n := len(s.asked("leaf")); n != 4 {
			t.Errorf("the leaves were asked %d times", n)
		}
		for _, a := range s.asked("lead") {
			if a.text() != "z" && strings.Contains(conversation(a.req.Messages)+a.req.System, aside) {
				t.Errorf("the lead was shown %s", conversation(a.req.Messages))
			}
		}
		for _, m := range s.stored(r.Tree) {
			if at, err := r.Space.Parse(m.Subject); err != nil || at.Kind == subjects.Mail {
				t.Errorf("%s was written (%v)", m.Subject, err)
			}
		}
		s.clean()
	})
}

// TestLastTurnOfEachWake: a fork has its budget of turns each time that it is
// woken, and each time a last turn to answer in.
func TestLastTurnOfEachWake(t *testing.T) {
	onStage(t, func(s *stage) {
		const fork = "r-1-0-1-0"
		busy := func(ctx context.Context, a *asked) (*provider.Response, error) {
			if last := a.req.Messages[len(a.req.Messages)-1]; last.Role == provider.User &&
				strings.HasSuffix(last.Content, tool.Finally) {
				return says("that is all")(ctx, a)
			}
			return calls(uses("check_mail"))(ctx, a)
		}
		waits := spawnCall("wait", `{"from":["`+fork+`"]}`)
		s.mailer(map[string][]part{
			"r": {calls(spawnCall("spawn_agent", `{"task":"lead others"}`)), sums},
			"r-1-0": {
				calls(uses("fork", "prompt", "work")),
				calls(waits),
				calls(uses("send", "to", fork, "message", "more"), waits),
				submits("done"),
			},
			fork: {busy},
		})
		s.agents[0].Delegation.Styles = configs.Styles{configs.StyleSpawn, configs.StyleMail}
		s.agents[0].Delegation.MaxTurns = 4
		s.hire("w", engagement{})
		s.settle()
		r := s.submit("lead", "go")
		if o := s.result(r, time.Hour); o.Status != run.StatusCompleted ||
			!strings.Contains(o.Result, `{"success":{"result":"done"}}`) {
			t.Errorf("%+v", o)
		}
		asks := s.asksOf(fork)
		if len(asks) != 10 {
			t.Fatalf("the fork was asked %d times, want 4 and a last one, twice", len(asks))
		}
		for i, a := range asks {
			said := a.req.Messages[len(a.req.Messages)-1].Content
			if last := i%5 == 4; strings.HasSuffix(said, tool.Finally) != last {
				t.Errorf("request %d ends with %q", i+1, said)
			}
		}
		s.clean()
	})
}
