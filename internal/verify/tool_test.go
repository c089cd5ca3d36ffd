package verify_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/verify"
	"github.com/axebus/axe/provider"
)

// calledTool begins a story in which the lead calls a tool whose effect may
// happen once. A worker begins the call, message 40.
func (s *story) calledTool(onUnknown run.OnUnknown) {
	clear(s.ms)
	s.agents["r-1-0"] = s.agents["r"]
	s.call("r", 10, deadline)
	e := s.turn("r", 1, 20, 10, deadline, "r-1-0")
	e.Answer.ToolCalls[0] = provider.NewToolCall("0", "run_command", json.RawMessage(`{"command":"true"}`))
	e.Calls[0].Op, e.Calls[0].Effect, e.Calls[0].OnUnknown = run.OpTool, run.ToolOnce, onUnknown
	e.Start.Served = []run.ServedTool{{
		Name: "run_command", By: s.agents["r"], Effect: run.ToolOnce, OnUnknown: onUnknown,
	}}
	call := s.call("r-1-0", 30, deadline)
	call.Subject, call.body = s.run("r-1-0").ToolCall(), s.asks("r", 1, 0)
	s.begun(1, 40, "w1", nil)
}

// begun stores the beginning of the tool call by a worker.
func (s *story) begun(index int, seq uint64, worker string, detail json.RawMessage) {
	s.put(fmt.Sprintf("begun %d", index), seq, s.run("r-1-0").Log(), &run.Entry{
		Index: index, Kind: run.EntryStarted, Trigger: 30, Seen: 30, Worker: worker,
		Attempt: &run.Attempt{ID: worker, Detail: detail},
	})
}

// TestBegunTwice: a call of a tool whose effect may happen once is not begun
// again. It may be if its settings ask for that, or if the tool can tell that
// the first attempt had no effect. That is a note.
func TestBegunTwice(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		onUnknown  run.OnUnknown
		detail     string
		again      bool
		violations int
		notes      int
	}{
		{name: "begun once"},
		{name: "begun again", again: true, violations: 1},
		{name: "the settings ask for it", onUnknown: run.UnknownAgain, again: true, notes: 1},
		{name: "the run fails otherwise", onUnknown: run.UnknownFail, again: true, violations: 1},
		{name: "the tool can tell", detail: `{"before":"x"}`, again: true, notes: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t)
			s.calledTool(test.onUnknown)
			if test.detail != "" {
				s.begun(1, 40, "w1", json.RawMessage(test.detail))
			}
			if test.again {
				s.begun(2, 50, "w2", json.RawMessage(test.detail))
			}
			r := s.report(at(60))
			notes := len(r.Findings) - r.Violations()
			if r.Violations() != test.violations || notes != test.notes {
				t.Errorf("%d violations and %d notes, want %d and %d: %+v",
					r.Violations(), notes, test.violations, test.notes, r.Findings)
			}
			for _, f := range r.Findings {
				if f.Rule != verify.Effect {
					t.Errorf("found by the rule %s, want %s: %+v", f.Rule, verify.Effect, f)
				}
			}
		})
	}
}
