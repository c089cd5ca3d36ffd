package subjects

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestScopesRoundTrip: the worker of a child reads the scopes that the worker
// of its parent wrote.
func TestScopesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.IntRange(0, MaxLimit)
		var want []Scope
		p := Root
		for range rapid.IntRange(0, 4).Draw(t, "levels") {
			s := Scope{
				Path: p,
				Budget: Budget{
					bound.Draw(t, "agents"), bound.Draw(t, "turns"), bound.Draw(t, "tokens"),
					bound.Draw(t, "tool calls"),
				},
			}
			if s.Budget != (Budget{}) {
				want = append(want, s)
			}
			p = p.Child(rapid.IntRange(1, 50).Draw(t, "turn"), rapid.IntRange(0, 100).Draw(t, "index"))
		}
		got, err := ParseScopes(FormatScopes(want), p)
		if diff := cmp.Diff(want, got, opaque); err != nil || diff != "" {
			t.Fatalf("scopes, error %v (-written +read):\n%s", err, diff)
		}
	})
}

// TestScopeJSON: the JSON of a scope, which logs store, has a fixed form. A
// malformed path in it is an error.
func TestScopeJSON(t *testing.T) {
	text := `{"path":"r-1-0","max_agents":1,"max_turns":2,"max_tokens":3,"max_tool_calls":4}`
	want := Scope{Root.Child(1, 0), Budget{1, 2, 3, 4}}
	var got Scope
	if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
		t.Errorf("%s decodes to %+v, error %v, want %+v", text, got, err, want)
	}
	if b, err := json.Marshal(want); err != nil || string(b) != text {
		t.Errorf("%+v encodes to %s, error %v, want %s", want, b, err, text)
	}
	if b, err := json.Marshal(Scope{}); err != nil || string(b) != `{"path":""}` || json.Unmarshal(b, &got) != nil {
		t.Errorf(`the zero scope encodes to %s, error %v, want {"path":""} and that it decodes`, b, err)
	}
	if err := json.Unmarshal([]byte(`{"path":"r-0-0"}`), &got); !errors.Is(err, ErrToken) {
		t.Errorf("a malformed path gives error %v, want one that wraps ErrToken", err)
	}
}

// TestParseScopesRefuses: ParseScopes refuses malformed scopes of the run
// r-1-0: a bound that is missing, unknown, repeated or out of range, and a path
// that is not the run's or above it, or not in order.
func TestParseScopesRefuses(t *testing.T) {
	for _, text := range []string{
		"r", "agents=1", "r agents=0", "r agents=-1", "r agents=1000000000", "r agents=x",
		"r runs=5", "r agents=1 agents=2", "r agents",
		"r-2-0 agents=1", "r-1-0-1-0 agents=1", "r-1-0 agents=1; r agents=2",
		"r agents=1; r turns=1", ";", "r agents=1;", "x agents=1",
	} {
		if got, err := ParseScopes(text, Root.Child(1, 0)); !errors.Is(err, ErrToken) {
			t.Errorf("%q parses to %v, error %v, want one that wraps ErrToken", text, got, err)
		}
	}
	if got, err := ParseScopes("", Root); got != nil || err != nil {
		t.Errorf("empty text parses to %v, error %v, want no scopes", got, err)
	}
}

// TestBudgetWithin: each bound of a budget within another one is the smaller of
// both. 0 is no bound.
func TestBudgetWithin(t *testing.T) {
	for _, tt := range []struct{ a, b, want Budget }{
		{Budget{}, Budget{}, Budget{}},
		{Budget{1, 0, 3, 0}, Budget{}, Budget{1, 0, 3, 0}},
		{Budget{}, Budget{1, 0, 3, 4}, Budget{1, 0, 3, 4}},
		{Budget{5, 5, 5, 5}, Budget{4, 6, 0, 4}, Budget{4, 5, 5, 4}},
	} {
		if got := tt.a.Within(tt.b); got != tt.want {
			t.Errorf("%v within %v: %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}
