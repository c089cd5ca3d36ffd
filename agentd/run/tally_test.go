package run_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
)

// TestTally walks at random through asks, answers, repeated answers and
// refunds: what is granted is never more than there is room for, and all of it
// once enough was asked for.
func TestTally(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.IntRange(0, 30)
		s := run.Scope{
			Path:      "r",
			MaxAgents: bound.Draw(t, "agents"),
			MaxTurns:  bound.Draw(t, "turns"),
			MaxTokens: bound.Draw(t, "tokens"),
		}
		var tally run.Tally
		granted, asks, wanted, most := 0, 0, 0, 0
		for turn := range rapid.IntRange(0, 60).Draw(t, "steps") {
			next, refusal := tally.CountTurn(s)
			if over := s.MaxTokens > 0 && tally.Tokens >= s.MaxTokens || s.MaxTurns > 0 && asks >= s.MaxTurns; over != (refusal != "") {
				t.Fatalf("%+v of %+v after %d asks: refusal %q", tally, s, asks, refusal)
			}
			if refusal != "" {
				continue
			}
			tally = next
			asks++
			calls, tokens := rapid.IntRange(0, 8).Draw(t, "calls"), rapid.IntRange(0, 5).Draw(t, "tokens")
			most = max(most, tokens)
			got, g := tally.Next().CountAnswer(s, run.Grant{By: "r", Turn: turn, Calls: calls}, tokens, 0)
			// its worker dies, and the next one counts it again
			if rapid.Bool().Draw(t, "again") {
				already, ok := got.Granted("r", turn)
				if !ok || already != g {
					t.Fatalf("%+v does not say that %d were granted", got, g)
				}
				got, g = got.Next().CountAnswer(s, run.Grant{By: "r", Turn: turn, Calls: calls}, 0, already)
			}
			if rapid.Bool().Draw(t, "refund") && g > 0 {
				got = got.Refund(run.Grant{By: "r", Turn: turn, Calls: g - 1}, g)
				g--
				calls--
			}
			tally = got
			granted += g
			wanted += calls
		}
		room := s.MaxAgents - 1
		if s.MaxAgents == 0 {
			room = wanted
		}
		if want := min(wanted, max(0, room)); granted > max(0, room) || tally.Agents != granted {
			t.Fatalf("%d granted of %d, the tally has %d, want %d", granted, wanted, tally.Agents, want)
		}
		if s.MaxTurns > 0 && tally.Turns > s.MaxTurns || s.MaxTokens > 0 && tally.Tokens >= s.MaxTokens+max(1, most) {
			t.Fatalf("%+v is over %+v", tally, s)
		}
	})
}
