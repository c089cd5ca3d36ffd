package configs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// commented matches a line with a key or a table behind "# ".
var commented = regexp.MustCompile(`(?m)^# (\[[a-z_.]+\]|[a-z_]+ = .*)$`)

// A new agent's file is valid, both as it is and with every key uncommented.
func TestScaffold(t *testing.T) {
	dir := t.TempDir()
	text := configs.Scaffold("reviewer")
	ignored := cmpopts.IgnoreFields(configs.Agent{}, "File", "Digest")
	got, err := configs.Load(write(t, dir, "reviewer.toml", text))
	if err != nil {
		t.Fatal(err)
	}
	want := configs.Agent{
		Name: "reviewer", Model: "provider/model-name", SubAgentsConf: configs.SubAgentsConfig{Parallel: true},
		Retry: configs.Retry{MaxAttempts: configs.DefaultMaxAttempts},
	}
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Error(diff)
	}

	whole := commented.ReplaceAllString(text, "$1")
	got, err = configs.Load(write(t, dir, "reviewer.toml", whole))
	if err != nil {
		t.Fatalf("%v\n%s", err, whole)
	}
	want = configs.Agent{
		Name: "reviewer", Model: "provider/model-name", SystemPrompt: "You are a careful reader.",
		Skill: filepath.Join(dir, "sample"), Files: []string{"README.md", "docs/**/*.md"}, Workdir: dir,
		SubAgents:     []string{"reader"},
		SubAgentsConf: configs.SubAgentsConfig{MaxDepth: 3, Parallel: true, Timeout: 120},
		Policy:        configs.Policy{Agents: []string{"reader"}, Tools: []string{"call_agent"}},
		Delegation:    configs.Delegation{Styles: configs.Styles{configs.StyleCall}, MaxBatch: 10},
		Params:        configs.Params{Temperature: new(0.3), MaxTokens: 4096},
		Budget:        subjects.Budget{Agents: 100, Turns: 500, Tokens: 1000000},
		Supervision: configs.Supervision{
			Mode: configs.Unsupervised, Agent: "watcher", Timeout: 30 * time.Minute, OnTimeout: configs.Deny,
		},
		Memory: configs.Memory{LastN: 10, MaxEntries: 100},
		Retry: configs.Retry{
			MaxAttempts: 3,
			Backoff:     configs.Exponential,
			Initial:     500 * time.Millisecond,
			Max:         30 * time.Second,
		},
	}
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Error(diff)
	}
}

func TestScaffold_IncludesSubAgentsConfig(t *testing.T) {
	includes(t, "# [sub_agents_config]\n# max_depth = 3\n# parallel = true\n# timeout = 120\n")
}

func TestScaffoldIncludesMemory(t *testing.T) {
	includes(t, "# [memory]\n# enabled = false\n# path = \"\"\n# last_n = 10\n# max_entries = 100\n")
}

func TestScaffoldIncludesParams(t *testing.T) {
	includes(t, "# [params]\n# temperature = 0.3\n# max_tokens = 4096\n")
}

func TestScaffoldIncludesRetry(t *testing.T) {
	includes(t, `# [retry]
# max_attempts = 3
# backoff = "exponential"
# initial = "500ms"
# max = "30s"
`)
}

// includes fails the test unless the scaffold has a section, line by line.
func includes(t *testing.T, section string) {
	t.Helper()
	if text := configs.Scaffold("reviewer"); !strings.Contains(text, "\n"+section) {
		t.Errorf("no section\n%s\nin\n%s", section, text)
	}
}

// A new config.toml sets no key. It is valid with every key uncommented.
func TestScaffoldGlobal(t *testing.T) {
	dir := t.TempDir()
	ignored := cmpopts.IgnoreFields(configs.Global{}, "File")
	want, err := configs.LoadGlobal(write(t, dir, "empty.toml", ""))
	if err != nil {
		t.Fatal(err)
	}
	text := configs.ScaffoldGlobal()
	got, err := configs.LoadGlobal(write(t, dir, "config.toml", text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Error(diff)
	}
	whole := commented.ReplaceAllString(text, "$1")
	got, err = configs.LoadGlobal(write(t, dir, "config.toml", whole))
	if err != nil {
		t.Fatalf("%v\n%s", err, whole)
	}
	want.Providers["ollama"] = configs.Provider{
		BaseURL: "http://localhost:11434", MaxConcurrent: 8,
		RequestsPerMinute: 500, TokensPerMinute: 200000, RespectRetryAfter: true,
	}
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Error(diff)
	}
	for _, line := range []string{
		"# [providers.anthropic]\n# api_key = ", "# [providers.openai]\n# api_key = ",
		"# [providers.ollama]\n# base_url = ", "# [memory]\n# store = ", "ANTHROPIC_API_KEY", "AXE_<NAME>_BASE_URL",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("no %q", line)
		}
	}
}

func TestSampleSkill(t *testing.T) {
	text := configs.SampleSkill()
	if !strings.HasPrefix(text, "# ") {
		t.Error("no title")
	}
	for _, heading := range []string{"\n## Purpose\n", "\n## Instructions\n", "\n## Output Format\n"} {
		if !strings.Contains(text, heading) {
			t.Errorf("no %q", heading)
		}
	}
}
