package verify_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/verify"
	"github.com/axebus/axe/subjects"
)

// TestRaces: a worker that dies, freezes or comes too late may store or leave
// out messages. So may clients and people. None of these histories has a
// violation. Some have one note.
func TestRaces(t *testing.T) {
	failed := run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled}
	for _, tt := range []struct {
		name string
		// rule is the rule of the one note, "" for no note.
		rule  verify.Rule
		write func(s *history)
	}{
		{"a second outcome of a root", verify.Outcome, func(s *history) {
			s.put("again", 330, s.ms["outcome r"].Subject, s.ms["outcome r"].body)
		}},
		{"a second outcome of a call", verify.Outcome, func(s *history) {
			s.put("again", 85, s.ms["outcome r-1-0"].Subject, s.ms["outcome r-1-0"].body)
		}},
		{"an entry of a zombie after the outcome", verify.AfterEnd, func(s *history) {
			s.ended("r", 3, 330, 290).Worker = "w2"
			s.ms["end r"].Fenced, s.ms["end r"].Fence = true, 220
		}},
		{"an answer in time that was stored late", verify.Deadline, func(s *history) {
			s.ms["outcome r"].Time = deadline.Add(slack + 1)
		}},
		{"an answer that was on the log in time", verify.Deadline, func(s *history) {
			final := s.idle("r", 3, 315, 290)
			final.Kind = run.EntryFinal
			final.Seen = 310
			s.ms["outcome r"].Time = deadline.Add(slack + 1)
			s.outcomeNamed("outcome r").DurationMS = (2 * time.Hour).Milliseconds()
		}},
		{"a turn that was stored late", verify.Deadline, func(s *history) {
			s.ms["log r-2-0 1"].Time = deadline.Add(slack + 1)
		}},
		{"a refused submission", "", func(s *history) {
			clear(s.ms)
			s.outcome("r", 10, failed)
		}},
		{"a call that its agent's workers refused", verify.Header, func(s *history) {
			clear(s.ms)
			s.call("r", 10, deadline).header[subjects.HeaderMaxDepth] = "99"
			s.outcome("r", 20, failed)
		}},
		{"a cancellation before the calls", "", func(s *history) {
			s.until(30)
			s.cancel("r", 40)
			s.cancel("r-1-0", 50)
			s.cancel("r-1-1", 60)
			s.ended("r", 2, 70, 40)
			s.outcome("r", 80, failed)
		}},
		{"a cancellation before the call", "", func(s *history) {
			clear(s.ms)
			s.cancel("r", 5)
			s.call("r", 10, deadline)
			s.ended("r", 1, 20, 10)
			s.outcome("r", 30, failed)
		}},
		{"calls of a zombie below a cancelled run", verify.AfterEnd, func(s *history) {
			s.until(40)
			s.cancel("r", 50)
			s.cancel("r-1-1", 60)
			s.ended("r", 2, 70, 50)
			s.outcome("r-1-0", 75, failed)
			s.outcome("r", 80, failed)
			s.call("r-1-1", 90, deadline)
			s.ended("r-1-1", 1, 100, 90)
			s.outcome("r-1-1", 110, failed)
		}},
		{"a turn whose worker had not read the cancellation", "", func(s *history) {
			clear(s.ms)
			s.call("r", 10, deadline)
			s.cancel("r", 20)
			s.turn("r", 1, 30, 10, deadline, "r-1-0")
			s.ended("r", 2, 40, 20)
			s.outcome("r", 50, failed)
		}},
		{"a turn of a worker that the cancellation before the call had not reached", "", func(s *history) {
			clear(s.ms)
			s.cancel("r", 5)
			s.call("r", 10, deadline)
			s.turn("r", 1, 20, 10, deadline, "r-1-0")
			s.ended("r", 2, 30, 10)
			s.outcome("r", 40, failed)
		}},
		{"an answer that was asked for before the cancel message", "", func(s *history) {
			s.until(70)
			s.cancel("r-1-1", 80)
			s.outcome("r-1-1-1-0", 90, run.Outcome{CancelsSeen: 79})
		}},
		{"a poisoned run with children at work", "", func(s *history) {
			s.until(50)
			s.outcome("r", 60, run.Outcome{Status: run.StatusFailed, Kind: run.KindPoisoned})
			s.outcome("r-1-0", 70, run.Outcome{})
			s.outcome("r-1-1", 80, run.Outcome{})
		}},
		{"an answer of the server in the place of a cancel message", verify.Foreign, func(s *history) {
			s.put("answer", 55, s.run("r").Cancel(), "x").Answer = true
		}},
		{"an answer of the server in the place of an outcome", verify.Foreign, func(s *history) {
			s.put("answer", 15, s.ms["outcome r"].Subject, s.ms["outcome r"].body).Answer = true
		}},
		{"a dead letter", verify.Foreign, func(s *history) { s.put("dead", 330, s.run("r-1-0").Dead(), "x") }},
		{"a call that no worker took", verify.Outcome, func(s *history) {
			s.drop("cancel c", "end r-1-1-1-0", "outcome r-1-1-1-0")
		}},
		{"a sequential call that was due when time was over", verify.FanOut, func(s *history) {
			clear(s.ms)
			soon := at(100)
			s.call("r", 10, deadline)
			s.turn("r", 1, 20, 10, soon, "r-1-0", "r-1-1").Sequential = true
			s.call("r-1-0", 30, soon)
			s.outcome("r-1-0", 90, run.Outcome{})
			s.put("fired", 105, s.run("r").Fired(1), "{}")
			s.outcome("r", 120, run.Outcome{})
		}},
		{"a timer that fires when its turn waits for something else", "", func(s *history) {
			s.supervisedTurn()
			s.verdict(`{"decision":"continue"}`)
			// The timer was set for the review.
			s.put("due", 100, s.run("r").Due(1), "{}")
			s.put("fired", 101, s.run("r").Fired(1), "{}")
			s.call("r-1-0", 110, deadline).body = s.inputOf(0)
			s.outcome("r-1-0", 120, run.Outcome{})
			s.outcome("r", 130, run.Outcome{})
		}},
		{"a verdict on a run that has ended", "", func(s *history) {
			s.supervisedTurn()
			s.call("r-1-1", 30, at(100)).body = run.Input{Review: true}
			s.cancel("r", 40)
			s.cancel("r-1-1", 50)
			s.ended("r", 2, 60, 40)
			s.outcome("r", 70, failed)
			s.ended("r-1-1", 1, 80, 50)
			s.outcome("r-1-1", 90, failed)
		}},
		{"an approval after which no worker came until the calls had no time left", verify.FanOut, func(s *history) {
			s.supervisedTurn()
			s.entryNamed("log r 1").Calls[0].Deadline = at(150)
			s.verdict(`{"decision":"pause","reason":"who pays?"}`)
			s.put("approval", 100, "axe.run.lead.T.r.in.approve.k", run.Approval{Approve: true})
			// The timer was set for the person's decision.
			s.put("fired", 690, s.run("r").Fired(1), "{}")
			s.outcome("r", 700, run.Outcome{})
		}},
		{"a run of one turn that was interrupted before it answered", "", func(s *history) {
			clear(s.ms)
			s.call("r", 10, deadline).header[subjects.HeaderLimits] = "r turns=1"
			s.put("stop", 20, "axe.run.lead.T.r.in.interrupt.k", "")
			s.idle("r", 1, 30, 20).End = &run.End{Kind: run.KindCancelled}
			s.mail("r", "m", 40, run.Mail{From: "user", Text: "go on"})
			s.outcome("r", 50, run.Outcome{})
		}},
		{"a tree whose worker died before it published", verify.FanOut, func(s *history) { s.until(60) }},
		{"a tool that is begun again since its settings ask for it", verify.Effect, func(s *history) {
			s.toolRun(run.Attempt{ID: "first"}, run.UnknownAgain)
		}},
		{"a tool that is begun again and can show what its first attempt did", verify.Effect, func(s *history) {
			s.toolRun(run.Attempt{ID: "first", Detail: json.RawMessage(`{}`)}, run.UnknownTell)
		}},
		{"a tool that is begun again since a person said so", verify.Effect, func(s *history) {
			s.heldToolRun(run.UnknownAsk, run.SettleAgain)
		}},
		{"a tool that is done, as a person said", "", func(s *history) {
			s.heldToolRun(run.UnknownAsk, run.SettleDone)
			s.drop("start second")
		}},
		{"a late report of a tool that waits for a person", verify.Effect, func(s *history) {
			s.heldToolRun(run.UnknownAsk, run.SettleDone)
			s.drop("start second", "settlement")
		}},
		{"a settlement that cannot be read", verify.Foreign, func(s *history) {
			s.heldToolRun(run.UnknownAsk, run.SettleDone)
			s.drop("start second")
			s.put("odd", 43, "axe.run.a.T.r-1-0.in.settle.odd", `{"as":"perhaps"}`)
		}},
		{"a request to the model that its worker gave up", verify.Waste, func(s *history) {
			returned := run.Return{Cause: run.ReturnDrained, Turn: 1, AskedMS: 1, Worker: "w1"}
			s.put("returned", 45, s.run("r-1-0").Returned(subjects.ReturnKey(40, 1)), returned)
		}},
		{"mail of a later version", verify.Foreign, func(s *history) {
			s.put("mail", 35, "axe.run.lead.T.r.in.mail.x", "hi")
		}},
		{"a large body that is gone", verify.Outcome, func(s *history) { s.ms["outcome r-1-0"].Gone = true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newHistory(t)
			tt.write(s)
			r := s.report(s.noteTime())
			if tt.rule == "" && len(r.Findings) > 0 || tt.rule != "" && len(r.Findings) != 1 {
				t.Errorf("got %d findings, want one of the rule %q, none for \"\"", len(r.Findings), tt.rule)
			}
			for _, f := range r.Findings {
				if f.Severity != verify.Note || f.Rule != tt.rule {
					t.Errorf("got the finding %v, want a note of the rule %q", f, tt.rule)
				}
			}
		})
	}
}

