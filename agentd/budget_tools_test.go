package agentd_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// noToolCalls is the result of a tool call beyond a budget of 10.
const noToolCalls = "budget exceeded: used 10 of 10 tool calls"

// writesFiles calls write_file n times. The name of a file has the run's task,
// the turn and the call, so that no two calls of a tree write the same file.
func writesFiles(n int) scriptedModel {
	return func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		var cs []provider.ToolCall
		for i := range n {
			name := fmt.Sprintf("%s.turn%d.%d", req.task(), req.turn, i)
			cs = append(cs, use("write_file", "path", name, "content", "x"))
		}
		return calls(cs...)(ctx, req)
	}
}

// countFiles returns the number of files in a directory.
func countFiles(t *testing.T, dir string) int {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// lastToolCalls returns the tool calls in the last message of the root's tally.
func (h *harness) lastToolCalls(r subjects.Run) int {
	ms := h.readAll(r.Space.Tally(r.Tree, subjects.Root))
	return budget.Decode(ms[len(ms)-1].Body).ToolCalls
}

// defineWriters makes a lead with a budget of ten tool calls, and four writers
// below it. Together they want 24 tool calls.
func defineWriters(h *harness, dir string) {
	h.agents = []configs.Agent{
		define("lead", []string{"writer"}, withBudget(subjects.Budget{ToolCalls: 10})),
		define("writer", nil, withTools(dir, "write_file")),
	}
	h.models["lead"] = turns(splitsTask("writer", 4), joinsResults)
	h.models["writer"] = turns(writesFiles(3), writesFiles(3), says("written"))
}

// TestMaxToolCalls: the runs of a tree make exactly as many tool calls as the
// budget has room for, on three workers. The calls beyond are refused and have
// no effect, and their callers go on.
func TestMaxToolCalls(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		defineWriters(h, dir)
		for i := range 3 {
			h.startWorker(fmt.Sprintf("w%d", i), workerOptions{})
		}
		h.awaitReady()
		r := h.submit("lead", "L")
		o := h.expectCompleted(r, "c0=written|c1=written|c2=written|c3=written")
		if n, counted := countFiles(t, dir), h.lastToolCalls(r); n != 10 || counted != 10 {
			t.Errorf("%d files and %d tool calls in the tally, want 10 of each", n, counted)
		}
		if o.Subtree.Runs != 5 {
			t.Errorf("%d runs, want 5: tool calls do not count as agents", o.Subtree.Runs)
		}
		refused := 0
		for _, a := range h.requests("writer") {
			if a.turn == 1 {
				continue
			}
			for _, res := range a.results() {
				if res.IsError && res.Content == noToolCalls {
					refused++
				}
			}
		}
		if refused != 14 {
			t.Errorf("%d calls were refused because of the budget, want 14", refused)
		}
		h.checkVerified()
	})
}

// TestMaxToolCallsAfterACrash kills a worker after each of its first three
// writes to the tally. The successor counts no tool call twice, so all ten are
// made.
func TestMaxToolCallsAfterACrash(t *testing.T) {
	thorough(t)
	t.Parallel()
	for n := range int64(3) {
		t.Run(fmt.Sprintf("after write %d", n+1), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			withHarness(t, func(h *harness) {
				defineWriters(h, dir)
				victim := h.startWorker("victim", workerOptions{atStep: killAfterTallyWrites(n+1, ".r")})
				h.awaitReady()
				r := h.submit("lead", "L")
				select {
				case <-victim.ended:
				case <-time.After(time.Minute):
					t.Fatalf("the worker has not made %d writes to the tally within a minute", n+1)
				}
				h.startWorker("successor", workerOptions{})
				o := h.awaitOutcome(r, time.Hour)
				if files := countFiles(t, dir); o.Status != run.StatusCompleted || files != 10 {
					t.Errorf("%s %q with %d files, want completed with 10", o.Status, o.Error, files)
				}
				if counted := h.lastToolCalls(r); counted != 10 {
					t.Errorf("%d tool calls in the tally, want 10", counted)
				}
				h.checkVerified()
			})
		})
	}
}

// TestDeniedToolCallsAreRefunded: a person denies the two calls of a turn,
// which use up the budget. They are refunded, so two of the next turn's three
// calls are carried out.
func TestDeniedToolCallsAreRefunded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("mender", nil, withTools(dir, "write_file"),
			withBudget(subjects.Budget{ToolCalls: 2}), func(a *configs.Agent) { a.Approve = []string{"write_file"} })}
		h.models["mender"] = turns(writesFiles(2), writesFiles(3), joinsResults)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		r := h.submit("mender", "L")
		for turn, decision := range []string{`{"turn":1,"approve":false}`, `{"turn":2,"approve":true}`} {
			h.awaitRequests("mender", turn+1)
			time.Sleep(time.Second)
			h.publish(r.Approve(h.key("ann")), decision)
		}
		h.expectCompleted(r, "c0=wrote 1 bytes to L.turn2.0|c1=wrote 1 bytes to L.turn2.1|"+
			"c2=budget exceeded: used 2 of 2 tool calls")
		if n, counted := countFiles(t, dir), h.lastToolCalls(r); n != 2 || counted != 2 {
			t.Errorf("%d files and %d tool calls in the tally, want 2 of each", n, counted)
		}
	})
}
