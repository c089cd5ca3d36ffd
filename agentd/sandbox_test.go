package agentd

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
			defs, refused := test.sandbox.withoutCommands(configs.Definitions{Agents: agents}, slog.Default())
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
			if off := test.sandbox.of(agents[0].Sandbox, slog.Default()).Off; off != (test.name == "off") {
				t.Errorf("commands run without a sandbox: %t, want %t", off, !off)
			}
		})
	}
}

// TestSandboxIsProbedAgain: what the kernel has decided stays until the worker
// ends. After a probe that could not be made, the worker makes another one a
// minute later. So it is if only namespaces could not be tried.
func TestSandboxIsProbedAgain(t *testing.T) {
	t.Parallel()
	noTime := fmt.Errorf("%w: no time", sandbox.ErrUnsure)
	for name, test := range map[string]struct {
		means sandbox.Means
		err   error
		again bool
	}{
		"held":             {means: sandbox.Means{Landlock: 7, Namespaces: true}},
		"no Landlock":      {err: errors.New("no Landlock")},
		"no namespaces":    {means: sandbox.Means{Landlock: 7, NoNamespaces: errors.New("not permitted")}},
		"not tried":        {err: noTime, again: true},
		"namespaces tried": {means: sandbox.Means{Landlock: 7, NoNamespaces: noTime}, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := 0
				s := &Sandbox{probe: func() (sandbox.Means, error) {
					if n++; n > 1 {
						return sandbox.Means{Landlock: 7, Namespaces: true}, nil
					}
					return test.means, test.err
				}}
				for _, wait := range []time.Duration{0, probeInterval - time.Second, time.Second, time.Hour} {
					time.Sleep(wait)
					means, err := s.held(slog.Default())
					if n == 1 && (means != test.means || !errors.Is(err, test.err)) {
						t.Errorf("held by %+v, %v; want what the probe has found", means, err)
					}
				}
				if again := n == 2; again != test.again || n > 2 {
					t.Errorf("%d probes, want another one: %t", n, test.again)
				}
			})
		})
	}
}

// TestHeldSandboxStays: a probe that could not be made replaces no earlier one
// that has shown that commands are held. While it is being made, others are
// told what is known. A probe that the kernel decides does replace it. The
// worker logs at once why there are no namespaces.
func TestHeldSandboxStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type found struct {
			means sandbox.Means
			err   error
		}
		noTime := fmt.Errorf("%w: no time", sandbox.ErrUnsure)
		held := found{means: sandbox.Means{Landlock: 7, NoNamespaces: noTime}}
		refused := found{err: errors.New("no Landlock")}
		probes := []found{held, {err: noTime}, refused}
		var logged strings.Builder
		log := slog.New(slog.NewTextHandler(&logged, nil))
		var s *Sandbox
		n := 0
		s = &Sandbox{probe: func() (sandbox.Means, error) {
			n++
			if n == 2 {
				if means, err := s.held(log); means != held.means || err != nil {
					t.Errorf("during a probe: held by %+v, %v; want %+v", means, err, held.means)
				}
			}
			return probes[n-1].means, probes[n-1].err
		}}
		for i, want := range []found{held, held, refused} {
			means, err := s.held(log)
			if n != i+1 || means != want.means || !errors.Is(err, want.err) {
				t.Errorf("after probe %d: held by %+v, %v; want %+v", n, means, err, want)
			}
			if lines := strings.Count(logged.String(), "without namespaces"); lines != 1 {
				t.Errorf("after probe %d: %d lines say why there are no namespaces, want 1", n, lines)
			}
			time.Sleep(probeInterval)
		}
	})
}
