package configs_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/configs"
)

// These are the tests that axe's M5 specification names in 7.6 for its
// requirements 5.1 to 5.5. The test of 5.6,
// TestScaffold_IncludesSubAgentsConfig, stands with the other tests of the
// scaffold.

// This declaration does not compile if a field is missing or has another type.
var _ = configs.Agent{ // reqs 5.2 and 5.3
	SubAgents: []string(nil),
	// req 5.1
	SubAgentsConf: configs.SubAgentsConfig{MaxDepth: int(0), Parallel: bool(false), Timeout: int(0)},
}

// loaded loads an agent. Its file has the required keys, one sub-agent, and
// then lines.
func loaded(t *testing.T, lines string) (configs.Agent, error) {
	t.Helper()
	return configs.Load(
		write(t, t.TempDir(), "a.toml", "name = \"a\"\nmodel = \"openai/x\"\nsub_agents = [\"b\"]\n"+lines),
	)
}

// invalid fails the test unless line, in the table sub_agents_config, is an
// error about key with that message.
func invalid(t *testing.T, key, line, want string) {
	t.Helper()
	_, err := loaded(t, "[sub_agents_config]\n"+line+"\n")
	e, ok := errors.AsType[*configs.Error](err)
	if !ok {
		t.Fatalf("got %T: %v, want a *configs.Error", err, err)
	}
	if e.Message != want || e.Key != key || e.Line != 5 {
		t.Errorf("got %+v, want %q about %s in line 5", e, want, key)
	}
}

func TestValidate_MaxDepthTooHigh(t *testing.T) {
	invalid(t, "sub_agents_config.max_depth", "max_depth = 6", "sub_agents_config.max_depth cannot exceed 5")
}

func TestValidate_MaxDepthNegative(t *testing.T) {
	invalid(t, "sub_agents_config.max_depth", "max_depth = -1", "sub_agents_config.max_depth must be non-negative")
}

func TestValidate_TimeoutNegative(t *testing.T) {
	invalid(t, "sub_agents_config.timeout", "timeout = -1", "sub_agents_config.timeout must be non-negative")
}

func TestValidate_MaxDepthValid(t *testing.T) {
	for _, depth := range []string{"0", "1", "5"} {
		if _, err := loaded(t, "[sub_agents_config]\nmax_depth = "+depth+"\n"); err != nil {
			t.Errorf("max_depth %s: %v", depth, err)
		}
	}
}

// TestValidate_SubAgentsConfigDefaults: without these keys Load leaves MaxDepth
// and Timeout 0. Their defaults apply later (9.3, 12.2). Load sets Parallel to
// true. The specification has false in the struct and true in effect, and
// leaves the way to the implementation (5.1, notes).
func TestValidate_SubAgentsConfigDefaults(t *testing.T) {
	for name, lines := range map[string]string{"no table": "", "an empty one": "[sub_agents_config]\n"} {
		t.Run(name, func(t *testing.T) {
			a, err := loaded(t, lines)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(configs.SubAgentsConfig{Parallel: true}, a.SubAgentsConf); diff != "" ||
				a.MaxDepth() != 3 {
				t.Errorf("depth %d, want 3; (-want +got):\n%s", a.MaxDepth(), diff)
			}
		})
	}
}

// TestLoad_SubAgentsConfig: Load reads all keys of the table sub_agents_config,
// and the list sub_agents.
func TestLoad_SubAgentsConfig(t *testing.T) {
	a, err := loaded(t, "[sub_agents_config]\nmax_depth = 4\nparallel = false\ntimeout = 77\n")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("req 5.1, 5.2", func(t *testing.T) {
		if diff := cmp.Diff(configs.SubAgentsConfig{MaxDepth: 4, Timeout: 77}, a.SubAgentsConf); diff != "" {
			t.Errorf("sub_agents_config (-want +got):\n%s", diff)
		}
	})
	t.Run("req 5.3", func(t *testing.T) {
		if diff := cmp.Diff([]string{"b"}, a.SubAgents); diff != "" {
			t.Errorf("sub_agents (-want +got):\n%s", diff)
		}
	})
}
