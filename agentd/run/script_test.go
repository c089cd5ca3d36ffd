package run_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// TestScripts runs the scripts of testdata/scripts. The command print prints
// the turns too, and reset begins a new run. Each other command applies the
// event of its name:
//
//	called seq=1
//	answered seq=2 trigger=1 [seen=1] calls=(a,b) [ops=(call,fork)]
//		[of=(r-1-0)] [refused=(0)] [sequential] [timeout=30s] [timer=100]
//		[index=1]
//	replied seq=3 turn=1 index=0 [failed=error]
//	timed_out seq=9 turn=1
//	mailed seq=4 [from=r-1-0]
//	answered_without_calls seq=5 trigger=1 [seen=4] [final]
//	cancelled seq=9 [kind=poisoned]
//	ended seq=10 trigger=9 [kind=poisoned] [index=2]
//	outcome_stored completed|error
//
// The output is the state and the effects that it owes. The argument seq is the
// sequence of the message and, in seconds after epoch, its time. The timer is a
// time in seconds too, 100 by default. The lists calls and ops have the agent
// and the operation of each call. The list refused has the indices of the
// refused calls. A wait is for the peers in the list of. By default an entry
// has the next index of the log.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		t.Helper()
		var s run.State
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			switch d.Cmd {
			case "reset":
				s = run.State{}
				return ""
			case "print":
				return describe(s) + describeTurns(s)
			}
			next, err := s.Apply(scriptedEvent(t, d, s))
			if err != nil {
				return fmt.Sprintf("error: %v\n", err)
			}
			s = next
			return describe(s)
		})
	})
}

// scriptedEvent makes the event of a command.
func scriptedEvent(t *testing.T, d *datadriven.TestData, s run.State) run.Event {
	t.Helper()
	var m run.Meta
	d.MaybeScanArgs(t, "seq", &m.Seq)
	m.Time = clock(int(m.Seq))
	var turn, index int
	d.MaybeScanArgs(t, "turn", &turn)
	d.MaybeScanArgs(t, "index", &index)
	kind := "cancelled"
	d.MaybeScanArgs(t, "kind", &kind)
	end := run.End{Kind: run.Kind(kind), Text: "because of " + kind}
	switch d.Cmd {
	case "called":
		return run.Called{Meta: m, Input: run.Input{Task: "do it"}}
	case "answered":
		return run.Answered{Meta: m, Entry: scriptedTurn(t, d, s)}
	case "replied":
		o := run.Outcome{Status: run.StatusCompleted, Result: fmt.Sprintf("#%d", m.Seq)}
		var failed string
		if d.MaybeScanArgs(t, "failed", &failed) {
			o = run.Failure(run.Kind(failed), "#%d", m.Seq)
		}
		return run.Replied{Meta: m, Turn: turn, Index: index, Outcome: o}
	case "timed_out":
		return run.TimedOut{Meta: m, Turn: turn}
	case "cancelled":
		return run.Cancelled{Meta: m, End: end}
	case "ended":
		e := run.Entry{Kind: run.EntryEnded, Index: s.LogIndex + 1, End: &end}
		d.MaybeScanArgs(t, "index", &e.Index)
		d.MaybeScanArgs(t, "trigger", &e.Trigger)
		return run.Ended{Meta: m, Entry: e}
	case "mailed":
		from := "somebody"
		d.MaybeScanArgs(t, "from", &from)
		return run.Mailed{Meta: m, Mail: run.Mail{From: from}}
	case "answered_without_calls":
		e := run.Entry{Kind: run.EntryIdle, Index: s.LogIndex + 1, Answer: &provider.Response{Content: "done"}}
		if d.HasArg("final") {
			e.Kind = run.EntryFinal
		}
		d.MaybeScanArgs(t, "trigger", &e.Trigger)
		d.MaybeScanArgs(t, "seen", &e.Seen)
		return run.AnsweredWithoutCalls{Meta: m, Entry: e}
	case "outcome_stored":
		if d.HasArg("completed") {
			return run.OutcomeStored{Outcome: run.Outcome{Status: run.StatusCompleted}}
		}
		return run.OutcomeStored{Outcome: run.Failure(run.KindError, "no")}
	}
	d.Fatalf(t, "unknown command %q", d.Cmd)
	return nil
}

// scriptedTurn makes the log entry of the command answered.
func scriptedTurn(t *testing.T, d *datadriven.TestData, s run.State) run.Entry {
	t.Helper()
	e := run.Entry{
		Kind:       run.EntryTurn,
		Index:      s.LogIndex + 1,
		Sequential: d.HasArg("sequential"),
		Answer:     &provider.Response{},
	}
	d.MaybeScanArgs(t, "index", &e.Index)
	d.MaybeScanArgs(t, "trigger", &e.Trigger)
	d.MaybeScanArgs(t, "seen", &e.Seen)
	var timeout string
	if d.MaybeScanArgs(t, "timeout", &timeout) {
		var err error
		if e.Timeout, err = time.ParseDuration(timeout); err != nil {
			d.Fatalf(t, "%v", err)
		}
	}
	at := 100
	d.MaybeScanArgs(t, "timer", &at)
	e.Timer = clock(at)
	calls, _ := d.Arg("calls")
	refused, _ := d.Arg("refused")
	ops, _ := d.Arg("ops")
	of, _ := d.Arg("of")
	for i, agent := range calls.Vals {
		c := run.Call{Agent: agent, Deadline: e.Timer}
		if len(ops.Vals) > 0 && ops.Vals[i] != "call" {
			c.Op = run.Op(ops.Vals[i])
			for _, from := range of.Vals {
				path, err := subjects.ParsePath(from)
				if err != nil {
					t.Fatal(err)
				}
				c.From = append(c.From, path)
			}
		}
		for _, r := range refused.Vals {
			if r == strconv.Itoa(i) {
				c = run.Call{Agent: agent, Error: "no " + agent, Kind: run.KindUnknownAgent}
			}
		}
		e.Calls = append(e.Calls, c)
	}
	return e
}

