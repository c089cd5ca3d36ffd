package agentd_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// unknownBy is the beginning of the text about a call that the victim began.
const unknownBy = "it may have taken effect: worker victim began it "

// holdTool submits a tree to a worker that dies after the effect of its tool,
// and returns the root and the tool run, which waits for a person then.
func (h *harness) holdTool(dir string) (root, tool subjects.Run) {
	h.serveCommands(dir, "", configs.UnknownAsk)
	root = h.killToolAt(toolDeaths[2])
	tool = h.child(root, "ops", 0)
	h.awaitHeld(root.Tree, 1)
	return root, tool
}

// awaitHeld waits, 100 seconds at most, until n calls of a tree are held, and
// returns them.
func (h *harness) awaitHeld(tree subjects.Tree, n int) []client.HeldCall {
	for range 1000 {
		held, err := client.New(h.conn).HeldCalls(h.ctx, tree)
		if err != nil {
			h.tb.Fatal(err)
		}
		if len(held) == n {
			return held
		}
		time.Sleep(100 * time.Millisecond)
	}
	h.tb.Fatalf("the tree has not had %d held calls within 100 seconds:\n%s", n, h.dumpTree(tree))
	return nil
}

// settle publishes a settlement as `nats pub` does.
func (h *harness) settle(tool subjects.Run, key, body string) {
	h.publish(tool.Settle(h.key(key)), body)
}

// TestSettle: a call that may have taken effect waits for a person, with its
// key, its worker and its time. The person's first settlement of it counts. A
// malformed one, one of another attempt and a later one do not. The effect
// happens a second time only after the settlement again.
func TestSettle(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, test := range []struct {
		as, want string
		kind     run.Kind
		effects  int
	}{
		{`{"as":"done","text":"paid"}`, "c0=paid", "", 1},
		{`{"as":"done"}`, "c0=", "", 1},
		{`{"as":"again"}`, "c0=", "", 2},
		{`{"as":"fail"}`, "run_command: " + unknownBy, run.KindUnknown, 1},
		{`{"as":"fail","text":"who knows","by":"ann"}`, "run_command: " + unknownBy, run.KindUnknown, 1},
	} {
		t.Run(test.as, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			withHarness(t, func(h *harness) {
				root, tool := h.holdTool(dir)
				time.Sleep(10 * time.Minute)
				held := h.awaitHeld(root.Tree, 1)[0]
				if held.Run != tool || held.Tool != "run_command" || held.Key != root.Tree.String()+".r-1-0" ||
					held.Worker != "victim" || time.Since(held.Began) < 10*time.Minute {
					t.Errorf("the held call is %+v, want that of %s, begun by the victim 10 minutes ago", held, tool)
				}
				h.settle(tool, "malformed", `{"as":"perhaps"}`)
				h.settle(tool, "another", `{"as":"done","text":"another attempt's","attempt":"x"}`)
				h.settle(tool, "first", test.as)
				h.settle(tool, "second", `{"as":"again"}`)
				h.settle(tool, "third", `{"as":"done","text":"third"}`)
				o := h.awaitOutcome(root, time.Minute)
				if got := o.Result + o.Error; o.Kind != test.kind || !strings.HasPrefix(got, test.want) {
					t.Errorf("outcome %s %q, want %s %q", o.Kind, got, test.kind, test.want)
				}
				if strings.Contains(test.as, "who") &&
					!strings.HasSuffix(o.Error, "A person has let the run fail: who knows") {
					t.Errorf("error %q, want the person's reason at its end", o.Error)
				}
				time.Sleep(time.Minute)
				if keys := effects(t, dir); len(keys) != test.effects || keys[0] != keys[len(keys)-1] {
					t.Errorf("effects with the keys %q, want %d of one key", keys, test.effects)
				}
				h.awaitHeld(root.Tree, 0)
				h.expectNoOwnTimer(tool)
				h.checkVerified()
			})
		})
	}
}

