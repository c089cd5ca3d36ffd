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

// acts is a log entry with calls of any kind. The Task of each is its prompt or
// its message.
func (s *story) acts(path string, index int, seq, trigger, seen uint64, calls ...run.Call) {
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

// tells stores the idle notice of a fork of the lead.
func (s *story) tells(path string, turn int, seq, seen uint64) {
	s.write("r", fmt.Sprintf("%s-idle%d", path, turn), seq, run.Mail{From: path, Text: "{}", Idle: true, Seen: seen})
}

// newMailStory is a tree with a root that forks a run, writes to it when it is
// idle, gets its second notice and ends. The fork ends with it.
func newMailStory(tb testing.TB) *story {
	tb.Helper()
	s := newStory(tb)
	clear(s.ms)
	s.agents["r-1-0"] = "lead"
	s.call("r", 10, deadline)
	fork := subjects.Root.Child(1, 0)
	s.acts("r", 1, 20, 10, 10, run.Call{Op: run.OpFork, Agent: "lead", To: fork, Deadline: deadline, Task: "one"})
	s.call("r-1-0", 30, deadline).body = s.asks("r", 1, 0)
	s.idle("r-1-0", 1, 40, 30)
	s.tells("r-1-0", 1, 50, 30)
	s.acts("r", 2, 60, 10, 50, run.Call{Op: run.OpSend, Agent: "lead", To: fork, Task: "more"})
	s.write("r-1-0", "r-2-0", 70, run.Mail{From: "r", Text: "more"})
	s.idle("r-1-0", 2, 80, 70)
	s.tells("r-1-0", 2, 90, 70)
	s.idle("r", 3, 100, 10).Kind = run.EntryFinal
	s.cancel("r-1-0", 110)
	s.outcome("r", 120, run.Outcome{})
	s.ended("r-1-0", 3, 130, 110)
	s.outcome("r-1-0", 140, run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled})
	return s
}

