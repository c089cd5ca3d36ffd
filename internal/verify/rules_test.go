package verify_test

import (
	"slices"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/verify"
	"github.com/axebus/axe/subjects"
)

// TestCleanHistory: a tree with all kinds of ends gives no finding.
func TestCleanHistory(t *testing.T) {
	r := newHistory(t).report(deadline.Add(time.Hour))
	if r.Trees != 1 || r.UnderWay != 0 || r.Runs != 6 || r.Messages != 24 || len(r.Findings) != 0 {
		t.Errorf("got %+v, want one tree of 6 runs and 24 messages that has ended, without a finding", r)
	}
}

// TestUnderWay: a history that ends after any message but the last has no
// violation at the time of that message. Its tree is under way.
func TestUnderWay(t *testing.T) {
	all := newHistory(t).messages()
	for n := range all {
		c := verify.New(verify.Config{Slack: slack})
		for _, m := range all[:n] {
			c.Add(m)
		}
		if n == 0 {
			continue
		}
		r := c.Report(all[n-1].Time)
		if r.Violations() != 0 || r.UnderWay != 1 || len(r.UnderWayTrees) != 1 {
			t.Errorf("the first %d messages: got %+v, want one tree under way, without a violation", n, r)
		}
	}
}

// afterAll is a time after every deadline.
var afterAll = deadline.Add(time.Hour)