// TestSettleByApprovers: of a call that may have taken effect, the decision of a
// user that is no approver has no effect, and is an event that says so. The
// approver's first decision counts.
func TestSettleByApprovers(t *testing.T) {
	thorough(t)
	t.Parallel()
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		h.serveCommands(dir, "", configs.UnknownAsk)
		h.agents[0].Approvers = subjects.Approvers{"user:alice"}
		root := h.killToolAt(toolDeaths[2])
		tool := h.child(root, "ops", 0)
		held := h.awaitHeld(root.Tree, 1)[0]
		if got := held.Approvers.String(); got != "user:alice" {
			t.Errorf("a decision about the held call needs %q, want user:alice", got)
		}
		c := client.New(h.conn)
		mine := c.Settle(h.ctx, root.Tree, tool.Path, run.Settlement{As: run.SettleAgain, By: "alice"})
		if !errors.Is(mine, client.ErrNotApprover) {
			t.Errorf("a settlement without a proven user: %v, want %v", mine, client.ErrNotApprover)
		}
		h.settle(tool, "unknown", `{"as":"again","by":"alice"}`)
		h.sign(h.user("bob"), tool.Settle(h.key("bob")), `{"as":"fail"}`)
		time.Sleep(time.Minute)
		h.awaitHeld(root.Tree, 1)
		s, err := c.Snapshot(h.ctx, root.Tree)
		if err != nil {
			t.Fatal(err)
		}
		var not []string
		for _, e := range s.Events {
			if e.Kind == client.NotCounted && e.Run == tool {
				not = append(not, e.By+": "+e.Reason)
			}
		}
		if got := strings.Join(not, "; "); got != "alice: needs user:alice; bob (operator): needs user:alice" {
			t.Errorf("the decisions that do not count are %q", got)
		}
		h.sign(h.user("alice"), tool.Settle(h.key("alice")), `{"as":"done","text":"paid"}`)
		h.expectCompleted(root, "c0=paid")
		if n := len(effects(t, dir)); n != 1 {
			t.Errorf("%d effects, want 1", n)
		}
		h.checkVerified()
	})
}

// TestSettleByPath: a person may settle a call by the path of the run that made
// it. An approval of the tool run is refused, and one that is published all the
// same does nothing. A settlement after the end of the tree is refused, by
// either path.
func TestSettleByPath(t *testing.T) {
	thorough(t)
	t.Parallel()
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		root, tool := h.holdTool(dir)
		c := client.New(h.conn)
		if err := c.Decide(h.ctx, tool.Tree, tool.Path, run.Approval{Approve: true}); !strings.Contains(
			fmt.Sprint(err), client.ErrNotHeld.Error()) {
			t.Errorf("an approval of the tool run: %v, want %v", err, client.ErrNotHeld)
		}
		h.publish(tool.Approve(h.key("ann")), `{"approve":true}`)
		if err := c.Settle(h.ctx, root.Tree, root.Path, run.Settlement{As: run.SettleDone, Text: "paid"}); err != nil {
			t.Fatalf("settle by the path of the root: %v", err)
		}
		h.expectCompleted(root, "c0=paid")
		for _, r := range []subjects.Run{root, tool} {
			err := c.Settle(h.ctx, r.Tree, r.Path, run.Settlement{As: run.SettleAgain})
			if want := client.ErrEnded.Error(); !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("a late settlement of %s: error %v, want %s", r.Path, err, want)
			}
		}
		h.checkVerified()
	})
}

