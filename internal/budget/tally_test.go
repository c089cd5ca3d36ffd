package budget_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/subjects"
)

// deadline is the deadline of the runs of a test. The walks begin at the zero
// time, and no time passes.
var deadline = time.Time{}.Add(time.Hour)

// grants has the sums of the grants of a walk. Wanted does not count refunds.
type grants struct{ wanted, granted, refunded int }

// check checks that no more was granted than there is room for, and all of that
// as far as it was wanted, except for refunds. Counted is the sum in the tally.
func (g grants) check(t *rapid.T, bounded bool, room, counted int) {
	if !bounded {
		room = g.wanted
	}
	room = max(0, room)
	if want := min(g.wanted, room); g.granted > room || g.granted < want-g.refunded || counted != g.granted {
		t.Fatalf("%d of %d were granted and the tally has %d, want %d to %d",
			g.granted, g.wanted, counted, want-g.refunded, room)
	}
}

// TestTally walks at random through model calls, answers, repeated answers and
// refunds. Grants never go beyond the budget. They use all of it once the turns
// have asked for enough, except for refunds after that.
func TestTally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.IntRange(0, 30)
		s := subjects.Budget{
			Agents: bound.Draw(t, "agents"),
			Turns:  bound.Draw(t, "turns"),
			Tokens: bound.Draw(t, "tokens"), ToolCalls: bound.Draw(t, "tool calls"),
		}
		var tally budget.Tally
		var asks, most int
		var runs, tools grants
		for turn := range rapid.IntRange(0, 60).Draw(t, "steps") {
			r := budget.Reservation{By: subjects.Root, Turn: turn, Until: deadline}
			next, refusal := tally.Reserve(s, r, budget.Estimate{}, time.Time{})
			over := s.Tokens > 0 && tally.Tokens >= s.Tokens || s.Turns > 0 && asks >= s.Turns
			if over != (refusal != nil) {
				t.Fatalf("%+v of %+v after %d requests: refusal %v, want one: %t", tally, s, asks, refusal, over)
			}
			if refusal != nil {
				continue
			}
			tally = next
			asks++
			calls, tokens := rapid.IntRange(0, 8).Draw(t, "calls"), rapid.IntRange(0, 5).Draw(t, "tokens")
			most = max(most, tokens)
			want := budget.Grant{
				By: subjects.Root, Turn: turn, Calls: calls, ToolCalls: rapid.IntRange(0, 8).Draw(t, "tool calls"),
			}
			got, g := tally.Next().Record(s, want, tokens, budget.Grant{})
			// The run's worker dies, and the next worker records
			// the answer again.
			if rapid.Bool().Draw(t, "again") {
				already, ok := got.Granted(subjects.Root, turn)
				if !ok || already != g {
					t.Fatalf("%+v says that %+v was granted (%t), want %+v", got, already, ok, g)
				}
				got, g = got.Next().Record(s, want, 0, already)
			}
			if rapid.Bool().Draw(t, "refund") {
				kept := g
				kept.Calls, kept.ToolCalls = max(0, g.Calls-1), max(0, g.ToolCalls-2)
				runs.refunded += g.Calls - kept.Calls
				tools.refunded += g.ToolCalls - kept.ToolCalls
				got = got.Refund(kept, g)
				want.Calls -= g.Calls - kept.Calls
				want.ToolCalls -= g.ToolCalls - kept.ToolCalls
				g = kept
			}
			tally = got
			runs.granted += g.Calls
			runs.wanted += want.Calls
			tools.granted += g.ToolCalls
			tools.wanted += want.ToolCalls
		}
		// The scope's own run is one of its agents.
		runs.check(t, s.Agents > 0, s.Agents-1, tally.Agents)
		tools.check(t, s.ToolCalls > 0, s.ToolCalls, tally.ToolCalls)
		if s.Turns > 0 && tally.Turns > s.Turns || s.Tokens > 0 && tally.Tokens >= s.Tokens+max(1, most) {
			t.Fatalf("the tally %+v is over the budget %+v", tally, s)
		}
	})
}
