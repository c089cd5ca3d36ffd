package configs_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// TestLoadAxe18: Load reads a file with every key of axe 1.8 that it does not
// refuse. Each key means the same as in axe 1.8.
func TestLoadAxe18(t *testing.T) {
	file := filepath.Join("testdata", "pr-reviewer.toml")
	got, err := configs.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	want := configs.Agent{
		Name:          "pr-reviewer",
		Description:   "Reviews pull requests",
		Model:         "anthropic/claude-sonnet-4-5",
		SystemPrompt:  "You review code.",
		Skill:         "/skills/code-review/SKILL.md",
		Files:         []string{"src/**/*.go", "CONTRIBUTING.md"},
		Workdir:       "/home/user/projects/myapp",
		Tools:         []string{"read_file", "list_directory", "run_command"},
		SubAgents:     []string{"test-runner", "lint-checker"},
		AllowedHosts:  []string{"api.example.com", "docs.example.com"},
		Timeout:       300,
		SubAgentsConf: configs.SubAgentsConfig{MaxDepth: 3, Parallel: true, Timeout: 120},
		Memory:        configs.Memory{Enabled: true, Path: "/home/user/memory.md", LastN: 10, MaxEntries: 100},
		Params:        configs.Params{Temperature: new(0.3), MaxTokens: 4096},
		Budget:        subjects.Budget{Tokens: 50000},
		Retry: configs.Retry{
			MaxAttempts: 4, Backoff: configs.Linear, Initial: 200 * time.Millisecond, Max: 10 * time.Second,
		},
		Inert: []string{"stream", "params.response_format"},
		File:  file,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(configs.Agent{}, "Digest")); diff != "" {
		t.Errorf("agent (-want +got):\n%s", diff)
	}
}

// TestAxe18Keys: a key of axe 1.8 sets the field of the key of this version
// that means the same. A key without effect is only listed as inert.
func TestAxe18Keys(t *testing.T) {
	retry := func(attempts int, initial, longest time.Duration) func(*configs.Agent) {
		return func(a *configs.Agent) {
			a.Retry = configs.Retry{MaxAttempts: attempts, Initial: initial, Max: longest}
		}
	}
	tokens := func(n int) func(*configs.Agent) { return func(a *configs.Agent) { a.Budget.Tokens = n } }
	inert := func(keys ...string) func(*configs.Agent) { return func(a *configs.Agent) { a.Inert = keys } }
	for text, change := range map[string]func(*configs.Agent){
		"": func(*configs.Agent) {},

		"timeout = 120":  func(a *configs.Agent) { a.Timeout = 120 },
		"timeout = 0":    func(*configs.Agent) {},
		"stream = true":  inert("stream"),
		"stream = false": func(*configs.Agent) {},

		"mcp_servers = []":                func(*configs.Agent) {},
		"artifacts.enabled = false":       func(*configs.Agent) {},
		"artifacts.default_write = true":  func(*configs.Agent) {},
		"[artifacts]\n":                   func(*configs.Agent) {},
		"artifacts.max_result = 2048":     func(a *configs.Agent) { a.Artifacts.MaxResult = 2048 },
		"params.response_format = 'text'": func(*configs.Agent) {},

		"params.response_format = 'json_object'":                            inert("params.response_format"),
		"params.response_format = {type = 'json_object'}":                   inert("params.response_format"),
		"[params.response_format]\ntype = 'json_schema'\nschema.params = 1": inert("params.response_format"),

		"budget.max_tokens = 0":                          func(*configs.Agent) {},
		"budget.max_tokens = 7":                          tokens(7),
		"budget.max_tokens = 7\nlimits.max_tokens = 8":   tokens(7),
		"budget.max_tokens = 8\nlimits.max_tokens = 7":   tokens(7),
		"budget.max_tokens = 0\nlimits.max_tokens = 7":   tokens(7),
		"budget.max_tokens = 7\nlimits.max_tokens = 0":   tokens(7),
		"retry.max_retries = 0":                          retry(1, 0, 0),
		"retry.max_retries = 19":                         retry(20, 0, 0),
		"retry.initial_delay_ms = 100":                   retry(3, 100*time.Millisecond, 0),
		"retry.initial_delay_ms = 0":                     func(*configs.Agent) {},
		"retry.max_delay_ms = 0":                         func(*configs.Agent) {},
		"retry.max_delay_ms = 1000":                      retry(3, 500*time.Millisecond, time.Second),
		"retry.max_delay_ms = 100":                       retry(3, 100*time.Millisecond, 100*time.Millisecond),
		"retry.initial_delay_ms = 40000":                 retry(3, 30*time.Second, 0),
		"retry = {initial_delay_ms=5, max_delay_ms=5}":   retry(3, 5*time.Millisecond, 5*time.Millisecond),
		"retry = {initial_delay_ms=40000, max = '1m'}":   retry(3, 40*time.Second, time.Minute),
		"retry = {max_retries = 1, max_delay_ms = 2000}": retry(2, 500*time.Millisecond, 2*time.Second),
	} {
		const own = "name = 'a'\nmodel = 'openai/x'\n"
		want, err := configs.Load(write(t, t.TempDir(), "a.toml", own))
		if err != nil {
			t.Fatal(err)
		}
		change(&want)
		got, err := configs.Load(write(t, t.TempDir(), "a.toml", own+text+"\n"))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(configs.Agent{}, "Digest", "File"),
			cmpopts.IgnoreFields(configs.Toolset{}, "Digest", "File")); diff != "" {
			t.Errorf("%q: agent (-want +got):\n%s", text, diff)
		}
	}
}