// TestUnsettledCallTimesOut: a call that no person settles times out with the
// run's own time, whatever the time of the tool. Its outcome says so, and comes
// before the deadline of its caller.
func TestUnsettledCallTimesOut(t *testing.T) {
	t.Parallel()
	thorough(t)
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		h.serveCommands(dir, "", configs.UnknownAsk)
		h.agents[0].ToolConf["run_command"] = configs.ToolConfig{
			Timeout: 20 * time.Second, OnUnknown: configs.UnknownAsk,
		}
		root := h.killToolWith(toolDeaths[2], agentd.Config{Timeout: 10 * time.Minute})
		time.Sleep(8 * time.Minute)
		h.awaitHeld(root.Tree, 1)
		o := h.awaitOutcome(root, time.Hour)
		if !strings.HasPrefix(o.Result, "c0=timeout after 600s: no person has settled the call: "+unknownBy) {
			t.Errorf("outcome %s %q %q, want the timeout of the call as its result", o.Kind, o.Error, o.Result)
		}
		if outcomes := h.outcomes(root.Reply(1, 0)); len(outcomes) != 1 || outcomes[0].Kind != run.KindTimeout {
			t.Errorf("the tool run ended with %+v, want one timeout", outcomes)
		}
		h.awaitHeld(root.Tree, 0)
		if keys := effects(t, dir); len(keys) != 1 {
			t.Errorf("%d effects, want 1", len(keys))
		}
		h.checkVerified()
	})
}

// TestSettleCancelled: a cancel message of the root ends a call that waits for
// a person. A settlement that comes later does nothing.
func TestSettleCancelled(t *testing.T) {
	thorough(t)
	t.Parallel()
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		root, tool := h.holdTool(dir)
		h.publish(root.Cancel(), "")
		h.expectFailed(root, run.KindCancelled, "cancelled")
		time.Sleep(time.Minute)
		h.settle(tool, "late", `{"as":"again"}`)
		time.Sleep(time.Minute)
		if outcomes := h.outcomes(root.Reply(1, 0)); len(outcomes) != 1 || outcomes[0].Kind != run.KindCancelled {
			t.Errorf("the tool run ended with %+v, want one cancellation", outcomes)
		}
		if keys := effects(t, dir); len(keys) != 1 {
			t.Errorf("%d effects, want 1", len(keys))
		}
		h.awaitHeld(root.Tree, 0)
		h.checkVerified()
	})
}

// TestSettleUnattended: where no person can answer, the run fails.
func TestSettleUnattended(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	withHarness(t, func(h *harness) {
		h.serveCommands(dir, "", configs.UnknownAsk)
		root := h.killToolWith(toolDeaths[2], agentd.Config{Unattended: true})
		o := h.awaitOutcome(root, time.Minute)
		if o.Kind != run.KindUnknown || !strings.HasPrefix(o.Error, "run_command: "+unknownBy) {
			t.Errorf("the run ended as %s %q, want %s by the victim's call", o.Kind, o.Error, run.KindUnknown)
		}
		h.checkVerified()
	})
}

// settleDeath is a moment at which a worker dies while a call is held, or after
// the settlement again.
type settleDeath struct {
	name, suffix string
	entry        int // number of the entry of the tool run's log, 0 for any message
	after        bool
	// effects is the number of effects, and held says that the call is held
	// a second time.
	effects int
	held    bool
}

// TestSettleAfterACrash kills the worker that holds a call, or that carries out
// a settlement. Each time, the call is made again only after a person has
// settled it so.
func TestSettleAfterACrash(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, death := range []settleDeath{
		{name: "before it is held", suffix: ".r-1-0.log", entry: 2, effects: 2},
		{name: "before its timer is set", suffix: ".r-1-0.log", entry: 2, after: true, effects: 2},
		{name: "before the second start", suffix: ".r-1-0.log", entry: 3, effects: 2},
		{name: "after the second start", suffix: ".r-1-0.log", entry: 3, after: true, effects: 1, held: true},
		{name: "after the second effect", suffix: ".r.in.1.0", effects: 2, held: true},
	} {
		t.Run(death.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			withHarness(t, func(h *harness) { settleAfterACrash(t, h, dir, death) })
		})
	}
}

