package run_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
)

// drawPolicy draws a policy with bounds among the names a to d.
func drawPolicy(t *rapid.T, name string) run.Policy {
	list := func(what string) []string {
		if rapid.Bool().Draw(t, name+" bounds "+what) {
			return rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 0, 4).Draw(t, name+" "+what)
		}
		return nil
	}
	return run.Policy{Agents: list("agents"), Tools: list("tools")}
}

// TestPolicyOnlyNarrows: two policies together permit exactly what each of them
// permits, in either order. JSON keeps an empty list apart from none.
func TestPolicyOnlyNarrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, q := drawPolicy(t, "one"), drawPolicy(t, "another")
		both, reverse := p.Within(q), q.Within(p)
		for _, x := range []string{"a", "b", "c", "d", "e"} {
			if both.MayCall(x) != (p.MayCall(x) && q.MayCall(x)) || both.MayUse(x) != (p.MayUse(x) && q.MayUse(x)) {
				t.Fatalf("%s: %+v within %+v is %+v", x, p, q, both)
			}
			if both.MayCall(x) != reverse.MayCall(x) || both.MayUse(x) != reverse.MayUse(x) {
				t.Fatalf("%s: one order of the policies gives %+v, the other one %+v", x, both, reverse)
			}
		}
		if both.IsZero() != (p.IsZero() && q.IsZero()) {
			t.Fatalf("%+v within %+v is %+v, which restricts nothing: %t", p, q, both, both.IsZero())
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
			t.Fatalf("read back from %s (-want +got):\n%s", body, diff)
		}
	})
}
