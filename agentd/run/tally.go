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

// Tally is what the runs of a scope have used so far. The zero value is that of a scope whose run has done
// nothing yet: it counts itself only.
type Tally struct {
	Agents int `json:"agents"` // called, or about to be; the scope's own run is not counted here
	Turns  int `json:"turns"`  // model calls made, or about to be
	Tokens int `json:"tokens"` // of the answers

	By    string `json:"by,omitzero"`    // path of the run whose turn was counted last
	Turn  int    `json:"turn,omitzero"`  // of it
	Calls int    `json:"calls,omitzero"` // that this turn was granted
}

// DecodeTally reads a tally; nothing, and what is none, is a tally of nothing.
func DecodeTally(b []byte) Tally {
	var t Tally
	if json.Unmarshal(b, &t) != nil {
		return Tally{}
	}
	return t
}

// Ask counts a model call. The refusal is empty if it may be made.
func (t Tally) Ask(s Scope, by string, turn int) (_ Tally, refusal string) {
	switch {
	case s.MaxTokens > 0 && t.Tokens >= s.MaxTokens:
		return t, exceeded(t.Tokens, s.MaxTokens, "tokens")
	case s.MaxTurns > 0 && t.Turns >= s.MaxTurns:
		return t, exceeded(t.Turns, s.MaxTurns, "turns")
	}
	t.Turns++
	t.By, t.Turn, t.Calls = by, turn, 0
	return t, ""
}

// Answer counts the tokens of an answer and the calls that it makes, as many as there is room for. Already is
// how many the same turn was granted before, by a worker that may have died then.
func (t Tally) Answer(s Scope, by string, turn, tokens, calls, already int) (_ Tally, granted int) {
	granted = calls
	if s.MaxAgents > 0 {
		granted = max(0, min(calls, already+s.MaxAgents-1-t.Agents))
	}
	t.Agents += max(0, granted-already)
	t.Tokens += tokens
	t.By, t.Turn, t.Calls = by, turn, max(granted, already)
	return t, granted
}

// Refund takes back calls that another scope has no room for.
func (t Tally) Refund(by string, turn, calls, granted int) Tally {
	t.Agents -= calls - granted
	t.By, t.Turn, t.Calls = by, turn, granted
	return t
}

// Full is the refusal of a call for which a scope has no room.
func (s Scope) Full() string { return exceeded(s.MaxAgents, s.MaxAgents, "agents") }

func exceeded(used, limit int, of string) string {
	return fmt.Sprintf("budget exceeded: used %d of %d %s", used, limit, of)
}