// TestWorkdirVariables: a workdir may have variables of the environment. A
// variable that is not set is an error.
func TestWorkdirVariables(t *testing.T) {
	t.Setenv("AXE_TEST_PROJECT", "/srv/project")
	load := func(workdir string) (configs.Agent, error) {
		text := "name = 'a'\nmodel = 'openai/x'\nworkdir = '" + workdir + "'\n"
		return configs.Load(write(t, t.TempDir(), "a.toml", text))
	}
	for _, workdir := range []string{"$AXE_TEST_PROJECT/src", "${AXE_TEST_PROJECT}/src"} {
		if a, err := load(workdir); err != nil || a.Workdir != "/srv/project/src" {
			t.Errorf("%s: got %s, error %v; want /srv/project/src", workdir, a.Workdir, err)
		}
	}
	_, err := load("$AXE_TEST_NOWHERE/src")
	const want = "a.toml:3: workdir: the environment has no variable AXE_TEST_NOWHERE: " +
		"set it, or write the path without it"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestAxe18Refuses: a key of axe 1.8 that this version cannot honour is an
// error that says what to do. So are values that axe refuses, and typos.
func TestAxe18Refuses(t *testing.T) {
	for text, want := range map[string]string{
		"mcp_servers = 'a'": "3: mcp_servers: must be a list of tables",
		"[mcp_servers]\n":   "3: mcp_servers: must be a list of tables",
		"[artifacts]\nenabled = true\ndir = 'x'": "4: artifacts.enabled: artifacts here belong to the tree, " +
			"and have no directory: remove enabled, and add read_artifact and write_artifact to tools",
		"artifacts.max_result = 1000": "3: artifacts.max_result must be 0, or 1024 to 1048576, got 1000",
		"artifacts.dir = 'x'":         "3: artifacts.dir is set but artifacts.enabled is false",

		"timeout = -1":      "3: timeout must be non-negative",
		"timeout = '2m'":    "3: timeout: must be an integer",
		"timeout = 1e9":     "3: timeout: must be an integer",
		"stream = 'always'": "3: stream: must be true or false",

		"params.response_format = 3": "3: params.response_format: must be a string or a table",
		"params.response_format = 'xml'": "3: params.response_format: must be text, json_object or json_schema, " +
			`or a table with one of them as its type, got "xml"`,
		"params.response_format = {schema = {}}": "3: params.response_format: must be text, json_object or " +
			`json_schema, or a table with one of them as its type, got ""`,

		"budget.max_tokens = -1":                          "3: budget.max_tokens must be non-negative",
		"retry.max_retries = -1":                          "3: retry.max_retries must be non-negative",
		"retry.max_retries = 20":                          "3: retry.max_retries cannot exceed 19",
		"retry.initial_delay_ms = -1":                     "3: retry.initial_delay_ms must be non-negative",
		"retry.max_delay_ms = -1":                         "3: retry.max_delay_ms must be non-negative",
		"retry.max_delay_ms = 3600001":                    "3: retry.max_delay_ms cannot exceed 3600000",
		"retry.initial_delay_ms = '1s'":                   "3: retry.initial_delay_ms: must be an integer",
		"[retry]\ninitial_delay_ms = 2\nmax_delay_ms = 1": "5: retry.max_delay_ms must be >= retry.initial_delay_ms",

		"[retry]\nmax_attempts = 3\nmax_retries = 2": "5: retry.max_retries and retry.max_attempts set the same: " +
			"remove one of them",
		"[retry]\ninitial_delay_ms = 5\ninitial = 1": "4: retry.initial_delay_ms and retry.initial set the same: " +
			"remove one of them",
		"[retry]\nmax_delay_ms = 5\nmax = 1": "4: retry.max_delay_ms and retry.max set the same: remove one of them",

		"time_out = 3":           `3: time_out: unknown key; did you mean "timeout"?`,
		"retry.max_retry = 3":    `3: retry.max_retry: unknown key; did you mean "retry.max_retries"?`,
		"mcp_server = []":        `3: mcp_server: unknown key; did you mean "mcp_servers"?`,
		"[budgets]\n":            `3: budgets: unknown key; did you mean "budget"?`,
		"max_tokens = 3":         `3: max_tokens: unknown key; did you mean "limits.max_tokens"?`,
		"params.format = 'text'": `3: params.format: unknown key`,
	} {
		_, err := configs.Load(write(t, t.TempDir(), "a.toml", "name = 'a'\nmodel = 'openai/x'\n"+text+"\n"))
		e, ok := errors.AsType[*configs.Error](err)
		if !ok {
			t.Errorf("%q: got %T: %v, want a *configs.Error", text, err, err)
			continue
		}
		if got := strings.TrimPrefix(e.Error(), e.File+":"); got != want {
			t.Errorf("%q:\ngot  %s\nwant %s", text, got, want)
		}
	}
}