// noteTime is the time of a report in TestRaces: after all deadlines if the
// root has an outcome. Otherwise it is the time of message 140, soon after the
// end of the history.
func (s *history) noteTime() time.Time {
	if s.ms["outcome r"] == nil {
		return at(140)
	}
	return afterAll
}

// TestForgotten: a tree whose beginning is older than the stream's first
// message is not checked. It gives one note. A tree that began later is
// checked.
func TestForgotten(t *testing.T) {
	s := newHistory(t)
	s.drop("call r", "timer", "log r 1", "call r-1-0")
	c := verify.New(verify.Config{First: []uint64{50}, Slack: slack})
	for _, m := range s.messages() {
		c.Add(m)
	}
	if r := c.Report(afterAll); r.Trees != 0 || len(r.Findings) != 1 || r.Findings[0].Severity != verify.Note ||
		r.Findings[0].Tree != "T" {
		t.Errorf("a tree without its beginning: got %+v, want no tree and one note", r)
	}
	c = verify.New(verify.Config{First: []uint64{5}, Slack: slack})
	for _, m := range newHistory(t).messages() {
		c.Add(m)
	}
	if r := c.Report(afterAll); r.Trees != 1 || len(r.Findings) != 0 {
		t.Errorf("a whole tree: got %+v, want one tree without a finding", r)
	}
}

