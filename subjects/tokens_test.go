package subjects

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestParseTokens: each kind of token has its own alphabet and length. An error
// quotes the token in one line of at most 250 bytes.
func TestParseTokens(t *testing.T) {
	agent := func(s string) (string, error) { a, err := ParseAgent(s); return a.String(), err }
	tree := func(s string) (string, error) { x, err := ParseTree(s); return x.String(), err }
	path := func(s string) (string, error) { p, err := ParsePath(s); return p.String(), err }
	long := strings.Repeat("a", 64)
	tests := []struct {
		name    string
		parse   func(string) (string, error)
		good    []string
		refused []string
	}{
		{
			"agent", agent,
			[]string{"a", "0", "code-reviewer", "a_b", "a-", "9_", long},
			[]string{
				"",
				"-a",
				"_a",
				"A",
				"aB",
				"a b",
				"a.b",
				"a*",
				"a>",
				">",
				"*",
				"é",
				"a\n",
				"a\x00",
				"../a",
				"a/b",
				long + "a",
			},
		},
		{
			"tree", tree,
			[]string{"a", "0", "Z", "V1StGXR8Z5jdHi6BmyT", long},
			[]string{"", "a-b", "a_b", "a.b", "*", ">", " ", "a ", "é", "a\r\n", long + "a"},
		},
		{
			"path", path,
			[]string{"r", "r-1-0", "r-1-0-2-3", "r-999999999-999999999", "r-10-10"},
			[]string{
				"", "R", "x", "r-", "r-1", "r-1-", "r--1", "r-0-0", "r-01-0", "r-1-00", "r-1-0-",
				"r-1-0-2", "r-1-a", "r-+1-0", "r-1-0 ",
				"r-1000000000-0", "-1-0", "1-0", "r-1-0-0-0", "r.1.0", "r-1-*", "r->-0",
				"r" + strings.Repeat("-1-0", 128),
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, s := range test.good {
				if got, err := test.parse(s); err != nil || got != s {
					t.Errorf("%q parses to %q, error %v, want the same", s, got, err)
				}
			}
			for _, s := range test.refused {
				got, err := test.parse(s)
				if !errors.Is(err, ErrToken) || got != "" {
					t.Errorf("%q parses to %q, error %v, want one that wraps ErrToken", s, got, err)
				}
				if err != nil && (len(err.Error()) > 250 || strings.ContainsAny(err.Error(), "\r\n\x00")) {
					t.Errorf("the error about %q does not fit a line: %v", s, err)
				}
			}
		})
	}
}

// TestIsZero: only a token that was never parsed is zero. The zero path is no
// root.
func TestIsZero(t *testing.T) {
	if !(Agent{}).IsZero() || !(Tree{}).IsZero() || !(Path{}).IsZero() {
		t.Error("the zero agent, tree or path is not zero")
	}
	if (Agent{"a"}).IsZero() || (Tree{"T"}).IsZero() || Root.IsZero() {
		t.Error("the agent a, the tree T or the path r is zero")
	}
	if !Root.IsRoot() || Root.Child(1, 0).IsRoot() || (Path{}).IsRoot() {
		t.Error("r is no root, or r-1-0 or the zero path is one")
	}
}

// TestTokensInJSON: a token is a string in JSON. A zero token is left out or
// empty. A malformed token is refused and changes nothing.
func TestTokensInJSON(t *testing.T) {
	type tokens struct {
		Agent Agent `json:"agent"`
		Tree  Tree  `json:"tree"`
		Path  Path  `json:"path"`
		Above Path  `json:"above,omitzero"`
	}
	full := tokens{Agent{"lead"}, Tree{"T1"}, Root.Child(1, 0), Root}
	for text, want := range map[string]tokens{
		`{"agent":"lead","tree":"T1","path":"r-1-0","above":"r"}`: full,
		`{"agent":"","tree":"","path":""}`:                        {},
	} {
		if b, err := json.Marshal(want); err != nil || string(b) != text {
			t.Errorf("%+v is %s, error %v; want %s", want, b, err, text)
		}
		var got tokens
		if err := json.Unmarshal([]byte(text), &got); err != nil || got != want {
			t.Errorf("%s is %+v, error %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{`{"agent":"a.b"}`, `{"tree":"a-b"}`, `{"path":"r-0-0"}`} {
		got := full
		if err := json.Unmarshal([]byte(text), &got); !errors.Is(err, ErrToken) || got != full {
			t.Errorf("%s is %+v, error %v; want one that wraps ErrToken", text, got, err)
		}
	}
}

// TestParseIdleKeyInvertsIdleKey: ParseIdleKey parses the keys of IdleKey, and
// no others.
func TestParseIdleKeyInvertsIdleKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _ := drawPath(t)
		turn := rapid.IntRange(1, 1000).Draw(t, "turn")
		if got, n, ok := ParseIdleKey(p.IdleKey(turn).String()); got != p || n != turn || !ok {
			t.Fatalf("%s parses to %s, %d, %t, want %s, %d, true", p.IdleKey(turn), got, n, ok, p, turn)
		}
	})
	for _, key := range []string{
		"", "r", "r-1-0", "r-idle", "r-idle0", "r-idle01", "r-idle1x", "r-idle-1", "x-idle1", "r-1-idle1", "idle1",
	} {
		if p, n, ok := ParseIdleKey(key); ok || n != 0 || !p.IsZero() {
			t.Errorf("%q parses to %s, %d, %t, want no path, 0, false", key, p, n, ok)
		}
	}
}

