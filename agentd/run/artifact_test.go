package run_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/axebus/axe/agentd/run"
)

// TestCheckArtifactName: a name that is a file name on every system is
// accepted, and every other name is refused.
func TestCheckArtifactName(t *testing.T) {
	for _, name := range []string{"a", "report.md", "r-1-0.txt", "Übersicht 2.csv", "a..b", strings.Repeat("x", 100)} {
		if err := run.CheckArtifactName(name); err != nil {
			t.Errorf("%q is refused: %v", name, err)
		}
	}
	for _, name := range []string{
		"", ".", "..", ".bashrc", "a.", " a", "a ", "a/b", `a\b`, "../a", "a\x00b", "a\nb", "a\x1b[2J", "\xff", "c:d",
		"a\u202eb", strings.Repeat("x", 101),
	} {
		if err := run.CheckArtifactName(name); err == nil {
			t.Errorf("%q is accepted, want an error", name)
		}
	}
}

// TestArtifactsOfARun: a run has the artifacts of its calls in call order, each
// once. Beyond the bound it counts them.
func TestArtifactsOfARun(t *testing.T) {
	outcome := func(more int, names ...string) *run.Outcome {
		o := &run.Outcome{MoreArtifacts: more}
		for _, name := range names {
			o.Artifacts = append(o.Artifacts, run.Artifact{Name: name})
		}
		return o
	}
	var many []string
	for i := range run.MaxArtifacts {
		many = append(many, fmt.Sprint("m", i))
	}
	turns := run.Turns{
		{Outcomes: []*run.Outcome{outcome(0, "b"), nil, outcome(0, "a", "b")}, Verdict: outcome(2, "v")},
		{Outcomes: []*run.Outcome{outcome(3, many...)}},
	}
	all, more := turns.Artifacts()
	var got []string
	for _, a := range all {
		got = append(got, a.Name)
	}
	want := append([]string{"b", "a", "v"}, many[:run.MaxArtifacts-3]...)
	if !slices.Equal(got, want) || more != 2+3+3 {
		t.Errorf("got %v and %d more, want %v and 8 more", got, more, want)
	}
}