// TestRemovedBeginning: the stream does not have the beginning of a tree. If
// the tree is too young to have lost it by age, a removal took it. That is one
// violation, and the only finding. Otherwise it is a note.
func TestRemovedBeginning(t *testing.T) {
	for aged, want := range map[time.Time]verify.Severity{
		{}:                            verify.Violation, // no message is that old
		at(50).Add(-61 * time.Minute): verify.Violation,
		at(50).Add(-59 * time.Minute): verify.Note,
	} {
		s := newHistory(t)
		s.drop("call r", "timer", "log r 1", "call r-1-0")
		c := verify.New(verify.Config{First: []uint64{50}, Aged: []time.Time{aged}, Slack: slack})
		for _, m := range s.messages() {
			c.Add(m)
		}
		if r := c.Report(afterAll); len(r.Findings) != 1 || r.Findings[0].Severity != want ||
			(r.Findings[0].Rule == verify.Stream) != (want == verify.Violation) {
			t.Errorf("messages before %v may be dropped: got %+v, want one %s", aged, r.Findings, want)
		}
	}
}

// TestForeign: a message with a subject that no stream of runs has is a note. A
// second report has the same notes.
func TestForeign(t *testing.T) {
	c := verify.New(verify.Config{})
	for i, subject := range []string{
		"axe.run.a.T.r", "axe.run.A.T.r.call", "axe.dead.submit.T.r", "axe.dead.x", "axe.timer.a.T.r",
		"else.where", "", "axe.submit.a.T", "axe.live.part.a.T.r",
	} {
		c.Add(verify.Message{Subject: subject, Seq: uint64(i + 1), Time: began})
	}
	for range 2 {
		r := c.Report(began.Add(time.Hour))
		if r.Trees != 0 || r.Violations() != 0 || len(r.Findings) != 9 || r.Messages != 9 {
			t.Errorf("got %+v, want 9 messages, each with a note, and no tree", r)
		}
	}
}

