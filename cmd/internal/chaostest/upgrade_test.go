package chaostest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// beforeEnv is the commit of the workers that upgrades replace. Without it that
// is the last release.
const beforeEnv = "AXE_CHAOS_BEFORE"

// builtBefore builds agentd as of an earlier commit, and returns the program. It
// skips the test if there is no such commit.
func builtBefore(t *testing.T) string {
	t.Helper()
	commit := os.Getenv(beforeEnv)
	if commit == "" {
		args := []string{"describe", "--tags", "--abbrev=0", "--match", "v*", "HEAD^"}
		tag, err := exec.CommandContext(t.Context(), "git", args...).Output()
		if err != nil {
			t.Skip("there is no release before this commit: set " + beforeEnv + " to an earlier commit")
		}
		commit = strings.TrimSpace(string(tag))
	}
	source := filepath.Join(t.TempDir(), "source")
	for _, args := range [][]string{
		// A clone, so that the program tells its commit.
		{"git", "clone", "-q", "--no-checkout", "../../..", source},
		{"git", "-C", source, "checkout", "-q", "--detach", commit},
		{"go", "build", "-C", source, "-o", "before", "./cmd/agentd"},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s=%s: %q: %v: %s", beforeEnv, commit, args, err, out)
		}
	}
	t.Logf("upgrades from %s and back", commit)
	return filepath.Join(source, "before")
}

// versioned returns the command of a worker of a generation. With before, the
// first worker of a place is of the earlier version, the next one of this
// version, and so on: each drain is an upgrade or the way back.
func (a agentd) versioned(generation int) agentd {
	if a.before != "" && generation%2 == 1 {
		a.file = a.before
	}
	return a
}
