package subjects

import (
	"fmt"
	"strconv"
	"strings"
)

// Budget bounds the work of a run and all runs below it. A zero field sets no
// bound.
type Budget struct {
	// Agents is the number of runs. The budget's own run is one of them.
	Agents int `json:"max_agents,omitzero"`
	// Turns is the number of model calls.
	Turns int `json:"max_turns,omitzero"`
	// Tokens is the number of input and output tokens. A worker reserves an
	// estimate before each model call. A call may use more than that.
	Tokens int `json:"max_tokens,omitzero"`
	// ToolCalls is the number of tool runs.
	ToolCalls int `json:"max_tool_calls,omitzero"`
}

// Within returns the narrower of two budgets, bound by bound.
func (b Budget) Within(c Budget) Budget {
	return Budget{
		Agents: narrower(b.Agents, c.Agents), Turns: narrower(b.Turns, c.Turns),
		Tokens: narrower(b.Tokens, c.Tokens), ToolCalls: narrower(b.ToolCalls, c.ToolCalls),
	}
}

// narrower returns the smaller of two bounds. 0 is no bound.
func narrower(a, b int) int {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Scope is a run with a budget, and all runs below it. A run's log stores it as
// JSON: {"path":"r","max_agents":100}. A call's header stores it as text
// (FormatScopes).
type Scope struct {
	// Path is the path of the scope's own run.
	Path Path `json:"path"`
	Budget
}

// MaxLimit is the largest bound of a budget.
const MaxLimit = 999_999_999

// FormatScopes formats scopes for a header:
//
//	r agents=100 tokens=20000; r-1-0 turns=5
func FormatScopes(scopes []Scope) string {
	var out []string
	for _, s := range scopes {
		words := []string{s.Path.s}
		for _, f := range fields(&s.Budget) {
			if *f.value > 0 {
				words = append(words, f.name+"="+strconv.Itoa(*f.value))
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	return strings.Join(out, "; ")
}

// ParseScopes parses the scopes of the run at path p: its own, if it has a
// budget, and those of the runs above it, the outermost first.
func ParseScopes(text string, p Path) ([]Scope, error) {
	if text == "" {
		return nil, nil
	}
	var scopes []Scope
	for part := range strings.SplitSeq(text, ";") {
		s, err := parseScope(part)
		if err != nil {
			return nil, err
		}
		if !s.Path.Covers(p) || len(scopes) > 0 && len(s.Path.s) <= len(scopes[len(scopes)-1].Path.s) {
			return nil, fmt.Errorf("%s %s: %w: want %s and runs above it, the outermost first",
				HeaderLimits, quote(text), ErrToken, p)
		}
		scopes = append(scopes, s)
	}
	return scopes, nil
}

func parseScope(text string) (Scope, error) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return Scope{}, fmt.Errorf("%s %s: %w: want a path and its limits", HeaderLimits, quote(text), ErrToken)
	}
	p, err := ParsePath(words[0])
	if err != nil {
		return Scope{}, fmt.Errorf("%s: %w", HeaderLimits, err)
	}
	s := Scope{Path: p}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		n, err := number(value)
		known := false
		for _, f := range fields(&s.Budget) {
			if f.name == name && *f.value == 0 {
				*f.value, known = n, true
			}
		}
		if err != nil || n == 0 || !known {
			return Scope{}, fmt.Errorf("%s %s: %w: want %s, each once, with N from 1 to %d",
				HeaderLimits, quote(word), ErrToken, "agents=N, turns=N, tokens=N or tool_calls=N", MaxLimit)
		}
	}
	return s, nil
}

type field struct {
	name  string
	value *int
}

// fields lists the bounds of a budget and their names.
func fields(b *Budget) []field {
	return []field{{"agents", &b.Agents}, {"turns", &b.Turns}, {"tokens", &b.Tokens}, {"tool_calls", &b.ToolCalls}}
}

// Narrowest returns the budget that is within the budgets of all scopes.
func Narrowest(scopes []Scope) (b Budget) {
	for _, s := range scopes {
		b = b.Within(s.Budget)
	}
	return b
}
