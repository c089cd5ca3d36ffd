package cmd_test

import (
	"fmt"
	"net/http"
	"os"
	ossignal "os/signal"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
)

// barrier holds requests until waitFor releases them or their client leaves.
type barrier struct {
	// arrived receives the agent of each request.
	arrived chan string
	// released is closed when the requests are released.
	released chan struct{}
}

func newBarrier() *barrier { return &barrier{make(chan string, 100), make(chan struct{})} }

// waitThen returns a behavior that waits at the barrier and then continues with
// another behavior.
func (m *barrier) waitThen(then behavior) behavior {
	return func(a *modelRequest) reply {
		m.arrived <- a.agent
		select {
		case <-m.released:
		case <-a.gone:
			return reply{}
		}
		return then(a)
	}
}

// waitFor starts a goroutine that waits until n requests have arrived, and then
// releases them. If fewer arrive within waitTimeout, the goroutine reports an
// error and releases those, so that they do not wait for the others without
// end.
func (m *barrier) waitFor(t *testing.T, n int) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(m.released)
		for i := range n {
			select {
			case <-m.arrived:
			case <-time.After(waitTimeout):
				t.Errorf("%d requests were held at one time, want %d", i, n)
				return
			}
		}
	}()
	t.Cleanup(func() { <-done })
}

// TestRun_ParallelToolCalls: requirements 8.2 and 11.1. The models of all
// sub-agents are asked before one of them has answered.
func TestRun_ParallelToolCalls(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"parallel = true":            config("parallel = true"),
		"5.2 row 2 without a config": "",
		"5.2 row 2 an empty config":  config(),
	} {
		t.Run(name, func(t *testing.T) {
			p, m := newScenario(t), newBarrier()
			p.agent("parent", subAgents("a", "b")+text, delegates(call("a", "1"), call("b", "2"), call("a", "3")))
			p.agent("a", "", m.waitThen(func(a *modelRequest) reply { return reply{text: "a " + a.user()} }))
			p.agent("b", "", m.waitThen(answers("b")))
			m.waitFor(t, 3)
			if got := p.wantAnswer("parent", "go"); got != "a Task: 1 | b | a Task: 3" {
				t.Errorf("got the answer %q, want %q", got, "a Task: 1 | b | a Task: 3")
			}
			p.wantRequests("parent", 2)
		})
	}
}

