package agentd

import (
	"errors"
	"testing"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/sandbox"
)

// TestCommandsNeedASandbox: a worker that cannot hold commands in a sandbox
// serves no agent with commands. It says why, and serves the others. With
// NoSandbox it serves all of them, and their commands run without a sandbox.
func TestCommandsNeedASandbox(t *testing.T) {
	t.Parallel()
	agents := []configs.Agent{
		{Name: "ops", Tools: []string{"read_file", "run_command"}},
		{Name: "reader", Tools: []string{"read_file"}},
	}
	failed := func() (sandbox.Means, error) { return sandbox.Means{}, errors.New("no Landlock") }
	held := func() (sandbox.Means, error) { return sandbox.Means{Landlock: 7}, nil }
	const unheld = "run_command: commands cannot be held in a sandbox here: no Landlock"
	for _, test := range []struct {
		name    string
		sandbox *Sandbox
		problem string // "" if ops is served
	}{
		{"none", nil, "run_command: this worker runs no commands"},
		{"the probe failed", &Sandbox{probe: failed}, unheld},
		{"the probe succeeded", &Sandbox{probe: held}, ""},
		{"off", NoSandbox(), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			defs, refused := test.sandbox.withoutCommands(configs.Definitions{Agents: agents})
			rest := defs.Agents
			served := 2
			if test.problem != "" {
				served = 1
			}
			if len(rest) != served || rest[served-1].Name != "reader" {
				t.Errorf("served are %v, want %d agents with reader as the last", rest, served)
			}
			switch {
			case len(refused) != 2-served:
				t.Errorf("refused are %v, want %d", refused, 2-served)
			case served == 1 && (refused[0].Name.String() != "ops" || refused[0].Problem != test.problem):
				t.Errorf("refused is %v, want ops: %s", refused[0], test.problem)
			}
			if off := test.sandbox.of(agents[0].Sandbox).Off; off != (test.name == "off") {
				t.Errorf("commands run without a sandbox: %t, want %t", off, !off)
			}
		})
	}
}
