package run_test

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// drawStart draws the settings of a run. In some walks they bound its turns, or
// give it a tool that reads mail, as a call or as a line of text.
func drawStart(t *rapid.T, supervision run.Supervision) *run.Start {
	s := &run.Start{Supervision: supervision, Turns: max(0, rapid.IntRange(-3, 3).Draw(t, "bound of turns"))}
	s.Approvers = rapid.SampledFrom([]subjects.Approvers{nil, {"user:alice"}}).Draw(t, "approvers")
	reads := rapid.SampledFrom([]run.Op{run.OpMail, run.OpWait}).Draw(t, "reads by")
	switch rapid.SampledFrom([]string{"", "", "", "tools", "slash"}).Draw(t, "reads mail") {
	case "tools":
		s.Tools = []provider.Tool{{Name: "call_agent"}, {Name: string(reads)}}
	case "slash":
		s.Slash = []string{"fork", string(reads)}
	}
	return s
}

// spread gives the decisions of a turn their tool calls. Some tool calls have
// several decisions.
func spread(t *rapid.T, e *run.Entry) {
	if rapid.Bool().Draw(t, "one each") {
		for i := range e.Calls {
			e.Answer.ToolCalls = append(e.Answer.ToolCalls, provider.ToolCall{ID: fmt.Sprint("c", i)})
		}
		return
	}
	for left := len(e.Calls); left > 0; left -= e.Spread[len(e.Spread)-1] {
		e.Spread = append(e.Spread, rapid.IntRange(1, left).Draw(t, "tasks"))
		e.Answer.ToolCalls = append(e.Answer.ToolCalls, provider.ToolCall{ID: fmt.Sprint("c", len(e.Spread))})
	}
}

// checkKept: the first outcome of a call stays, in spite of later and repeated
// ones.
func (w *walker) checkKept(t *rapid.T, after run.State) {
	there := map[string]bool{}
	keep := func(call string, o *run.Outcome) {
		if o == nil {
			return
		}
		there[call] = true
		if first, ok := w.kept[call]; !ok {
			w.kept[call] = *o
		} else if diff := cmp.Diff(first, *o); diff != "" {
			t.Fatalf("the outcome of call %s was replaced (-first +now):\n%s", call, diff)
		}
	}
	for i, turn := range after.Turns {
		for k, o := range turn.Outcomes {
			keep(place(i+1, k), o)
		}
		keep(place(i+1, len(turn.Entry.Calls)), turn.Verdict)
	}
	for call := range w.kept {
		if !there[call] {
			t.Fatalf("the outcome of call %s was removed", call)
		}
	}
}

// checkTurns: between two idle phases a run may take the turns that its start
// allows and a last one, which LastTurn reports. It does not fail with
// KindTurns before.
func checkTurns(t *rapid.T, s run.State) {
	most := run.MaxTurns
	if start := s.Start(); start != nil && start.Turns > 0 {
		most = start.Turns + 1
	}
	taken := 0
	for _, turn := range s.Turns {
		taken++
		if turn.Entry.Kind == run.EntryIdle {
			taken = 0
		}
	}
	switch {
	case taken > most:
		t.Fatalf("%d turns were taken, want at most %d", taken, most)
	case s.End.Kind == run.KindTurns && taken != most:
		t.Fatalf("the run failed with KindTurns after %d turns of %d", taken, most)
	case s.Phase == run.Ready && taken == most:
		t.Fatalf("the run owes another turn after %d of %d", taken, most)
	case s.Phase == run.Ready && s.LastTurn() != (most < run.MaxTurns && taken == most-1):
		t.Fatalf("after %d turns of %d LastTurn is %t", taken, most, s.LastTurn())
	}
}

// checkSpread: the tool calls of each turn share its decisions in their order,
// and ToolCalls counts the tool calls.
func checkSpread(t *rapid.T, s run.State) {
	made := 0
	for i, turn := range s.Turns {
		var shared []run.Call
		for k := range turn.Entry.Answer.ToolCalls {
			shared = append(shared, turn.Entry.CallsOf(k)...)
		}
		if diff := cmp.Diff(turn.Entry.Calls, shared, comparePaths); len(turn.Entry.Calls) > 0 && diff != "" {
			t.Fatalf("the tool calls of turn %d do not share its decisions (-decisions +shared):\n%s", i+1, diff)
		}
		made += len(turn.Entry.Answer.ToolCalls)
	}
	if s.Turns.Totals().ToolCalls != made {
		t.Fatalf("%d tool calls are counted, and %d were made", s.Turns.Totals().ToolCalls, made)
	}
}

// checkNotice: a person's text is inline exactly if the run cannot read its
// mail. The text of other runs never is.
func (w *walker) checkNotice(t *rapid.T, s run.State) {
	hasTool := len(w.start.Tools) > 0 || len(w.start.Slash) > 0
	notices := [][]run.Mail{s.Notice()}
	for _, turn := range s.Turns {
		notices = append(notices, turn.Notice)
	}
	for _, m := range slices.Concat(notices...) {
		if want := !hasTool && m.From == "somebody"; s.Start() != nil && m.Inline != want {
			t.Fatalf("message %d of %s to a run that can read its mail (%t) is inline: %t, want %t",
				m.Seq, m.From, hasTool, m.Inline, want)
		}
	}
}
