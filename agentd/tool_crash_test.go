package agentd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// toolDeath is the moment at which the worker of a tool dies.
type toolDeath struct {
	name   string
	op     string
	suffix string // of the subject of the operation
	after  bool
}

// toolDeaths are the moments, in their order.
var toolDeaths = []toolDeath{
	{"before started", "write", ".r-1-0.log", false},
	{"after started", "write", ".r-1-0.log", true},
	{"after the effect", "write", ".r.in.1.0", false},
	{"after the outcome", "write", ".r.in.1.0", true},
}

// TestToolCrashTable kills the worker of a command: for an effect that may
// happen once at each moment, for the others after the effect. The command
// counts its effects in a file. An effect that may happen once happens once at
// most. Its outcome is unknown if the worker died between the entry of its
// begin and the outcome. Any other effect may happen twice, with the same key.
func TestToolCrashTable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		effect  configs.ToolEffect
		death   int // index in toolDeaths
		effects int
		// kind is that of the tool's outcome; "" for a completed one.
		kind run.Kind
	}{
		{configs.ToolOnce, 0, 1, ""},
		{configs.ToolOnce, 1, 0, run.KindUnknown},
		{configs.ToolOnce, 2, 1, run.KindUnknown},
		{configs.ToolOnce, 3, 1, ""},
		{configs.ToolIdempotent, 2, 2, ""},
		{configs.ToolIdempotent, 3, 1, ""},
		{configs.ToolReads, 2, 2, ""},
		{configs.ToolReads, 3, 1, ""},
	} {
		death := toolDeaths[test.death]
		t.Run(string(test.effect)+" "+death.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			withHarness(t, func(h *harness) {
				h.serveCommands(dir, test.effect, "")
				root := h.killToolAt(death)
				o := h.awaitOutcome(root, time.Hour)
				keys := effects(t, dir)
				if len(keys) != test.effects {
					t.Errorf("%d effects, want %d", len(keys), test.effects)
				}
				for _, key := range keys {
					if want := root.Tree.String() + ".r-1-0"; key != want {
						t.Errorf("an effect with the key %q, want %q", key, want)
					}
				}
				outcomes := h.outcomes(root.Reply(1, 0))
				if len(outcomes) != 1 || outcomes[0].Kind != test.kind {
					t.Errorf("the outcomes of the tool are %+v, want one of the kind %q", outcomes, test.kind)
				}
				if o.Status != run.StatusCompleted {
					t.Errorf("the run ended as %s %q, want it completed", o.Kind, o.Error)
				}
				h.checkVerified()
			})
		})
	}
}

// TestToolUnknown shows the other ways to go on after a call that may have
// taken effect: the call is made again, or the run fails.
func TestToolUnknown(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		onUnknown configs.OnUnknown
		effects   int
		kind      run.Kind // of the run
	}{
		{configs.UnknownAgain, 2, ""},
		{configs.UnknownFail, 1, run.KindUnknown},
	} {
		t.Run(string(test.onUnknown), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			withHarness(t, func(h *harness) {
				h.serveCommands(dir, "", test.onUnknown)
				root := h.killToolAt(toolDeaths[2])
				o := h.awaitOutcome(root, time.Hour)
				if o.Kind != test.kind {
					t.Errorf("the run ended as %s %q, want the kind %q", o.Kind, o.Error, test.kind)
				}
				if keys := effects(t, dir); len(keys) != test.effects {
					t.Errorf("%d effects, want %d", len(keys), test.effects)
				}
				h.checkVerified()
			})
		})
	}
}

// serveCommands makes an agent that runs one command, which notes its key in
// the file effects of the directory.
func (h *harness) serveCommands(dir string, effect configs.ToolEffect, onUnknown configs.OnUnknown) {
	h.agents = []configs.Agent{define("ops", nil, withTools(dir, "run_command"), func(a *configs.Agent) {
		a.ToolConf = map[string]configs.ToolConfig{"run_command": {Effect: effect, OnUnknown: onUnknown}}
	})}
	h.models["ops"] = turns(
		calls(use("run_command", "command", "echo $AXE_IDEMPOTENCY_KEY >> effects")),
		joinsResults,
	)
}

// effects returns the keys in the file effects of a directory.
func effects(t *testing.T, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "effects"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

// killToolAt submits a tree to a worker that dies at a moment of its tool, and
// then starts another worker.
func (h *harness) killToolAt(death toolDeath) subjects.Run {
	return h.killToolWith(death, agentd.Config{})
}

// killToolWith is killToolAt with a configuration of both workers.
func (h *harness) killToolWith(death toolDeath, config agentd.Config) subjects.Run {
	config.Sandbox = agentd.NewSandbox()
	root := h.submitToVictim(death, config)
	h.startWorker("successor", workerOptions{Config: config})
	return root
}

// submitToVictim submits a tree to a worker that dies at a moment of its tool,
// and waits for its death.
func (h *harness) submitToVictim(death toolDeath, config agentd.Config) subjects.Run {
	victim := h.startWorker("victim", workerOptions{Config: config, atStep: func(s step) error {
		if s.Op == death.op && s.After == death.after && strings.HasSuffix(s.Subject, death.suffix) {
			s.worker.kill()
		}
		return nil
	}})
	h.awaitReady()
	root := h.submit("ops", "do it")
	select {
	case <-victim.ended:
	case <-time.After(time.Hour):
		h.tb.Fatalf("the worker has not come to its death %s", death.name)
	}
	return root
}