// stopped has a person stop the fork while it waits for a run that it has
// called. After that it is idle.
func (s *story) stopped() {
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

// TestMail: mail of forks, parents and people is right, in time or late. Mail
// that no run can have written is found.
func TestMail(t *testing.T) {
	for _, tt := range []struct {
		name string
		// want is the severity of all findings, "" for none.
		want  verify.Severity
		write func(s *story)
	}{
		{"all of it", "", func(*story) {}},
		{"a notice that is late", "", func(s *story) { s.ms["mail r-1-0-idle1"].Seq = 58 }},
		{"a message of a person", "", func(s *story) { s.write("r-1-0", "k", 45, run.Mail{From: "user", Text: "hi"}) }},
		{"a message that is the last, of a run that is ended", "", func(s *story) {
			s.drop("mail r-2-0", "log r-1-0 2", "mail r-1-0-idle2", "log r 3", "cancel r-1-0")
			s.cancel("r", 100)
			s.cancel("r-1-0", 110)
			s.ended("r", 3, 115, 100)
			s.outcome("r", 120, run.Outcome{Status: run.StatusFailed, Kind: run.KindCancelled})
			s.ended("r-1-0", 2, 130, 110)
		}},
		{"the notice of a run that was stopped", "", func(s *story) {
			s.stopped()
			s.tells("r-1-0", 1, 80, 72)
		}},
		{"a person's message twice", verify.Note, func(s *story) {
			s.write("r-1-0", "k", 45, run.Mail{From: "user", Text: "hi"})
			s.put("again", 46, s.ms["mail k"].Subject, s.ms["mail k"].body)
		}},

		{"a message twice", verify.Violation, func(s *story) {
			s.put("again", 75, s.ms["mail r-2-0"].Subject, s.ms["mail r-2-0"].body)
		}},
		{"a message that the log does not send", verify.Violation, func(s *story) {
			s.write("r-1-0", "r-2-1", 75, run.Mail{From: "r", Text: "more"})
		}},
		{"a message before its turn", verify.Violation, func(s *story) {
			s.ms["mail r-2-0"].Seq, s.entry("log r-1-0 2").Trigger = 55, 55
		}},
		{"a message to another run", verify.Violation, func(s *story) {
			s.entry("log r 2").Calls[0].To = subjects.Root.Child(1, 1)
		}},
		{"a message of another text", verify.Violation, func(s *story) {
			s.ms["mail r-2-0"].body = run.Mail{From: "r", Text: "less"}
		}},
		{"a message under another's key", verify.Violation, func(s *story) {
			s.ms["mail r-2-0"].body = run.Mail{From: "r-1-0", Text: "more"}
		}},
		{"a message of a run that was not called", verify.Violation, func(s *story) {
			s.write("r-1-0", "r-1-1-1-0", 45, run.Mail{From: "r-1-1", Text: "hi"})
		}},
		{"a person's message where a run writes", verify.Violation, func(s *story) {
			s.write("r", "r-1-0-idle3", 95, run.Mail{From: "user", Text: "hi"})
		}},
		{"a message that was not written", verify.Violation, func(s *story) {
			s.drop("mail r-2-0", "log r-1-0 2", "mail r-1-0-idle2")
			s.entry("end r-1-0").Index = 2
		}},
		{"a message that was refused", verify.Violation, func(s *story) { s.entry("log r 2").Calls[0].Error = "no" }},
		{"a notice that was not written", verify.Violation, func(s *story) { s.drop("mail r-1-0-idle1") }},
		{"a notice before the answer", verify.Violation, func(s *story) { s.ms["mail r-1-0-idle1"].Seq = 35 }},
		{"a notice of a turn that is none", verify.Violation, func(s *story) { s.tells("r-1-0", 3, 95, 70) }},
		{"a notice of a run at work", verify.Violation, func(s *story) {
			s.stopped()
			s.tells("r-1-0", 1, 71, 30)
		}},
		{"a notice of no fork", verify.Violation, func(s *story) { s.tells("r-1-1", 1, 95, 70) }},
		{"a notice of another run", verify.Violation, func(s *story) {
			s.ms["mail r-1-0-idle2"].body = run.Mail{From: "r-1-1", Idle: true, Seen: 70}
		}},
		{"a notice that had read less than its answer", verify.Violation, func(s *story) {
			s.tells("r-1-0", 2, 90, 69)
		}},
		{"a notice that had read more than its answer", verify.Violation, func(s *story) {
			s.tells("r-1-0", 2, 90, 71)
		}},
		{"a notice of a stopped run that had read no more than its turn", verify.Violation, func(s *story) {
			s.stopped()
			s.tells("r-1-0", 1, 80, 30)
		}},
		{"a notice of a stopped run that had read what came later", verify.Violation, func(s *story) {
			s.stopped()
			s.tells("r-1-0", 1, 80, 75)
		}},
		{"a notice of a run that a person is to approve of", verify.Violation, func(s *story) {
			s.drop("log r-1-0 1", "mail r-1-0-idle1", "log r-1-0 2", "mail r-1-0-idle2")
			e := s.turn("r-1-0", 1, 32, 30, deadline, "r-1-0-1-0")
			e.Review = &run.Call{Op: run.OpReview, Agent: "nobody", Error: "no such agent", Kind: run.KindUnknownAgent}
			e.Start.Supervision = run.Supervision{Mode: run.Human, Agent: "nobody", Timeout: time.Hour}
			s.tells("r-1-0", 1, 80, 30)
			s.entry("end r-1-0").Index = 2
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newMailStory(t)
			tt.write(s)
			found := s.report(never).Findings
			if tt.want == "" && len(found) > 0 || tt.want != "" && len(found) == 0 {
				t.Errorf("%d findings", len(found))
			}
			for _, f := range found {
				if f.Severity != tt.want || f.Rule != verify.Mail {
					t.Errorf("%v", f)
				}
			}
		})
	}
}
