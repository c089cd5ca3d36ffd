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

// TestTally walks at random through model calls, answers, repeated answers and
// refunds. Grants never go beyond the budget. They use all of it once the turns
// have asked for enough, except for refunds after that.
func TestTally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.IntRange(0, 30)
		s := subjects.Budget{
			Agents: bound.Draw(t, "agents"),
			Turns:  bound.Draw(t, "turns"),
			Tokens: bound.Draw(t, "tokens"),
		}
		var tally budget.Tally
		var granted, refunded, asks, wanted, most int
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
			got, g := tally.Next().Record(s, budget.Grant{By: subjects.Root, Turn: turn, Calls: calls}, tokens, 0)
			// The run's worker dies, and the next worker records
			// the answer again.
			if rapid.Bool().Draw(t, "again") {
				already, ok := got.Granted(subjects.Root, turn)
				if !ok || already != g {
					t.Fatalf("%+v says that %d runs were granted (%t), want %d", got, already, ok, g)
				}
				got, g = got.Next().Record(s, budget.Grant{By: subjects.Root, Turn: turn, Calls: calls}, 0, already)
			}
			if rapid.Bool().Draw(t, "refund") && g > 0 {
				got = got.Refund(budget.Grant{By: subjects.Root, Turn: turn, Calls: g - 1}, g)
				g--
				calls--
				refunded++
			}
			tally = got
			granted += g
			wanted += calls
		}
		room := s.Agents - 1
		if s.Agents == 0 {
			room = wanted
		}
		room = max(0, room)
		if want := min(wanted, room); granted > room || granted < want-refunded || tally.Agents != granted {
			t.Fatalf("%d runs of %d were granted and the tally has %d, want %d to %d",
				granted, wanted, tally.Agents, want-refunded, room)
		}
		if s.Turns > 0 && tally.Turns > s.Turns || s.Tokens > 0 && tally.Tokens >= s.Tokens+max(1, most) {
			t.Fatalf("the tally %+v is over the budget %+v", tally, s)
		}
	})
}
