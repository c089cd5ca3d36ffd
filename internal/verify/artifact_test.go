package verify_test

import (
	"errors"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/verify"
	"github.com/axebus/axe/subjects"
)

// TestArtifacts: the outcome of a tool run names an artifact. If the artifact
// is missing or has other bytes, that is a violation. If it may have been
// dropped for its age, it is a note. It may be older than the outcome by the
// time that its tree may take, and by an hour at least.
func TestArtifacts(t *testing.T) {
	s := newHistory(t)
	s.toolRun(run.Attempt{ID: "first"}, run.UnknownAgain)
	o := s.outcomeNamed("outcome r-1-0")
	o.Tool = "pay"
	o.Artifacts = []run.Artifact{{Name: "a.txt", Digest: "abc"}}
	s.outcomeNamed("outcome r").Artifacts = o.Artifacts
	for _, test := range []struct {
		name   string
		digest string
		// limit is the time of the tree.
		limit    time.Duration
		aged     time.Time
		severity verify.Severity // "" for no finding
	}{
		{"stored", "abc", time.Hour, time.Time{}, ""},
		{"removed", "", time.Hour, time.Time{}, verify.Violation},
		{"removed before its age", "", time.Hour, at(0).Add(-2 * time.Hour), verify.Violation},
		{"dropped for its age", "", time.Hour, at(60), verify.Note},
		{"of a short tree", "", time.Minute, at(0).Add(-time.Hour / 2), verify.Note},
		{"of a long tree", "", 5 * time.Hour, at(0).Add(-2 * time.Hour), verify.Note},
		{"of no such long tree", "", 5 * time.Hour, at(0).Add(-6 * time.Hour), verify.Violation},
		{"replaced", "def", time.Hour, at(60), verify.Violation},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.call("r", 10, began.Add(test.limit))
			c := verify.New(verify.Config{Slack: slack})
			for _, m := range s.messages() {
				c.Add(m)
			}
			err := c.CheckArtifacts(func(tree subjects.Tree, name string) (string, error) {
				if tree.String() != "T" || name != "a.txt" {
					t.Errorf("asked for the artifact %s of the tree %s, want a.txt of T", name, tree)
				}
				return test.digest, nil
			}, test.aged)
			if err != nil {
				t.Fatal(err)
			}
			var found []verify.Finding
			for _, f := range c.Report(afterAll).Findings {
				if f.Rule == verify.Artifact {
					found = append(found, f)
				}
			}
			switch {
			case test.severity == "" && found != nil, test.severity != "" && len(found) != 1:
				t.Errorf("found %v, want one finding of the severity %q, none for \"\"", found, test.severity)
			case len(found) == 1 && (found[0].Severity != test.severity || found[0].Path != "r-1-0"):
				t.Errorf("found %v, want a %s of r-1-0", found[0], test.severity)
			}
		})
	}
}

// TestArtifactsUnread: an error of the object store ends CheckArtifacts. An
// outcome that names an artifact makes NamesArtifacts true.
func TestArtifactsUnread(t *testing.T) {
	s := newHistory(t)
	s.toolRun(run.Attempt{ID: "first"}, run.UnknownAgain)
	o := s.outcomeNamed("outcome r-1-0")
	o.Tool = "pay"
	o.Artifacts = []run.Artifact{{Name: "a.txt"}}
	c := verify.New(verify.Config{Slack: slack})
	for _, m := range s.messages() {
		c.Add(m)
	}
	away := errors.New("away")
	stored := func(subjects.Tree, string) (string, error) { return "", away }
	if err := c.CheckArtifacts(stored, time.Time{}); !c.NamesArtifacts() || !errors.Is(err, away) {
		t.Errorf("CheckArtifacts: got %v, want %v; NamesArtifacts: %t, want true", err, away, c.NamesArtifacts())
	}
}
