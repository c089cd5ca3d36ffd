package cmd_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/axebus/axe/internal/sandbox"
)

// TestDemoTools runs the program of make demo STYLE=tools with real processes:
// a worker is killed while it runs the tests of a module. No worker runs that
// command again by itself. The model reads that the command may have taken
// effect, runs the tests again, and mends the module.
func TestDemoTools(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	if _, err := sandbox.Probe(t.Context()); err != nil {
		t.Skipf("no worker serves agents with commands here: %v", err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "../configs/examples/mender/demo", binaries(t), dir)
	var answer, story bytes.Buffer
	cmd.Stdout = &answer
	cmd.Stderr = &story
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v:\n%s", err, &story)
	}
	if !strings.HasPrefix(answer.String(), "The tests pass:") {
		t.Errorf("got the answer %q, want one that begins with %q", &answer, "The tests pass:")
	}
	for _, want := range []string{
		"r-1-0 run_command failed: it may have taken effect: worker one began it",
		"the tests were begun 1 time under the call that was cut off",
		": nothing is wrong",
	} {
		if !strings.Contains(story.String(), want) {
			t.Errorf("stderr has no %q:\n%s", want, &story)
		}
	}
}