// settleAfterACrash lets a second worker hold the call of a dead one, and kills
// that worker too. A third worker ends the run.
func settleAfterACrash(t *testing.T, h *harness, dir string, death settleDeath) {
	t.Helper()
	h.serveCommands(dir, "", configs.UnknownAsk)
	config := agentd.Config{Sandbox: agentd.NewSandbox()}
	root := h.submitToVictim(toolDeaths[2], config)
	var entries atomic.Int32
	entries.Store(1)
	second := h.startWorker("second", workerOptions{Config: config, atStep: func(s step) error {
		if s.Op != "write" || !strings.HasSuffix(s.Subject, death.suffix) {
			return nil
		}
		n := int(entries.Load())
		if !s.After && strings.HasSuffix(s.Subject, ".log") {
			n = int(entries.Add(1))
		}
		if s.After == death.after && (death.entry == 0 || death.entry == n) {
			s.worker.kill()
		}
		return nil
	}})
	tool := h.child(root, "ops", 0)
	time.Sleep(5 * time.Minute)
	if death.entry != 2 {
		h.awaitHeld(root.Tree, 1)
		h.settle(tool, "first", `{"as":"again"}`)
	}
	<-second.ended
	h.startWorker("third", workerOptions{Config: config})
	time.Sleep(5 * time.Minute)
	switch {
	case death.entry == 2:
		h.awaitHeld(root.Tree, 1)
		h.settle(tool, "first", `{"as":"again"}`)
	case death.held:
		held := h.awaitHeld(root.Tree, 1)
		if held[0].Worker != "second" {
			t.Errorf("the call was begun by %s, want second", held[0].Worker)
		}
		h.settle(tool, "last", `{"as":"done","text":"paid"}`)
	}
	want := "c0="
	if death.held {
		want = "c0=paid"
	}
	h.expectCompleted(root, want)
	if keys := effects(t, dir); len(keys) != death.effects {
		t.Errorf("%d effects, want %d", len(keys), death.effects)
	}
	h.checkVerified()
}

// TestSettledByTheOriginal: a worker freezes before it reports how its tool has
// ended, and the call is held meanwhile. Its late report settles the call.
// After a person has settled the call, the report is a remark.
func TestSettledByTheOriginal(t *testing.T) {
	t.Parallel()
	thorough(t)
	for _, test := range []struct{ name, settle, want string }{
		{"first", "", "c0=by the original"},
		{"after a person", `{"as":"done","text":"by a person"}`, "c0=by a person"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			withHarness(t, func(h *harness) { settledByTheOriginal(t, h, dir, test.settle, test.want) })
		})
	}
}

// settledByTheOriginal freezes the victim before its outcome, until the call is
// held and, unless settle is "", settled. The run has to answer with want.
func settledByTheOriginal(t *testing.T, h *harness, dir, settle, want string) {
	t.Helper()
	h.serveCommands(dir, "", configs.UnknownAsk)
	h.models["ops"] = turns(
		calls(use("run_command", "command", "printf by && printf ' the original'; echo x >> effects")), joinsResults)
	config := agentd.Config{Sandbox: agentd.NewSandbox()}
	var frozen atomic.Bool
	wake := make(chan struct{})
	h.startWorker("victim", workerOptions{Config: config, frozen: &frozen, atStep: func(s step) error {
		if s.Op == "write" && !s.After && strings.HasSuffix(s.Subject, ".r.in.1.0") &&
			frozen.CompareAndSwap(false, true) {
			<-wake
		}
		return nil
	}})
	h.awaitReady()
	root := h.submit("ops", "do it")
	tool := h.child(root, "ops", 0)
	for !frozen.Load() {
		time.Sleep(time.Second)
	}
	h.startWorker("successor", workerOptions{Config: config})
	h.awaitHeld(root.Tree, 1)
	if settle != "" {
		h.settle(tool, "ann", settle)
		h.expectCompleted(root, want)
		time.Sleep(time.Minute) // the server forgets the id of the outcome
	}
	close(wake)
	h.expectCompleted(root, want)
	time.Sleep(time.Minute)
	remarks := 0
	for _, m := range h.readAll(tool.All()) {
		if strings.Contains(string(m.Body), `"cause":"late"`) {
			remarks++
		}
	}
	if wantRemarks := min(1, len(settle)); remarks != wantRemarks {
		t.Errorf("%d remarks, want %d", remarks, wantRemarks)
	}
	if keys := effects(t, dir); len(keys) != 1 {
		t.Errorf("%d effects, want 1", len(keys))
	}
	h.awaitHeld(root.Tree, 0)
	h.checkVerified()
}
