package agentd_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
)

// TestLargeAnswer: a child's answer that no message can hold reaches its
// caller's model whole. TestLargeBodies sends 20 MiB through a submission, a
// context and two answers, but not under the race detector.
func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"))
		text := strings.Repeat("0123456789abcdef", 9<<20/16)
		h.models["leaf"] = says(text)
		h.models["lead"] = turns(
			calls(call("leaf", "x")),
			func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
				if req.results()[0].Content != text {
					t.Errorf("the parent was shown %d bytes, want the child's %d",
						len(req.results()[0].Content), len(text))
				}
				return says("ok")(ctx, req)
			},
		)
		h.startWorker("w", workerOptions{})
		h.expectCompleted(h.submit("lead", "go"), "ok")
	})
}

// TestBodyOverTheLimit: a body larger than the worker's limit fails its sender,
// and the error says so. A body just below the limit passes.
func TestBodyOverTheLimit(t *testing.T) {
	thorough(t)
	t.Parallel()
	const limit = 100 << 10
	tooLarge := strings.Repeat("x", 2*limit)
	for name, test := range map[string]struct {
		task   int // bytes
		lead   scriptedModel
		leaf   scriptedModel
		failed string // part of the error; "": it completes
		answer string // part of the answer
	}{
		"task": {task: 2 * limit, failed: "body too large"},
		"task by reference": {
			task:   9 << 20,
			failed: "submission refused: body too large: 9437184 bytes by reference, at most 102400",
		},
		"answer of the root": {task: 1, lead: says(tooLarge), failed: "body too large"},
		"context for a child": {
			task:   1,
			lead:   calls(call("leaf", tooLarge)),
			failed: "turn 1 cannot be recorded: body too large",
		},
		"answer of a child": {
			task:   1,
			leaf:   says(tooLarge),
			answer: `c0=Error: sub-agent "leaf" failed - body too large`,
		},
		"just below the limit": {
			task:   limit - 1<<10,
			leaf:   says(strings.Repeat("x", limit-1<<10)),
			lead:   turns(calls(call("leaf", "x")), says("fits")),
			answer: "fits",
		},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.callingLead([]string{"leaf"}, call("leaf", "x"))
				if test.lead != nil {
					h.models["lead"] = test.lead
				}
				h.models["leaf"] = test.leaf
				h.startWorker("w", workerOptions{maxBody: limit})
				from := time.Now()
				r := h.submit("lead", strings.Repeat("x", test.task))
				o := h.awaitOutcome(r, 30*time.Minute)
				h.tookAtMost(from, time.Second)
				if test.failed != "" && (o.Kind != run.KindError || !strings.Contains(o.Error, test.failed)) {
					t.Errorf("outcome %s %s %q, want an error with %q", o.Status, o.Kind, o.Error, test.failed)
				}
				if test.failed == "" && !strings.Contains(o.Result, test.answer) {
					t.Errorf("answer %.200q, want one with %q", o.Result, test.answer)
				}
				if test.task > limit && len(h.requests("")) != 0 {
					t.Error("a model was asked about a task over the limit")
				}
			})
		})
	}
}

// TestPartialIsLeftOut: the model of a lead fails after two large answers of
// its leaves. With them as its partial result the outcome would be too large,
// so it is stored without one.
func TestPartialIsLeftOut(t *testing.T) {
	t.Parallel()
	const limit = 100 << 10
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "x"), call("leaf", "y"))
		h.models["lead"] = turns(calls(call("leaf", "x"), call("leaf", "y")), fails(errBusBroken))
		h.models["leaf"] = says(strings.Repeat("x", limit-1<<10))
		h.startWorker("w", workerOptions{maxBody: limit})
		o := h.awaitOutcome(h.submit("lead", "go"), time.Minute)
		if o.Kind != run.KindError || o.Error != errBusBroken.Error() || o.Partial != nil {
			t.Errorf("outcome %s %q, with a partial result: %t, want an error without one",
				o.Kind, o.Error, o.Partial != nil)
		}
	})
}

// TestLogOfAnAnswerOverTheLimit: a worker logs the outcome that it has stored.
// For an answer over the limit that outcome is a failure.
func TestLogOfAnAnswerOverTheLimit(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		h.models["leaf"] = says(strings.Repeat("x", 200<<10))
		log, lines := storyLog(slog.LevelInfo)
		h.startWorker("one", workerOptions{Config: agentd.Config{Log: log}, maxBody: 100 << 10})
		h.awaitReady()
		r := h.submit("leaf", "go")
		if o := h.awaitOutcome(r, time.Minute); o.Status != run.StatusFailed {
			t.Fatalf("outcome %s, want a failure", o.Status)
		}
		h.expectLines(lines(), `level=WARN msg="tree ended" tree=`+r.Tree.String()+
			` agent=leaf path=r status=failed kind=error`)
	})
}