// TestIsRunName: r and all names that begin with r- are reserved for runs.
func TestIsRunName(t *testing.T) {
	for name, want := range map[string]bool{
		"r": true, "r-1-0": true, "r-x": true, "": false, "robert": false, "R": false, "me-r-1": false,
	} {
		if got := IsRunName(name); got != want {
			t.Errorf("%q is a run's name: %t, want %t", name, got, want)
		}
	}
}

// drawAgent draws the name of an agent.
func drawAgent(t *rapid.T) Agent {
	a, err := ParseAgent(rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,63}`).Draw(t, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// drawTree draws the id of a tree.
func drawTree(t *rapid.T) Tree {
	id, err := ParseTree(rapid.StringMatching(`[A-Za-z0-9]{1,64}`).Draw(t, "tree"))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// drawPath draws a path. It also returns its steps from the root: a turn and
// the index of a call each.
func drawPath(t *rapid.T) (Path, [][2]int) {
	step := rapid.Custom(func(t *rapid.T) [2]int {
		return [2]int{rapid.IntRange(1, 50).Draw(t, "turn"), rapid.IntRange(0, 20).Draw(t, "index")}
	})
	steps := rapid.SliceOfN(step, 0, MaxDepth).Draw(t, "steps")
	p := Root
	for _, s := range steps {
		p = p.Child(s[0], s[1])
	}
	return p, steps
}

// TestPathIsItsSteps: Parent undoes each step of Child. A path parses to
// itself, and its Depth is the number of its steps.
func TestPathIsItsSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, steps := drawPath(t)
		if back, err := ParsePath(p.String()); err != nil || back != p {
			t.Fatalf("%s parses to %s, error %v, want the same", p, back, err)
		}
		if p.Depth() != len(steps) || p.IsRoot() != (len(steps) == 0) {
			t.Fatalf("%s has depth %d, want %d; it is a root: %t", p, p.Depth(), len(steps), p.IsRoot())
		}
		for i := len(steps) - 1; i >= 0; i-- {
			up, turn, index, ok := p.Parent()
			if !ok || turn != steps[i][0] || index != steps[i][1] || up.Child(turn, index) != p {
				t.Fatalf("the parent of %s is %s at %d.%d, %t, want one at %d.%d",
					p, up, turn, index, ok, steps[i][0], steps[i][1])
			}
			p = up
		}
		if _, _, _, ok := p.Parent(); ok || p != Root {
			t.Fatalf("after all steps the path is %s and has a parent: %t, want r without one", p, ok)
		}
	})
}

// TestCoversIsAncestry: a path covers itself and the paths below it, and no
// others.
func TestCoversIsAncestry(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _ := drawPath(t)
		q, _ := drawPath(t)
		if rapid.Bool().Draw(t, "related") {
			q = p
			for range rapid.IntRange(0, 2).Draw(t, "below") {
				q = q.Child(rapid.IntRange(1, 12).Draw(t, "turn"), rapid.IntRange(0, 12).Draw(t, "index"))
			}
		}
		above := func(p, q Path) bool {
			for ok := true; ok; q, _, _, ok = q.Parent() {
				if p == q {
					return true
				}
			}
			return false
		}
		if p.Covers(q) != above(p, q) || q.Covers(p) != above(q, p) || !p.Covers(p) || !Root.Covers(p) {
			t.Fatalf("%s covers %s: %t, want %t; the other way round: %t, want %t; itself: %t, the root covers it: %t",
				p, q, p.Covers(q), above(p, q), q.Covers(p), above(q, p), p.Covers(p), Root.Covers(p))
		}
	})
}

// TestCoversIsNoPrefix: r-1-1 does not cover r-1-10, though it is a prefix of
// it.
func TestCoversIsNoPrefix(t *testing.T) {
	if p := Root.Child(1, 1); p.Covers(Root.Child(1, 10)) || !p.Covers(Root.Child(1, 1).Child(1, 0)) {
		t.Error("r-1-1 covers r-1-10, or does not cover r-1-1-1-0")
	}
}

// TestWorkerOf: any text becomes a worker's name, which is a token of a subject
// of at most 64 bytes.
func TestWorkerOf(t *testing.T) {
	for text, want := range map[string]string{
		"one": "one", "host-7_A": "host-7_A", "my worker": "my-worker", "a.b.*.>": "a-b----", "é": "-", "": "-",
		strings.Repeat("x", 100): strings.Repeat("x", 64),
	} {
		if got := WorkerOf(text).String(); got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// TestParseReturnKeyInvertsReturnKey: ParseReturnKey parses the keys of
// ReturnKey, and no others. Each key is a token that workers of any version
// accept.
func TestParseReturnKeyInvertsReturnKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seq, delivery := rapid.Uint64Min(1).Draw(t, "seq"), rapid.IntRange(1, 999_999_999).Draw(t, "delivery")
		key := ReturnKey(seq, delivery).String()
		if got, n, ok := ParseReturnKey(key); got != seq || n != delivery || !ok {
			t.Fatalf("%s parses to %d, %d, %t, want %d, %d, true", key, got, n, ok, seq, delivery)
		}
		if !plain(key) {
			t.Fatalf("%s is no plain token: a worker that does not know returns refuses it", key)
		}
	})
	for _, key := range []string{
		"", "5", "5-", "-1", "0-1", "5-0", "05-1", "5-01", "5-1-1", "+5-1", "x-1", "5-x", "18446744073709551616-1",
	} {
		if seq, delivery, ok := ParseReturnKey(key); ok {
			t.Errorf("%q parses to %d, %d, want it refused", key, seq, delivery)
		}
	}
}
