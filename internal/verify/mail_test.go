package verify_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/verify"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// callsOfAnyKind stores a log entry with calls: forks, messages to forks and
// others. The Task of each is its prompt or its message.
func (s *history) callsOfAnyKind(path string, index int, seq, trigger, seen uint64, calls ...run.Call) {
	e := s.turn(path, index, seq, trigger, deadline)
	e.Seen = seen
	e.Calls = calls
	e.Timer = time.Time{}
	for i, c := range calls {
		args, err := json.Marshal(map[string]string{"prompt": c.Task, "message": c.Task})
		if err != nil {
			s.tb.Fatal(err)
		}
		e.Answer.ToolCalls = append(e.Answer.ToolCalls, provider.NewToolCall(strconv.Itoa(i), "x", args))
	}
}

// idleNotice stores the idle notice of a fork of the root.
func (s *history) idleNotice(path string, turn int, seq, seen uint64) {
	s.mail("r", fmt.Sprintf("%s-idle%d", path, turn), seq, run.Mail{From: path, Text: "{}", Idle: true, Seen: seen})
}

// newMailHistory makes a tree with a root that forks a run, writes to it when
// it is idle, gets its second notice and ends. The fork ends with it.
func newMailHistory(tb testing.TB) *history {
	tb.Helper()
	s := newHistory(tb)
	clear(s.ms)
	s.agents["r-1-0"] = "lead"
	s.call("r", 10, deadline)
	fork := subjects.Root.Child(1, 0)
	first := run.Call{Op: run.OpFork, Agent: "lead", To: fork, Deadline: deadline, Task: "one"}
	s.callsOfAnyKind("r", 1, 20, 10, 10, first)
	s.call("r-1-0", 30, deadline).body = s.inputOf(0)
	s.idle("r-1-0", 1, 40, 30)
	s.idleNotice("r-1-0", 1, 50, 30)
	s.callsOfAnyKind("r", 2, 60, 10, 50, run.Call{Op: run.OpSend, Agent: "lead", To: fork, Task: "more"})
	s.mail("r-1-0", "r-2-0", 70, run.Mail{From: "r", Text: "more"})
	s.idle("r-1-0", 2, 80, 70)
	s.idleNotice("r-1-0", 2, 90, 70)
	s.idle("r", 3, 100, 10).Kind = run.EntryFinal
	s.cancel("r-1-0", 110)
	s.outcome("r", 120, run.Outcome{})
	s.ended("r-1-0", 3, 130, 110)
	s.outcome("r-1-0", 140, run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled})
	return s
}

// interruptedFork changes the tree of newMailHistory. The fork calls a run, and
// a person interrupts the fork while it waits. The fork is idle after that, and
// has no idle notice yet.
func (s *history) interruptedFork() {
	s.drop("log r-1-0 1", "mail r-1-0-idle1", "log r-1-0 2", "mail r-1-0-idle2")
	s.agents["r-1-0-1-0"] = "a"
	s.turn("r-1-0", 1, 32, 30, deadline, "r-1-0-1-0")
	s.call("r-1-0-1-0", 34, deadline)
	s.put("stop", 72, s.run("r-1-0").Interrupt(parsed(s.tb, subjects.ParseKey, "stop")), "")
	s.cancel("r-1-0-1-0", 73)
	s.ended("r-1-0-1-0", 1, 74, 73)
	s.outcome("r-1-0-1-0", 75, run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled})
	s.ms["end r-1-0"].body = &run.Entry{
		Index:   2,
		Kind:    run.EntryEnded,
		Trigger: 110,
		Seen:    110,
		End:     &run.End{Kind: run.KindCancelled},
	}
}

