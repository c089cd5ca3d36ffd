package run_test

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// drawStart draws the settings of a run. In some walks they bound its turns, or
// give it the tools that read mail, as calls or as lines of text.
func drawStart(t *rapid.T, watched run.Supervision) *run.Start {
	s := &run.Start{Supervision: watched, Turns: max(0, rapid.IntRange(-3, 3).Draw(t, "budget of turns"))}
	looks := rapid.SampledFrom([]run.Op{run.OpMail, run.OpWait}).Draw(t, "looks by")
	switch rapid.SampledFrom([]string{"", "", "", "tools", "slash"}).Draw(t, "looks for mail") {
	case "tools":
		s.Tools = []provider.Tool{{Name: "call_agent"}, {Name: string(looks)}}
	case "slash":
		s.Slash = []string{"fork", string(looks)}
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
			t.Fatalf("the outcome of call %s is gone", call)
		}
	}
}

// checkTurns: since it was idle last, a run may take the turns that it was
// given and a last one, which LastTurn reports. It does not fail with KindTurns
// before.
func checkTurns(t *rapid.T, s run.State) {
	budget := run.MaxTurns
	if start := s.Start(); start != nil && start.Turns > 0 {
		budget = start.Turns + 1
	}
	taken := 0
	for _, turn := range s.Turns {
		taken++
		if turn.Entry.Kind == run.EntryIdle {
			taken = 0
		}
	}
	switch {
	case taken > budget:
		t.Fatalf("%d turns of %d", taken, budget)
	case s.End.Kind == run.KindTurns && taken != budget:
		t.Fatalf("it ended for its turns after %d of %d", taken, budget)
	case s.Phase == run.Ready && taken == budget:
		t.Fatalf("another turn is owed after %d of %d", taken, budget)
	case s.Phase == run.Ready && s.LastTurn() != (budget < run.MaxTurns && taken == budget-1):
		t.Fatalf("after %d turns of %d the next one is a last one: %t", taken, budget, s.LastTurn())
	}
}

// checkSpread: the tool calls of each turn share its decisions in their order,
// and ToolCalls counts the tool calls.
func checkSpread(t *rapid.T, s run.State) {
	made := 0
	for i, turn := range s.Turns {
		var dealt []run.Call
		for k := range turn.Entry.Answer.ToolCalls {
			dealt = append(dealt, turn.Entry.CallsOf(k)...)
		}
		if diff := cmp.Diff(turn.Entry.Calls, dealt, comparePaths); len(turn.Entry.Calls) > 0 && diff != "" {
			t.Fatalf("the calls of turn %d are dealt otherwise (-calls +dealt):\n%s", i+1, diff)
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
	blind := len(w.start.Tools) == 0 && len(w.start.Slash) == 0
	notices := [][]run.Mail{s.Notice()}
	for _, turn := range s.Turns {
		notices = append(notices, turn.Notice)
	}
	for _, m := range slices.Concat(notices...) {
		if want := blind && m.From == "somebody"; s.Start() != nil && m.Inline != want {
			t.Fatalf(
				"the message %d of %s to a run that cannot look for mail (%t) is given whole: %t",
				m.Seq,
				m.From,
				blind,
				m.Inline,
			)
		}
	}
}