// TestRefusedOutcomes: outcomes without a signature do not count, and each is a
// note. One that the log of its caller counts is a note too, and counts: so the
// caller was right to go on. Without the true outcome of a forged one, that of
// the root is missing.
func TestRefusedOutcomes(t *testing.T) {
	for name, tt := range map[string]struct {
		write func(s *history)
		notes int
		rules []verify.Rule
	}{
		"none": {func(*history) {}, 0, nil},
		"forged before the true ones": {func(s *history) {
			forged := &run.Outcome{Status: run.StatusCompleted, Agent: "x", Tree: "T", Path: "r-1-0"}
			s.put("forged", 75, s.ms["outcome r-1-0"].Subject, forged)
			s.put("forged root", 35, s.ms["outcome r"].Subject, forged)
			s.entryNamed("log r 2").Refused = []uint64{75}
		}, 2, nil},
		"counted by the log": {func(s *history) {
			s.ms["outcome r-1-0"].header["unsigned"] = "yes"
		}, 1, nil},
		"refused by the log": {func(s *history) {
			s.ms["outcome r-1-0"].header["unsigned"] = "yes"
			s.entryNamed("log r 2").Refused = []uint64{80}
		}, 1, []verify.Rule{verify.FanOut}},
		"of a root alone": {func(s *history) {
			s.ms["outcome r"].header["unsigned"] = "yes"
		}, 1, []verify.Rule{verify.Outcome}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHistory(t)
			tt.write(s)
			c := verify.New(verify.Config{Slack: slack, Refuses: func(_ subjects.Run, m verify.Message) string {
				if m.Seq%10 != 0 || m.Header("unsigned") != "" {
					return "it is not signed"
				}
				return ""
			}})
			for _, m := range s.messages() {
				c.Add(m)
			}
			notes, violated := 0, map[verify.Rule]bool{}
			for _, f := range c.Report(afterAll).Findings {
				if f.Severity == verify.Note && f.Rule == verify.Foreign {
					notes++
				} else {
					violated[f.Rule] = true
				}
			}
			if notes != tt.notes || len(violated) != len(tt.rules) {
				t.Errorf("%d notes and violations of %v, want %d and %v", notes, violated, tt.notes, tt.rules)
			}
			for _, rule := range tt.rules {
				if !violated[rule] {
					t.Errorf("no violation of %s", rule)
				}
			}
		})
	}
}