// TestMail: mail of forks, parents and people gives no finding, also if it
// comes late. Mail that no run can have written is a violation, and so is mail
// that is missing. A person's message that is stored twice is a note.
func TestMail(t *testing.T) {
	for _, tt := range []struct {
		name string
		// want is the severity of all findings, "" for none.
		want  verify.Severity
		write func(s *history)
	}{
		{"as it was written", "", func(*history) {}},
		{"a notice that is late", "", func(s *history) { s.ms["mail r-1-0-idle1"].Seq = 58 }},
		{"a message of a person", "", func(s *history) {
			s.mail("r-1-0", "k", 45, run.Mail{From: "user", Text: "hi"})
		}},
		{"a message that a run did not send before it was cancelled", "", func(s *history) {
			s.drop("mail r-2-0", "log r-1-0 2", "mail r-1-0-idle2", "log r 3", "cancel r-1-0")
			s.cancel("r", 100)
			s.cancel("r-1-0", 110)
			s.ended("r", 3, 115, 100)
			s.outcome("r", 120, run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled})
			s.ended("r-1-0", 2, 130, 110)
		}},
		{"the notice of an interrupted run", "", func(s *history) {
			s.interruptedFork()
			s.idleNotice("r-1-0", 1, 80, 72)
		}},
		{"a person's message twice", verify.Note, func(s *history) {
			s.mail("r-1-0", "k", 45, run.Mail{From: "user", Text: "hi"})
			s.put("again", 46, s.ms["mail k"].Subject, s.ms["mail k"].body)
		}},

		{"a message twice", verify.Violation, func(s *history) {
			s.put("again", 75, s.ms["mail r-2-0"].Subject, s.ms["mail r-2-0"].body)
		}},
		{"a message that the log does not send", verify.Violation, func(s *history) {
			s.mail("r-1-0", "r-2-1", 75, run.Mail{From: "r", Text: "more"})
		}},
		{"a message before its turn", verify.Violation, func(s *history) {
			s.ms["mail r-2-0"].Seq, s.entryNamed("log r-1-0 2").Trigger = 55, 55
		}},
		{"a message to another run", verify.Violation, func(s *history) {
			s.entryNamed("log r 2").Calls[0].To = subjects.Root.Child(1, 1)
		}},
		{"a message of another text", verify.Violation, func(s *history) {
			s.ms["mail r-2-0"].body = run.Mail{From: "r", Text: "less"}
		}},
		{"a message under another's key", verify.Violation, func(s *history) {
			s.ms["mail r-2-0"].body = run.Mail{From: "r-1-0", Text: "more"}
		}},
		{"a message of a run that was not called", verify.Violation, func(s *history) {
			s.mail("r-1-0", "r-1-1-1-0", 45, run.Mail{From: "r-1-1", Text: "hi"})
		}},
		{"a person's message where a run writes", verify.Violation, func(s *history) {
			s.mail("r", "r-1-0-idle3", 95, run.Mail{From: "user", Text: "hi"})
		}},
		{"a message that was not written", verify.Violation, func(s *history) {
			s.drop("mail r-2-0", "log r-1-0 2", "mail r-1-0-idle2")
			s.entryNamed("end r-1-0").Index = 2
		}},
		{"a message that was refused", verify.Violation, func(s *history) {
			s.entryNamed("log r 2").Calls[0].Error = "no"
		}},
		{"a notice that was not written", verify.Violation, func(s *history) { s.drop("mail r-1-0-idle1") }},
		{"a notice before the answer", verify.Violation, func(s *history) { s.ms["mail r-1-0-idle1"].Seq = 35 }},
		{"a notice of a turn that does not exist", verify.Violation, func(s *history) {
			s.idleNotice("r-1-0", 3, 95, 70)
		}},
		{"a notice of a run at work", verify.Violation, func(s *history) {
			s.interruptedFork()
			s.idleNotice("r-1-0", 1, 71, 30)
		}},
		{"a notice of no fork", verify.Violation, func(s *history) { s.idleNotice("r-1-1", 1, 95, 70) }},
		{"a notice of another run", verify.Violation, func(s *history) {
			s.ms["mail r-1-0-idle2"].body = run.Mail{From: "r-1-1", Idle: true, Seen: 70}
		}},
		{"a notice that had read less than its answer", verify.Violation, func(s *history) {
			s.idleNotice("r-1-0", 2, 90, 69)
		}},
		{"a notice that had read more than its answer", verify.Violation, func(s *history) {
			s.idleNotice("r-1-0", 2, 90, 71)
		}},
		{"a notice of an interrupted run that had read no more than its turn", verify.Violation, func(s *history) {
			s.interruptedFork()
			s.idleNotice("r-1-0", 1, 80, 30)
		}},
		{"a notice of an interrupted run that had read what came later", verify.Violation, func(s *history) {
			s.interruptedFork()
			s.idleNotice("r-1-0", 1, 80, 75)
		}},
		{"a notice of a run that is held", verify.Violation, func(s *history) {
			s.drop("log r-1-0 1", "mail r-1-0-idle1", "log r-1-0 2", "mail r-1-0-idle2")
			e := s.turn("r-1-0", 1, 32, 30, deadline, "r-1-0-1-0")
			e.Review = &run.Call{Op: run.OpReview, Agent: "missing", Error: "no such agent", Kind: run.KindUnknownAgent}
			e.Start.Supervision = run.Supervision{Mode: run.Human, Agent: "missing", Timeout: time.Hour}
			s.idleNotice("r-1-0", 1, 80, 30)
			s.entryNamed("end r-1-0").Index = 2
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newMailHistory(t)
			tt.write(s)
			found := s.report(afterAll).Findings
			if tt.want == "" && len(found) > 0 || tt.want != "" && len(found) == 0 {
				t.Errorf("got %d findings, want some of the severity %q, none for \"\"", len(found), tt.want)
			}
			for _, f := range found {
				if f.Severity != tt.want || f.Rule != verify.Mail {
					t.Errorf("got the finding %v, want a %s of the rule %s", f, tt.want, verify.Mail)
				}
			}
		})
	}
}
