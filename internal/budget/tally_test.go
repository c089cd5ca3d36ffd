package budget_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/subjects"
)

// deadline is that of the runs of a test, at the zero time.
var deadline = time.Time{}.Add(time.Hour)

// TestTally walks at random through model calls, answers, repeated answers and
// refunds. Grants never go beyond the budget, and use all of it once the turns
// have asked for enough.
func TestTally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.IntRange(0, 30)
		s := subjects.Budget{
			Agents: bound.Draw(t, "agents"),
			Turns:  bound.Draw(t, "turns"),
			Tokens: bound.Draw(t, "tokens"),
		}
		var tally budget.Tally
		var granted, asks, wanted, most int
		for turn := range rapid.IntRange(0, 60).Draw(t, "steps") {
			r := budget.Reservation{By: subjects.Root, Turn: turn, Until: deadline}
			next, refusal := tally.Reserve(s, r, budget.Estimate{}, time.Time{})
			over := s.Tokens > 0 && tally.Tokens >= s.Tokens || s.Turns > 0 && asks >= s.Turns
			if over != (refusal != nil) {
				t.Fatalf("%+v of %+v after %d asks: refusal %v", tally, s, asks, refusal)
			}
			if refusal != nil {
				continue
			}
			tally = next
			asks++
			calls, tokens := rapid.IntRange(0, 8).Draw(t, "calls"), rapid.IntRange(0, 5).Draw(t, "tokens")
			most = max(most, tokens)
			got, g := tally.Next().Record(s, budget.Grant{By: subjects.Root, Turn: turn, Calls: calls}, tokens, 0)
			// Its worker dies, and the next worker records the
			// answer again.
			if rapid.Bool().Draw(t, "again") {
				already, ok := got.Granted(subjects.Root, turn)
				if !ok || already != g {
					t.Fatalf("%+v does not say that %d were granted", got, g)
				}
				got, g = got.Next().Record(s, budget.Grant{By: subjects.Root, Turn: turn, Calls: calls}, 0, already)
			}
			if rapid.Bool().Draw(t, "refund") && g > 0 {
				got = got.Refund(budget.Grant{By: subjects.Root, Turn: turn, Calls: g - 1}, g)
				g--
				calls--
			}
			tally = got
			granted += g
			wanted += calls
		}
		room := s.Agents - 1
		if s.Agents == 0 {
			room = wanted
		}
		if want := min(wanted, max(0, room)); granted > max(0, room) || tally.Agents != granted {
			t.Fatalf("%d granted of %d, the tally has %d, want %d", granted, wanted, tally.Agents, want)
		}
		if s.Turns > 0 && tally.Turns > s.Turns || s.Tokens > 0 && tally.Tokens >= s.Tokens+max(1, most) {
			t.Fatalf("%+v is over %+v", tally, s)
		}
	})
}
