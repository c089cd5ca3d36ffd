package run_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
)

func drawPolicy(t *rapid.T, name string) run.Policy {
	list := func(what string) []string {
		if rapid.Bool().Draw(t, name+" bounds "+what) {
			return rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4).Draw(t, name+" "+what)
		}
		return nil
	}
	return run.Policy{Agents: list("agents"), Tools: list("tools")}
}

// TestPolicyOnlyNarrows: in any chain of policies, a run may do no more than
// each run above it, and the order does not matter.
func TestPolicyOnlyNarrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := drawPolicy(t, "one"), drawPolicy(t, "another")
		both, reverse := p.Within(q), q.Within(p)
		for _, x := range []string{"a", "b", "c", "d", "e"} {
			if both.MayCall(x) != (p.MayCall(x) && q.MayCall(x)) || both.MayUse(x) != (p.MayUse(x) && q.MayUse(x)) {
				t.Fatalf("%s: %+v within %+v is %+v", x, p, q, both)
			}
			if both.MayCall(x) != reverse.MayCall(x) || both.MayUse(x) != reverse.MayUse(x) {
				t.Fatalf("%s: %+v and %+v", x, both, reverse)
			}
		}
		if both.IsZero() != (p.IsZero() && q.IsZero()) {
			t.Fatalf("%+v within %+v is %+v", p, q, both)
		}
		body, err := json.Marshal(both)
		if err != nil {
			t.Fatal(err)
		}
		var back run.Policy
		if err := json.Unmarshal(body, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(both, back); diff != "" {
			t.Fatalf("an empty list is not none at all: %s\n%s", body, diff)
		}
	})
}