// TestRun_SequentialToolCalls: requirements 8.2 and 11.5. The model of each
// sub-agent is asked after the one before it has ended, with an answer or a
// failure.
func TestRun_SequentialToolCalls(t *testing.T) {
	p := newScenario(t)
	p.agent(
		"parent",
		subAgents("a", "b", "c")+config("parallel = false"),
		delegates(call("a", "1"), call("nobody", "x"), call("b", "2"), call("c", "3")),
	)
	slowly := func(then behavior) behavior {
		return func(a *modelRequest) reply {
			// Leave time for a wrong early request.
			time.Sleep(100 * time.Millisecond)
			return then(a)
		}
	}
	p.agent("a", "", slowly(answers("one")))
	p.agent("b", "", slowly(refuses(http.StatusInternalServerError, "oh")))
	p.agent("c", "", answers("three"))
	want := strings.Join([]string{
		"one", `call_agent error: agent "nobody" is not in this agent's sub_agents list`, failed("b",
			"server (HTTP 500): oh"), "three",
	}, " | ")
	if got := p.wantAnswer("parent", "go"); got != want {
		t.Errorf("got the answer %q, want %q", got, want)
	}
	order := []string{
		"ask parent",
		"answer parent",
		"ask a",
		"answer a",
		"ask b",
		"answer b",
		"ask c",
		"answer c",
		"ask parent",
		"answer parent",
	}
	if diff := cmp.Diff(order, p.eventLog()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestRun_ResultsInCallOrder: requirement 11.3. The last call is the first to
// be answered, and the results are in the order of the calls all the same.
func TestRun_ResultsInCallOrder(t *testing.T) {
	p := newScenario(t)
	names := []string{"a", "b", "c", "d"}
	answered := map[string]chan struct{}{}
	var tcs []provider.ToolCall
	for i, name := range names {
		answered[name] = make(chan struct{})
		tcs = append(tcs, call(name, "x"))
		p.agent(name, "", func(a *modelRequest) reply {
			if i+1 < len(names) {
				select {
				case <-answered[names[i+1]]:
				case <-a.gone:
				}
			}
			close(answered[name])
			return reply{text: "I am " + name}
		})
	}
	p.agent("parent", subAgents(names...), delegates(tcs...))
	if got := p.wantAnswer("parent", "go"); got != "I am a | I am b | I am c | I am d" {
		t.Errorf("got the answer %q, want %q", got, "I am a | I am b | I am c | I am d")
	}
}

// TestTable_5_5: the table of parallel execution. TestRun_ParallelToolCalls has
// row 2, TestRun_SequentialToolCalls row 3, and TestRun_Interrupted row 6.
func TestTable_5_5(t *testing.T) {
	t.Parallel()
	t.Run("5.5 row 1 a single call", func(t *testing.T) {
		p := newScenario(t)
		p.agent("parent", subAgents("a")+config("parallel = true"), delegates(call("a", "x")))
		p.agent("a", "", answers("one"))
		if got := p.wantAnswer("parent", "go"); got != "one" {
			t.Errorf("got the answer %q, want %q", got, "one")
		}
	})
	// requirement 11.4
	t.Run("5.5 row 4 one fails, others do not", func(t *testing.T) {
		p, refused := newScenario(t), make(chan struct{})
		// Hold the requests of the other agents while one fails.
		later := func(text string) behavior {
			return func(a *modelRequest) reply {
				select {
				case <-refused:
				case <-a.gone:
				}
				return reply{text: text}
			}
		}
		p.agent(
			"parent",
			"model = \"anthropic/parent\"\n"+subAgents("a", "bad", "b"),
			delegates(call("a", "x"), call("bad", "x"), call("b", "x")),
		)
		p.agent("a", "", later("one"))
		p.agent("bad", "", func(*modelRequest) reply {
			close(refused)
			return reply{status: http.StatusTooManyRequests, message: "slow down"}
		})
		p.agent("b", "", later("three"))
		p.wantAnswer("parent", "go")
		want := []provider.ToolResult{
			{CallID: "toolu_parent_1_0", Content: "one"},
			{CallID: "toolu_parent_1_1", Content: failed("bad", "rate_limit (HTTP 429): slow down"), IsError: true},
			{CallID: "toolu_parent_1_2", Content: "three"},
		}
		if diff := cmp.Diff(want, p.nthRequest("parent", 2).results()); diff != "" {
			t.Errorf("results (-want +got):\n%s", diff)
		}
	})
	t.Run("5.5 row 5 all fail", func(t *testing.T) {
		p := newScenario(t)
		p.agent(
			"parent",
			subAgents("bad", "ghost"),
			inOrder(calls(call("bad", "x"), call("bad", "y"), call("ghost", "z")), func(a *modelRequest) reply {
				return reply{text: fmt.Sprintf("none of %d", len(a.results()))}
			}),
		)
		p.agent("bad", "", refuses(http.StatusInternalServerError, "oh"))
		if got := p.wantAnswer("parent", "go"); got != "none of 3" {
			t.Errorf("got the answer %q, want %q", got, "none of 3")
		}
		p.wantRequests("bad", 2)
	})
}

// TestRun_Interrupted: 5.5, row 6, and requirement 11.2. A person interrupts
// axe run while two sub-agents work. The parent and all runs below it end.
func TestRun_Interrupted(t *testing.T) {
	p := newScenario(t)
	m := newBarrier()
	p.agent("parent", subAgents("a", "b"), delegates(call("a", "x"), call("b", "x")))
	p.agent("a", "", m.waitThen(stalls))
	p.agent("b", "", m.waitThen(stalls))
	// A background job of a shell ignores SIGINT, and axe would inherit
	// that. A signal that the test handles is not ignored in axe.
	handled := make(chan os.Signal, 1)
	ossignal.Notify(handled, os.Interrupt)
	defer ossignal.Stop(handled)
	cmd := p.command("run", "parent", "--agents", p.path("agents"), "go")
	var stdout, stderr buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case <-m.arrived:
		case <-time.After(waitTimeout):
			t.Fatalf("the models of both sub-agents were not asked within %s", waitTimeout)
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	p.wantAborted(p.firstRequest("a"))
	p.wantAborted(p.firstRequest("b"))
	p.wantRequests("parent", 1)
	const want = "axe: interrupted, the tree was cancelled\n"
	if code := cmd.ProcessState.ExitCode(); code != 130 || stdout.String() != "" || stderr.String() != want {
		t.Errorf("got exit code %d, stdout %q, stderr %q; want 130, no stdout, stderr %q",
			code, stdout.String(), stderr.String(), want)
	}
}

// TestRun_Timeout: section 3.12. A call has its own timeout, within the time of
// its caller.
func TestRun_Timeout(t *testing.T) {
	t.Parallel()
	t.Run("11.2, 12.1 each call has a time of its own", func(t *testing.T) {
		p := newScenario(t)
		p.agent(
			"parent",
			subAgents("fast", "slow")+config("timeout = 1"),
			delegates(call("fast", "x"), call("slow", "x"), call("fast", "y")),
		)
		p.agent("fast", "", answers("in time"))
		p.agent("slow", "", stalls)
		if got := p.wantAnswer("parent", "go"); got != "in time | "+failed("slow", "timeout after 1s")+" | in time" {
			t.Errorf("got the answer %q, want %q", got, "in time | "+failed("slow", "timeout after 1s")+" | in time")
		}
		p.wantAborted(p.firstRequest("slow"))
	})
	for name, text := range map[string]string{
		"12.1 within the time of the parent":        config("timeout = 60"),
		"12.2, 5.2 row 10 timeout 0 is the parents": config("timeout = 0"),
	} {
		t.Run(name, func(t *testing.T) {
			p := newScenario(t)
			p.agent("parent", subAgents("slow")+text, delegates(call("slow", "x")))
			p.agent("slow", "", stalls)
			p.wantFailure(3, "timeout after 1s", "--timeout", "1", "go")
			p.wantAborted(p.firstRequest("slow"))
		})
	}
	// 13.2: context cancellation
	t.Run("12.2 what is left of the caller's time", func(t *testing.T) {
		p := newScenario(t)
		p.agent("parent", subAgents("middle")+config("timeout = 1"), delegates(call("middle", "x")))
		p.agent("middle", subAgents("slow"), delegates(call("slow", "x")))
		p.agent("slow", "", stalls)
		if got := p.wantAnswer("parent", "go"); got != failed("middle", "timeout after 1s") {
			t.Errorf("got the answer %q, want %q", got, failed("middle", "timeout after 1s"))
		}
		p.wantAborted(p.firstRequest("slow"))
		p.wantRequests("middle", 1)
	})
}
