package agentd_test

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// storyLog returns a logger at a level, and the lines that it writes. They lack
// the attributes that differ from run to run: times, durations, files and the
// worker's name.
func storyLog(level slog.Level) (*slog.Logger, func() []string) {
	lines := &logLines{}
	handler := slog.NewTextHandler(lines, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "worker" || a.Key == "ms" || a.Key == "file" {
				return slog.Attr{}
			}
			return a
		},
	})
	return slog.New(handler), func() []string {
		lines.mu.Lock()
		defer lines.mu.Unlock()
		return strings.Split(strings.TrimSpace(lines.b.String()), "\n")
	}
}

// withText returns the lines that contain a text.
func withText(lines []string, text string) (found []string) {
	for _, l := range lines {
		if strings.Contains(l, text) {
			found = append(found, l)
		}
	}
	return found
}

// expectLines expects that each text is in exactly one line.
func (h *harness) expectLines(got []string, want ...string) {
	for _, w := range want {
		if len(withText(got, w)) != 1 {
			h.tb.Errorf("the log has %d lines with %q, want 1:\n%s", len(withText(got, w)), w, strings.Join(got, "\n"))
		}
	}
}

// TestLogTellsEachTree: a worker logs the begin and the end of a tree, and each
// run that fails on its own.
func TestLogTellsEachTree(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf", "broken"}, call("leaf", "1"), call("broken", "2"))
		h.agents = append(h.agents, define("slow", nil))
		h.models["broken"] = fails(&provider.Error{Category: provider.Auth, Message: "no such key"})
		h.models["slow"] = delayed(time.Hour, says("late"))
		log, lines := storyLog(slog.LevelInfo)
		h.startWorker("one", workerOptions{Config: agentd.Config{Log: log}})
		h.awaitReady()
		good := h.awaitOutcome(h.submit("lead", "go"), time.Minute)
		bad := h.submit("broken", "go")
		h.expectFailed(bad, run.KindError, "auth: no such key")
		cancelled := h.submit("slow", "go")
		h.awaitRequests("slow", 1)
		h.publish(cancelled.Cancel(), `{"kind":"cancelled","text":"cancelled"}`)
		h.expectFailed(cancelled, run.KindCancelled, "cancelled")
		time.Sleep(time.Second)
		h.expectLines(lines(),
			`level=INFO msg="tree begun" tree=`+good.Tree+` agent=lead path=r`,
			`level=WARN msg="run failed" tree=`+good.Tree+
				` agent=broken path=r-1-1 kind=error error="auth: no such key"`,
			`level=INFO msg="tree ended" tree=`+good.Tree+` agent=lead path=r status=completed runs=3 turns=4 tokens=`,
			`level=WARN msg="tree ended" tree=`+bad.Tree.String()+
				` agent=broken path=r status=failed kind=error error="auth: no such key" runs=1 turns=1 tokens=0`,
			`level=INFO msg="tree ended" tree=`+cancelled.Tree.String()+
				` agent=slow path=r status=failed kind=cancelled`,
		)
		if found := withText(lines(), "model call"); len(found) > 0 {
			t.Errorf("at info the log has model calls: %q", found)
		}
	})
}

// TestLogModelCalls: at debug a worker logs each request to a model.
func TestLogModelCalls(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		log, lines := storyLog(slog.LevelDebug)
		h.startWorker("one", workerOptions{Config: agentd.Config{Log: log}})
		h.awaitReady()
		r := h.submit("leaf", "go")
		h.expectCompleted(r, "leaf")
		h.models["leaf"] = fails(errors.New("broken"))
		failed := h.submit("leaf", "go")
		h.expectFailed(failed, run.KindError, "broken")
		h.expectLines(lines(),
			`msg="model call" tree=`+r.Tree.String()+
				` agent=leaf path=r turn=1 model=sim/leaf input_tokens=10 output_tokens=1`,
			`msg="model call failed" tree=`+failed.Tree.String()+
				` agent=leaf path=r turn=1 model=sim/leaf error=broken`)
	})
}

// TestLogSumsManyTrees: a flood of trees takes a bounded number of lines. Every
// tree has a line or is in a sum.
func TestLogSumsManyTrees(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		log, lines := storyLog(slog.LevelInfo)
		h.startWorker("one", workerOptions{Config: agentd.Config{Log: log}})
		h.awaitReady()
		const n = 200
		var roots []subjects.Run
		for range n {
			roots = append(roots, h.submit("leaf", "go"))
		}
		for _, r := range roots {
			h.expectCompleted(r, "leaf")
		}
		begun := len(withText(lines(), `"tree begun"`))
		ended := len(withText(lines(), `"tree ended"`))
		// 100 lines in each of two windows of 10 s.
		if begun+ended > 200 || begun == 0 {
			t.Errorf("%d trees took %d lines, want at most 200, and one begin at least", n, begun+ended)
		}
		time.Sleep(time.Minute)
		for _, l := range withText(lines(), "trees, summed") {
			begun += attr(t, l, "begun")
			ended += attr(t, l, "completed")
		}
		if begun != n || ended != n {
			t.Errorf("the log has %d begins and %d ends, want %d of each", begun, ended, n)
		}
		later := h.submit("leaf", "later")
		h.expectCompleted(later, "leaf")
		h.expectLines(lines(), `"tree ended" tree=`+later.Tree.String())
	})
}