// describe prints a state on one line, and each effect that it owes on another.
func describe(s run.State) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v seq=%d owner=%d log=%d@%d", s.Phase, s.Seq, s.Owner, s.LogIndex, s.LogSeq)
	if n := s.Pending(); n > 0 {
		fmt.Fprintf(&b, " pending=%d", n)
	}
	if s.OutcomeStored {
		b.WriteString(" concluded")
	}
	if s.End != (run.End{}) {
		fmt.Fprintf(&b, " end=%s %q", s.End.Kind, s.End.Text)
	}
	b.WriteByte('\n')
	for _, e := range s.Outstanding().All() {
		fmt.Fprintf(&b, "  %s%s\n", effectKey(e), describeEffect(e))
	}
	return b.String()
}

// describeEffect prints what an effect has beside its name.
func describeEffect(e run.Effect) string {
	var b strings.Builder
	children := func(cs []run.Child) {
		for _, c := range cs {
			fmt.Fprintf(&b, " %d:%s@%s", c.Index, c.Call.Agent, since(c.Deadline))
		}
	}
	switch e := e.(type) {
	case run.CallChildren:
		children(e.Children)
		for i, unawaited := range [][]run.Child{e.Forks, e.Posts, e.Kills} {
			if len(unawaited) > 0 {
				b.WriteString([]string{" fork", " send", " kill"}[i])
				children(unawaited)
			}
		}
		if !e.Timer.IsZero() {
			fmt.Fprintf(&b, " timer@%s", since(e.Timer))
		}
	case run.CancelBelow:
		for _, f := range e.Below {
			children([]run.Child{f.Child})
		}
	case run.LogEnd:
		fmt.Fprintf(&b, " %s", e.End.Kind)
	case run.PublishFailure:
		fmt.Fprintf(&b, " %s", e.End.Kind)
	case run.CallModel, run.CallTool, run.NotifyIdle, run.PublishAnswer, run.StopBelow, run.LogInterrupt, run.HoldTurn,
		run.HoldTool, run.AwaitTask, run.CancelTask, run.PublishSettled:
	}
	return b.String()
}

// describeTurns prints the mail and the outcomes of each turn.
func describeTurns(s run.State) string {
	var b strings.Builder
	for i, t := range s.Turns {
		if len(t.Notice) > 0 {
			var from []string
			for _, m := range t.Notice {
				from = append(from, m.From)
			}
			fmt.Fprintf(&b, "  turn %d: then it was told of mail from %v\n", i+1, from)
		}
		for k, took := range t.Took {
			for _, m := range took {
				fmt.Fprintf(&b, "  turn %d call %d took %d from %s\n", i+1, k, m.Seq, m.From)
			}
		}
		for k, o := range t.Outcomes {
			fmt.Fprintf(&b, "  turn %d call %d %s: ", i+1, k, t.Entry.Calls[k].Agent)
			switch {
			case o == nil:
				b.WriteString("none\n")
			case o.Status == run.StatusCompleted:
				fmt.Fprintf(&b, "%s\n", o.Result)
			default:
				fmt.Fprintf(&b, "%s %q\n", o.Kind, o.Error)
			}
		}
	}
	return b.String()
}

// clock returns the time that is a number of seconds after epoch.
func clock(seconds int) time.Time { return epoch.Add(time.Duration(seconds) * time.Second) }

// since prints the time that has passed since epoch.
func since(t time.Time) string { return t.Sub(epoch).String() }

// effectKey names an effect, in the words of testdata/scripts. A state owes no
// two effects of one name.
func effectKey(e run.Effect) string {
	switch e := e.(type) {
	case run.CallModel:
		return fmt.Sprintf("model.%d", e.Turn)
	case run.CallTool:
		return "tool"
	case run.CallChildren:
		return fmt.Sprintf("call.%d", e.Turn)
	case run.CancelBelow:
		return "cancel"
	case run.LogEnd:
		return "end"
	case run.PublishAnswer, run.PublishFailure, run.PublishSettled:
		return "outcome"
	case run.HoldTool:
		return "hold"
	case run.AwaitTask:
		return "poll"
	case run.CancelTask:
		return "cancel task"
	case run.NotifyIdle:
		return fmt.Sprintf("rest.%d", e.Turn)
	case run.StopBelow:
		return fmt.Sprintf("stop.%d", e.Turn)
	case run.LogInterrupt:
		return fmt.Sprintf("stopped.%d", e.Turn)
	case run.HoldTurn:
		return fmt.Sprintf("hold.%d", e.Turn)
	}
	return ""
}
