package tool_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/subjects"
)

// TestGuidance: the guidance of a root that calls tools, and of a fork that
// writes commands, has the words of the files in testdata. A run without tools
// for forks and mail gets none.
func TestGuidance(t *testing.T) {
	all := []string{
		tool.ForkToolName,
		tool.SendToolName,
		tool.CheckMailToolName,
		tool.WaitToolName,
		tool.KillToolName,
	}
	fork, err := subjects.ParsePath("r-1-0")
	if err != nil {
		t.Fatal(err)
	}
	for file, got := range map[string]string{
		"guidance_mail.txt":  tool.Guidance(subjects.Root, append([]string{tool.CallAgentToolName}, all...), nil),
		"guidance_slash.txt": tool.Guidance(fork, nil, all),
	} {
		want, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got+"\n"); diff != "" {
			t.Errorf("guidance and %s (-file +got):\n%s", file, diff)
		}
	}
	if got := tool.Guidance(fork, []string{tool.CallAgentToolName, tool.SpawnAgentToolName}, nil); got != "" {
		t.Errorf("a run without tools for forks and mail gets the guidance %q, want none", got)
	}
}