// TestViolations: a small corruption of a history is found as a violation of
// one rule, and of no other. TestMail, TestRemovedBeginning and TestArtifacts
// have the violations of the rules Mail, Stream and Artifact.
func TestViolations(t *testing.T) {
	for _, tt := range []struct {
		name    string
		rule    verify.Rule
		corrupt func(s *history)
	}{
		{"a root without an outcome", verify.Outcome, func(s *history) { s.drop("outcome r") }},
		{"a run at work without an outcome", verify.Outcome, func(s *history) { s.drop("outcome r-2-0-1-0") }},
		{"a result without a call", verify.Outcome, func(s *history) {
			clear(s.ms)
			s.outcome("r", 10, run.Outcome{})
		}},
		{"a malformed outcome", verify.Outcome, func(s *history) { s.ms["outcome r-1-0"].body = "{" }},
		{"an outcome of no status", verify.Outcome, func(s *history) { s.outcomeNamed("outcome r").Status = "fine" }},

		{"a hole", verify.Log, func(s *history) { s.drop("log r 1") }},
		{"a gap", verify.Log, func(s *history) { s.entryNamed("log r 2").Index = 3 }},
		{"an index twice", verify.Log, func(s *history) { s.entryNamed("end r-2-0").Index = 1 }},
		{"a malformed entry", verify.Log, func(s *history) { s.ms["log r 1"].body = "nonsense" }},
		{"an entry of no kind", verify.Log, func(s *history) { s.entryNamed("end r-2-0").Kind = "mail" }},

		{"a call that leaves out its caller's policy", verify.Orphan, func(s *history) {
			s.entryNamed("log r 1").Start.Policy = run.Policy{Tools: []string{}}
		}},
		{"a call with a wider policy", verify.Orphan, func(s *history) {
			s.entryNamed("log r 1").Start.Policy = run.Policy{Tools: []string{"call_agent"}}
			for _, path := range []string{"r-1-0", "r-1-1", "r-2-0"} {
				wider := run.Policy{Tools: []string{"call_agent", "spawn_agents"}}
				s.ms["call "+path].body = run.Input{Task: "task of " + path, Policy: wider}
			}
		}},
		{"an ad hoc call that was not decided", verify.Orphan, func(s *history) {
			dearer := &run.Spawned{AdHoc: &run.AdHoc{Model: "a/dearer"}}
			s.ms["call r-1-0"].body = run.Input{Task: "task of r-1-0", Spawned: dearer}
		}},

		{"an outcome by another agent", verify.Order, func(s *history) { s.outcomeNamed("outcome r").Agent = "other" }},
		{"an outcome in another slot", verify.Order, func(s *history) {
			s.put("stray", 75, s.run("r").Reply(1, 1), &run.Outcome{
				Status: run.StatusFailed, Agent: "a", Tree: "T", Path: "r-1-0",
			})
		}},
		{"an outcome of another tree", verify.Order, func(s *history) { s.outcomeNamed("outcome r").Tree = "U" }},
		{"a trigger that does not exist", verify.Order, func(s *history) { s.entryNamed("log r 2").Trigger = 20 }},
		{"a timer that fired as the trigger", verify.Order, func(s *history) {
			s.put("due", 165, s.run("r").Due(1), "{}")
			s.entryNamed("log r 2").Trigger = 165
		}},
		{"a trigger to come", verify.Order, func(s *history) { s.entryNamed("log r 1").Trigger = 80 }},
		{"seen before its trigger", verify.Order, func(s *history) { s.entryNamed("log r 2").Seen = 170 }},
		{"seen after itself", verify.Order, func(s *history) { s.entryNamed("log r 2").Seen = 220 }},

		{"a call later than decided", verify.Deadline, func(s *history) {
			s.ms["call r-1-1-1-0"].header[subjects.HeaderDeadline] = subjects.FormatDeadline(at(160).Add(1))
		}},
		{"a call later than its caller", verify.Deadline, func(s *history) {
			late := deadline.Add(1)
			s.entryNamed("log r-2-0 1").Calls[0].Deadline = late
			s.ms["call r-2-0-1-0"].header[subjects.HeaderDeadline] = subjects.FormatDeadline(late)
		}},
		{"a call that may go deeper", verify.Deadline, func(s *history) {
			s.ms["call r-1-0"].header[subjects.HeaderMaxDepth] = "4"
		}},
		{"a call that may go deeper than decided", verify.Deadline, func(s *history) {
			s.entryNamed("log r 1").Start.MaxDepth = 2
		}},
		{"a completed outcome that is too late", verify.Deadline, func(s *history) {
			s.ms["outcome r"].Time = deadline.Add(slack + 1)
			s.outcomeNamed("outcome r").DurationMS = 1000 + deadline.Add(slack).Sub(s.ms["call r"].Time).Milliseconds()
		}},
		{"a lost timer", verify.Deadline, func(s *history) { s.until(70) }},

		{"an entry after the outcome", verify.AfterEnd, func(s *history) { s.ended("r", 3, 330, 290) }},
		{"an unfenced entry of another worker after the outcome", verify.AfterEnd, func(s *history) {
			s.ended("r", 3, 330, 290).Worker = "w2"
		}},
		{"an entry after the log's end", verify.AfterEnd, func(s *history) {
			s.put("more", 330, s.run("r-2-0").Log(), &run.Entry{
				Index: 3, Kind: run.EntryEnded, Trigger: 260, Seen: 260, End: &run.End{},
			})
		}},
		{"a completed outcome after the log's end", verify.AfterEnd, func(s *history) {
			o := s.outcomeNamed("outcome r-2-0-1-0")
			o.Status, o.CancelsSeen = run.StatusCompleted, 0
		}},
		{"a call after the end", verify.AfterEnd, func(s *history) {
			s.until(30)
			s.call("r-1-0", 40, deadline)
			s.outcome("r", 45, run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled})
			s.call("r-1-1", 50, deadline)
			s.outcome("r-1-0", 60, run.Outcome{})
			s.outcome("r-1-1", 70, run.Outcome{})
		}},
		{"an idle entry in spite of the cancellation", verify.AfterEnd, func(s *history) {
			s.until(10)
			s.cancel("r", 20)
			s.idle("r", 1, 30, 10).Seen = 20
			s.ended("r", 2, 40, 20)
			s.outcome("r", 50, run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled})
		}},
		{"a turn in spite of the cancellation", verify.AfterEnd, func(s *history) {
			s.until(10)
			s.cancel("r", 20)
			s.turn("r", 1, 30, 10, deadline, "r-1-0").Seen = 20
			s.ended("r", 2, 40, 20)
			s.outcome("r", 50, run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled})
		}},

		{"more runs than there may be", verify.Limits, func(s *history) {
			s.ms["call r-1-0"].header[subjects.HeaderLimits] = "r agents=5"
		}},
		{"more model calls than there may be", verify.Limits, func(s *history) {
			s.ms["call r-1-0"].header[subjects.HeaderLimits] = "r agents=6 turns=500"
			s.ms["call r-2-0-1-0"].header[subjects.HeaderLimits] = "r turns=2"
		}},

		{"more tool runs than there may be", verify.Limits, func(s *history) {
			s.toolRuns()
			s.ms["call r"].header[subjects.HeaderLimits] = "r tool_calls=1"
		}},

		{"a call that its caller has not decided", verify.Orphan, func(s *history) {
			s.agents["r-1-2"] = "a"
			s.call("r-1-2", 100, deadline)
		}},
		{"a call of another agent", verify.Orphan, func(s *history) {
			s.until(40)
			s.agents["r-1-1"] = "x"
			s.call("r-1-1", 50, deadline)
		}},
		{"a call with another task", verify.Orphan, func(s *history) {
			s.ms["call r-1-0"].body = run.Input{Task: "buy"}
		}},
		{"a call with more context", verify.Orphan, func(s *history) {
			s.ms["call r-1-0"].body = run.Input{Task: "task of r-1-0", Context: "and then"}
		}},
		{"a call that was refused", verify.Orphan, func(s *history) {
			s.until(50)
			s.entryNamed("log r 1").Calls[1].Error = "no"
		}},
		{"a call by a run that was not called", verify.Orphan, func(s *history) {
			clear(s.ms)
			s.call("r-1-0", 10, deadline)
		}},
		{"a second call", verify.Orphan, func(s *history) {
			first := *s.ms["call r-1-0"]
			first.Seq = 65
			s.ms["again"] = &first
		}},
		{"an outcome of no call", verify.Orphan, func(s *history) {
			s.put("stray", 100, s.run("r").Reply(1, 2), &run.Outcome{Status: run.StatusFailed})
		}},
		{"an outcome of a call that is not published", verify.Orphan, func(s *history) {
			s.until(40)
			s.outcome("r-1-1", 50, run.Outcome{})
		}},
		{"an outcome for a run that was not called", verify.Orphan, func(s *history) {
			s.agents["r-1-2"] = "a"
			s.put("stray", 100, s.run("r-1-2").Reply(1, 0), &run.Outcome{Status: run.StatusFailed})
		}},
		{"a log of a run that was not called", verify.Orphan, func(s *history) {
			s.agents["r-1-2"] = "a"
			s.ended("r-1-2", 1, 100, 90)
		}},

		{"a turn without an outcome", verify.FanOut, func(s *history) { s.drop("outcome r-1-0") }},
		{"an answer without an outcome", verify.FanOut, func(s *history) { s.drop("outcome r-2-0") }},
		{"an answer without a timer", verify.FanOut, func(s *history) { s.drop("fired") }},
		{"an answer of a held run", verify.FanOut, func(s *history) {
			s.supervisedTurn()
			s.verdict(`{"decision":"pause","reason":"who pays?"}`)
			s.outcome("r", 100, run.Outcome{})
		}},
		{"a failure of a held run", verify.FanOut, func(s *history) {
			s.supervisedTurn()
			s.verdict("no verdict")
			s.outcome("r", 100, run.Outcome{Status: run.StatusFailed, Kind: run.KindError})
		}},
		{"a turn of a held run", verify.FanOut, func(s *history) {
			s.supervisedTurn()
			s.verdict("no verdict")
			s.turn("r", 2, 100, 90, deadline, "r-2-0")
			s.outcome("r", 110, run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled})
		}},
		{"an idle entry of a held run", verify.FanOut, func(s *history) {
			s.supervisedTurn()
			s.verdict("no verdict")
			s.idle("r", 2, 100, 90)
			s.outcome("r", 110, run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled})
		}},
		{"an answer of an idle run", verify.FanOut, func(s *history) {
			s.until(10)
			s.idle("r", 1, 20, 10)
			s.outcome("r", 30, run.Outcome{})
		}},
		{"a call that was not published", verify.FanOut, func(s *history) {
			s.drop("call r-1-1-1-0", "cancel c", "end r-1-1-1-0", "outcome r-1-1-1-0")
		}},

		{"a turn after a cancel message", verify.AfterCancel, func(s *history) {
			s.cancel("r", 15)
			s.until(15)
			s.turn("r", 1, 30, 10, deadline, "r-1-0").CancelsSeen = 15
			s.outcome("r", 50, run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled})
		}},
		{"an idle entry after a cancel message", verify.AfterCancel, func(s *history) {
			s.until(10)
			s.cancel("r", 15)
			s.idle("r", 1, 30, 10).CancelsSeen = 15
			s.outcome("r", 50, run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled})
		}},
		{"a last answer after a cancel message above", verify.AfterCancel, func(s *history) {
			s.until(70)
			s.cancel("r-1-1", 80)
			e := s.idle("r-1-1-1-0", 1, 90, 70)
			e.Kind, e.CancelsSeen = run.EntryFinal, 85
			s.outcome("r-1-1-1-0", 100, run.Outcome{CancelsSeen: 70})
		}},
		{"an answer after a cancel message", verify.AfterCancel, func(s *history) {
			s.until(70)
			s.cancel("r-1-1", 80)
			s.outcome("r-1-1-1-0", 90, run.Outcome{CancelsSeen: 85})
		}},

		{"a tool with one effect that is begun twice", verify.Effect, func(s *history) {
			s.toolRun(run.Attempt{ID: "first"}, run.UnknownTell)
		}},

		{"a tool that is held without its settings asking for that", verify.Effect, func(s *history) {
			s.heldToolRun(run.UnknownTell, run.SettleDone)
			s.drop("start second")
		}},
		{"an outcome of a tool that waits for a person", verify.FanOut, func(s *history) {
			s.heldToolRun(run.UnknownAsk, run.SettleDone)
			s.drop("start second", "settlement")
			s.outcomeNamed("outcome r-1-0").Worker = "w3"
		}},

		{"a call of another schema", verify.Header, func(s *history) {
			s.ms["call r-1-0"].header[subjects.HeaderSchema] = "2"
		}},
		{"a call that answers elsewhere", verify.Header, func(s *history) {
			s.ms["call r-1-0"].header[subjects.HeaderReply] = s.run("r").Reply(1, 1)
		}},
		{"a call without a body", verify.Header, func(s *history) { s.ms["call r-1-0"].body = "" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newHistory(t)
			tt.corrupt(s)
			r := s.report(s.violationTime())
			if r.Violations() == 0 {
				t.Errorf("no violation is found, want one of the rule %s", tt.rule)
			}
			for _, f := range r.Findings {
				if f.Rule != tt.rule && f.Severity == verify.Violation || f.Tree != "T" || f.Text == "" {
					t.Errorf("got the finding %v, want one of tree T, and no violation of a rule but %s", f, tt.rule)
				}
			}
			if t.Failed() {
				for _, m := range s.messages() {
					t.Logf("%d %s %s", m.Seq, m.Subject, m.Body)
				}
			}
		})
	}
}

// until drops the messages after a sequence.
func (s *history) until(seq uint64) {
	for name, m := range s.ms {
		if m.Seq > seq {
			delete(s.ms, name)
		}
	}
}

// violationTime is the time of a report in TestViolations: after all deadlines.
// For a history that ends before message 200 it is soon after the time at which
// a worker should have taken the tree over.
func (s *history) violationTime() time.Time {
	last := slices.MaxFunc(s.messages(), func(a, b verify.Message) int { return a.Time.Compare(b.Time) })
	if last.Seq < 200 {
		return at(160).Add(slack + verify.DefaultTakeover + 1)
	}
	return afterAll
}
