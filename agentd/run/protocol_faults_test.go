package run_test

import (
	"slices"
	"strings"
	"testing"
)

// TestSimWithoutARule takes away one rule after the other. The search has to
// find the violation that the rule prevents. So the checks can find a violation
// of each of these kinds.
func TestSimWithoutARule(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rule     string
		rules    rules
		scenario string
		want     string // letters of protocol_check_test.go
	}{
		{"owner", rules{anyOwner: true}, "two without a fault", "D"},
		{"read again after a refused write", rules{noReread: true}, "zombie tools then final", "A"},
		{"fence", rules{noFence: true}, "zombie tools then final", "BE"},
		{"fence", rules{noFence: true}, "zombie restart", "BE"},
		{"reply subject", rules{noReply: true}, "leaf restart", "C"},
		{"reply subject", rules{noReply: true}, "zombie final then tools", "CDF"},
		{"cancel messages", rules{noCancels: true}, "nested cancel root", "G"},
		{"read what the leader has", rules{noLeader: true}, "two lagging", "C"},
		{"acknowledge last", rules{ackFirst: true}, "two crash and redelivery", "A"},
	}
	for _, test := range tests {
		t.Run(test.rule+"/"+test.scenario, func(t *testing.T) {
			t.Parallel()
			all := scenarios()
			all = append(
				all,
				scenario{name: "two lagging", script: turns(answer{calls: 1}), lag: true, may: budget{redel: 1}},
			)
			s := all[slices.IndexFunc(all, func(s scenario) bool { return s.name == test.scenario })]
			bad, way, states, _ := search(s, test.rules, 200_000)
			if bad == "" || !strings.Contains(test.want, bad[:1]) {
				t.Fatalf(
					"found %q in %d worlds, want a violation of kind %s\n%s",
					bad,
					states,
					test.want,
					explain(s, test.rules, max(2, s.workers), way),
				)
			}
			t.Logf("%d worlds: %s\n%s", states, bad, explain(s, test.rules, max(2, s.workers), way))
		})
	}
}
