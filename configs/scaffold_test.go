package configs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/price"
)

// commented matches a line with a key or a table behind "# ".
var commented = regexp.MustCompile(`(?m)^# (\[[a-z_.]+("[^"]+")?\]|[a-z_]+ = .*)$`)

// TestScaffold: a new agent's file is valid as it is. It has a comment and four
// keys.
func TestScaffold(t *testing.T) {
	text := configs.Scaffold("reviewer")
	got, err := configs.Load(write(t, t.TempDir(), "reviewer.toml", text))
	if err != nil {
		t.Fatal(err)
	}
	want := configs.Agent{
		Name: "reviewer", Description: "Answers questions in a few sentences", Model: "openai/gpt-5",
		SystemPrompt:  "You answer questions in a few sentences.",
		SubAgentsConf: configs.SubAgentsConfig{Parallel: true},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(configs.Agent{}, "File", "Digest", "Retry")); diff != "" {
		t.Errorf("agent (-want +got):\n%s", diff)
	}
	if lines := strings.Count(text, "\n"); lines != 5 {
		t.Errorf("%d lines, want a comment and four keys:\n%s", lines, text)
	}
}

// TestScaffold_IncludesSubAgentsConfig: axe's M5 specification wants every
// table as a comment in a new agent's file. People took such comments for the
// defaults. So the file names the page that has the tables.
func TestScaffold_IncludesSubAgentsConfig(t *testing.T) {
	const page = "https://github.com/axebus/axe/blob/main/docs/agents.md"
	if text := configs.Scaffold("reviewer"); !strings.Contains(text, page) {
		t.Errorf("the file does not name %s:\n%s", page, text)
	}
	b, err := os.ReadFile("../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	const section = "[sub_agents_config]\nmax_depth = 3\nparallel = true\ntimeout = 120\n"
	if !strings.Contains(string(b), section) {
		t.Errorf("the page does not have\n%s", section)
	}
}

// TestScaffoldGlobal: a new config.toml sets no key. It is valid with every key
// uncommented. It names the tables, and the variables of the environment.
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
		t.Errorf("as it is (-want +got):\n%s", diff)
	}
	whole := commented.ReplaceAllString(text, "$1")
	got, err = configs.LoadGlobal(write(t, dir, "config.toml", whole))
	if err != nil {
		t.Fatalf("%v in\n%s", err, whole)
	}
	want.Providers["ollama"] = configs.Provider{
		BaseURL: "http://localhost:11434", IdleTimeout: 60, MaxConcurrent: 8,
		RequestsPerMinute: 500, TokensPerMinute: 200000, RespectRetryAfter: true,
	}
	want.Prices.Models = map[string]price.Model{"openai/gpt-5": {}}
	want.Outcomes.Signers = []string{}
	if diff := cmp.Diff(want, got, ignored); diff != "" {
		t.Errorf("uncommented (-want +got):\n%s", diff)
	}
	for _, line := range []string{
		"# [providers.anthropic]\n# api_key = ", "# [providers.openai]\n# api_key = ",
		"# [providers.ollama]\n# base_url = ", "# [memory]\n# store = ", "ANTHROPIC_API_KEY", "AXE_<NAME>_BASE_URL",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the file lacks %q", line)
		}
	}
}

// TestSampleSkill: the sample skill has a title and three sections.
func TestSampleSkill(t *testing.T) {
	text := configs.SampleSkill()
	if !strings.HasPrefix(text, "# ") {
		t.Error("the skill does not begin with a title")
	}
	for _, heading := range []string{"\n## Purpose\n", "\n## Instructions\n", "\n## Output Format\n"} {
		if !strings.Contains(text, heading) {
			t.Errorf("the skill lacks %q", heading)
		}
	}
}
