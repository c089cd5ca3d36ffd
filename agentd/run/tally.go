package run

import (
	"encoding/json"
	"fmt"
)

// Scope bounds the work of a run and everything below it. 0 is no bound.
type Scope struct {
	Path      string `json:"path"` // of that run
	MaxAgents int    `json:"max_agents,omitzero"`
	MaxTurns  int    `json:"max_turns,omitzero"`
	MaxTokens int    `json:"max_tokens,omitzero"`
}

// Tally is what the runs of a scope have used so far. The zero value is that of
// a scope whose run has done nothing yet: it counts itself only.
type Tally struct {
	// called, or about to be; the scope's own run is not counted here
	Agents int `json:"agents"`
	// model calls made, or about to be
	Turns  int `json:"turns"`
	Tokens int `json:"tokens"` // of the answers

	// that this message of the tally made, or changed
	Grants []Grant `json:"grants,omitempty"`
}

// Grant is what a turn may call, as one message of a tally has it.
type Grant struct {
	By    string `json:"by"`   // path of the run
	Turn  int    `json:"turn"` // of it
	Calls int    `json:"calls"`
}

// DecodeTally reads a tally; nothing, and what is none, is a tally of nothing.
func DecodeTally(b []byte) Tally {
	var t Tally
	if json.Unmarshal(b, &t) != nil {
		return Tally{}
	}
	return t
}

// Next is the tally as it is carried on: what was granted before stands in the
// messages before.
func (t Tally) Next() Tally {
	t.Grants = nil
	return t
}

// Granted is how many calls a turn was granted; ok is false if this message
// does not say.
func (t Tally) Granted(by string, turn int) (calls int, ok bool) {
	for _, g := range t.Grants {
		if g.By == by && g.Turn == turn {
			calls, ok = g.Calls, true
		}
	}
	return calls, ok
}

// CountTurn counts a model call. The refusal is empty if it may be made.
func (t Tally) CountTurn(s Scope) (_ Tally, refusal string) {
	switch {
	case s.MaxTokens > 0 && t.Tokens >= s.MaxTokens:
		return t, exceeded(t.Tokens, s.MaxTokens, "tokens")
	case s.MaxTurns > 0 && t.Turns >= s.MaxTurns:
		return t, exceeded(t.Turns, s.MaxTurns, "turns")
	}
	t.Turns++
	return t, ""
}

// CountAnswer counts the tokens of an answer and the calls that it makes, as many as
// there is room for. Already is how many the same turn was granted before, by a
// worker that may have died then; these are not taken back.
func (t Tally) CountAnswer(s Scope, g Grant, tokens, already int) (_ Tally, granted int) {
	granted = g.Calls
	if s.MaxAgents > 0 {
		granted = max(0, min(granted, already+s.MaxAgents-1-t.Agents))
	}
	t.Agents += max(0, granted-already)
	t.Tokens += tokens
	g.Calls = max(granted, already)
	return t.grant(g), granted
}

// Refund takes back, of what a turn was granted, the calls for which another
// scope has no room.
func (t Tally) Refund(g Grant, was int) Tally {
	t.Agents -= was - g.Calls
	return t.grant(g)
}

func (t Tally) grant(g Grant) Tally {
	t.Grants = append(t.Grants[:len(t.Grants):len(t.Grants)], g)
	return t
}

// Refusal is the refusal of a call for which a scope has no room.
func (s Scope) Refusal() string { return exceeded(s.MaxAgents, s.MaxAgents, "agents") }

func exceeded(used, limit int, of string) string {
	return fmt.Sprintf("budget exceeded: used %d of %d %s", used, limit, of)
}
