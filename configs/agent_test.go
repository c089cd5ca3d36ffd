package configs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// whole sets the keys of the format, except timeout, approve.tools and
// artifacts.max_result, and those that only axe 1.8 has. It has a table for one
// tool.
const whole = `
name = "whole"
description = "has everything"
model = "ollama/library/llama3.1:8b"
system_prompt = """
Be brief.
"""
skill = "skills/one"
files = ["*.go", "docs/**/*.md"]
workdir = "../.."
tools = ["read_file", "run_command"]
allowed_hosts = ["example.com"]
sub_agents = ["reader", "reader", "writer_2"]

[sub_agents_config]
max_depth = 5
parallel = false
timeout = 90

[delegation]
style = ["call", "spawn"]
max_batch = 5
max_turns = 20

[policy]
agents = []
tools = ["spawn_agent"]

[limits]
max_agents = 6
max_turns = 7
max_tokens = 8
max_tool_calls = 9

[params]
temperature = 1
max_tokens = 1000
on_truncated = "fail"

[memory]
enabled = true
path = "memory"
last_n = 5
max_entries = 50

[supervision]
mode = "human"
agent = "watcher"
timeout = "90m"
on_timeout = "approve"

[retry]
max_attempts = 4
backoff = "linear"
initial = "250ms"
max = 2.5

[sandbox]
network = true
write = ["out"]
read = ["/opt/data"]
env = ["GOFLAGS"]

[tool.run_command]
effect = "once"
timeout = "5m"
on_unknown = "fail"
`

// write makes a file and returns its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestLoad: Load reads the keys of whole, and resolves the paths among them.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "whole.toml", whole)
	got, err := configs.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	want := configs.Agent{
		Name:         "whole",
		Description:  "has everything",
		Model:        "ollama/library/llama3.1:8b",
		SystemPrompt: "Be brief.\n",
		Skill:        filepath.Join(dir, "skills/one"),
		Files:        []string{"*.go", "docs/**/*.md"},
		Workdir:      filepath.Dir(filepath.Dir(dir)),
		Tools:        []string{"read_file", "run_command"},
		ToolConf: map[string]configs.ToolConfig{"run_command": {
			Effect: configs.ToolOnce, Timeout: 5 * time.Minute, OnUnknown: configs.UnknownFail,
		}},
		AllowedHosts: []string{"example.com"},
		Sandbox: configs.Sandbox{
			Network: true, Write: []string{"out"}, Read: []string{"/opt/data"}, Env: []string{"GOFLAGS"},
		},
		SubAgents:     []string{"reader", "reader", "writer_2"},
		SubAgentsConf: configs.SubAgentsConfig{MaxDepth: 5, Timeout: 90},
		Delegation: configs.Delegation{
			Styles:   configs.Styles{configs.StyleCall, configs.StyleSpawn},
			MaxBatch: 5,
			MaxTurns: 20,
		},
		Policy: configs.Policy{Agents: []string{}, Tools: []string{"spawn_agent"}},
		Budget: subjects.Budget{Agents: 6, Turns: 7, Tokens: 8, ToolCalls: 9},
		Params: configs.Params{Temperature: new(1.0), MaxTokens: 1000, OnTruncated: configs.FailTruncated},
		Memory: configs.Memory{Enabled: true, Path: filepath.Join(dir, "memory"), LastN: 5, MaxEntries: 50},
		Retry: configs.Retry{
			MaxAttempts: 4,
			Backoff:     configs.Linear,
			Initial:     250 * time.Millisecond,
			Max:         2500 * time.Millisecond,
		},
		Supervision: configs.Supervision{
			Mode:      configs.SupervisedHuman,
			Agent:     "watcher",
			Timeout:   90 * time.Minute,
			OnTimeout: configs.Approve,
		},
		File: file,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(configs.Agent{}, "Digest")); diff != "" {
		t.Errorf("agent (-want +got):\n%s", diff)
	}
	if len(got.Digest) != 64 {
		t.Errorf("digest %q, want 64 digits", got.Digest)
	}
}

// TestDelegation: Load reads styles as a string or a list. An agent without a
// style has call, and one without max_batch has batches of 10.
func TestDelegation(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"":                                "call 10",
		"[delegation]\nstyle = 'spawn'\n": "spawn 10",
		"[delegation]\nstyle = []\nmax_batch = 3\n": "call 3",
		"[delegation]\nstyle = ['spawn', 'call']\n": "call spawn 10",
	} {
		a, err := configs.Load(write(t, dir, "a.toml", "name='a'\nmodel='openai/x'\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		var words []string
		for _, s := range []configs.Style{configs.StyleCall, configs.StyleSpawn} {
			if a.Delegation.Has(s) {
				words = append(words, string(s))
			}
		}
		if got := strings.Join(append(words, strconv.Itoa(a.Delegation.Batch())), " "); got != want {
			t.Errorf("%q: styles and batch %q, want %q", text, got, want)
		}
	}
}

// TestLoadDefaults: parallel is true and max_depth is 3, unless a file sets
// them. The paths of a skill and of a working directory may begin with ~.
func TestLoadDefaults(t *testing.T) {
	t.Setenv("HOME", "/home/someone")
	dir := t.TempDir()
	a, err := configs.Load(write(t, dir, "a.toml", "name='a'\nmodel='openai/x'\nskill='~/skills/a'\n"))
	if err != nil {
		t.Fatal(err)
	}
	if a.Workdir != "" || a.Skill != "/home/someone/skills/a" || !a.SubAgentsConf.Parallel ||
		a.SubAgentsConf.MaxDepth != 0 || a.MaxDepth() != 3 {
		t.Errorf("got %+v, want depth 3, parallel, no workdir, and the skill below HOME", a)
	}
	text := "name='b'\nmodel='openai/x'\nworkdir='~'\nskill='/s/b'\nsub_agents_config={max_depth=1}\n"
	b, err := configs.Load(write(t, dir, "b.toml", text))
	if err != nil {
		t.Fatal(err)
	}
	if b.Workdir != "/home/someone" || b.Skill != "/s/b" || !b.SubAgentsConf.Parallel || b.MaxDepth() != 1 {
		t.Errorf("got %+v, want depth 1, parallel, HOME as workdir, and the skill /s/b", b)
	}
	if a.Digest == b.Digest {
		t.Error("two different files have the same digest")
	}
}

// TestLoadResolvesPaths: Load resolves the paths in a file relative to the
// file's directory, and ~ to the home directory. Without a home directory ~ is
// an error.
func TestLoadResolvesPaths(t *testing.T) {
	t.Setenv("HOME", "/home/someone")
	dir := t.TempDir()
	for in, want := range map[string]string{
		"":              "",
		"notes.md":      filepath.Join(dir, "notes.md"),
		"../m/notes.md": filepath.Join(filepath.Dir(dir), "m", "notes.md"),
		"~/notes.md":    "/home/someone/notes.md",
		"~":             "/home/someone",
		"~notes.md":     filepath.Join(dir, "~notes.md"),
		"/notes.md":     "/notes.md",
	} {
		a, err := configs.Load(
			write(t, dir, "a.toml", "name='a'\nmodel='openai/x'\nworkdir='"+in+"'\n[memory]\npath='"+in+"'\n"),
		)
		if err != nil {
			t.Fatal(err)
		}
		if a.Workdir != want || a.Memory.Path != want {
			t.Errorf("%q: workdir %q, memory %q, want %q", in, a.Workdir, a.Memory.Path, want)
		}
	}
	t.Setenv("HOME", "")
	_, err := configs.Load(
		write(t, dir, "a.toml", "name='a'\nmodel='openai/x'\n[memory]\nenabled=true\npath='~/x'\n"),
	)
	if err == nil || !strings.Contains(err.Error(), "a.toml:5: memory.path: ") {
		t.Errorf("without a home directory: got %v, want an error about memory.path", err)
	}
}

// TestLoadRefuses: the error of an invalid file names the mistake and the file,
// and the line and the key of the mistake if it has them. The error of an
// unknown key suggests the most similar known one.
func TestLoadRefuses(t *testing.T) {
	const ok = "name = \"a\"\nmodel = \"openai/x\"\n"
	const malformed = ": malformed: want a lower-case letter or digit, then up to 63 of a-z 0-9 _ -"
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", `a.toml: name: is required; this file defines the agent "a"`},
		{"syntax", "name = \"a\"\nmodel = \n", "a.toml:2: expected value but found '\\n' instead"},
		{"cut escape", "name = \"a\"\nmodel = \"\\", "a.toml:2: invalid escape in string '\\\x00'"},
		{"twice", ok + "name = \"b\"\n", "a.toml:3: Key 'name' has already been defined."},
		{
			"other file", "\nname = \"b\"\nmodel = \"openai/x\"\n",
			`a.toml:2: name: is "b", but an agent is named after its file: ` +
				`rename the file to b.toml, or the agent to "a"`,
		},
		{
			"grammar", "name = \"A b\"\n",
			`a.toml:1: name: agent name "A b"` + malformed,
		},
		{"no model", "name = \"a\"", "a.toml: model: is required, as provider/model"},
		{
			"typo", ok + "system_promt = \"x\"\n",
			`a.toml:3: system_promt: unknown key; did you mean "system_prompt"?`,
		},
		{
			"near in the table", ok + "[supervision]\nhuman = true\n",
			`a.toml:4: supervision.human: unknown key; did you mean "supervision.agent"?`,
		},
		{"case", ok + "Skill = \"x\"\n", `a.toml:3: Skill: unknown key; did you mean "skill"?`},
		{
			"typo in table", ok + "\n[sub_agents_config]\nparallels = true\n",
			`a.toml:5: sub_agents_config.parallels: unknown key; did you mean "sub_agents_config.parallel"?`,
		},
		{
			"typo in header", ok + "\n[sub_agent_config]\nparallel = true\n",
			`a.toml:4: sub_agent_config: unknown key; did you mean "sub_agents_config"?`,
		},
		{
			"typo in dotted", ok + "params.max_token = 1\n",
			`a.toml:3: params.max_token: unknown key; did you mean "params.max_tokens"?`,
		},
		{
			"wrong table", ok + "max_depth = 3\n",
			`a.toml:3: max_depth: unknown key; did you mean "sub_agents_config.max_depth"?`,
		},
		{"nothing like it", ok + "colour = 3\n", `a.toml:3: colour: unknown key`},
		{"quoted", ok + "\"a b\" = 3\n", `a.toml:3: "a b": unknown key`},
		{"want string", "name = \"a\"\nmodel = 3\n", "a.toml:2: model: must be a string"},
		{"want list", ok + "files = \"*.go\"\n", "a.toml:3: files: must be a list of strings"},
		{"want strings", ok + "files = [\"*.go\", 3]\n", "a.toml:3: files: must be a list of strings"},
		{
			"want integer", ok + "[params]\nmax_tokens = 1.5\n",
			"a.toml:4: params.max_tokens: must be an integer",
		},
		{"want bool", ok + "[memory]\nenabled = \"yes\"\n", "a.toml:4: memory.enabled: must be true or false"},
		{
			"want number", ok + "[params]\ntemperature = \"hot\"\n",
			"a.toml:4: params.temperature: must be a number",
		},
		{"want table", ok + "params = 3\n", "a.toml:3: params: must be a table"},
		{"tables", ok + "[[params]]\nmax_tokens = 3\n", "a.toml:3: params: must be a table"},
		{
			"too deep", ok + "[sub_agents_config]\nmax_depth = 6\n",
			"a.toml:4: sub_agents_config.max_depth cannot exceed 5",
		},
		{
			"negative depth", ok + "[sub_agents_config]\nmax_depth = -1\n",
			"a.toml:4: sub_agents_config.max_depth must be non-negative",
		},
		{
			"negative timeout", ok + "[sub_agents_config]\ntimeout = -1\n",
			"a.toml:4: sub_agents_config.timeout must be non-negative",
		},
		{
			"long timeout", ok + "[sub_agents_config]\ntimeout = 9999999999\n",
			"a.toml:4: sub_agents_config.timeout cannot exceed 315360000",
		},
		{
			"long call of a tool", ok + "tools = [\"run_command\"]\n[tool.run_command]\ntimeout = \"2562047h\"\n",
			"a.toml:5: tool.run_command.timeout cannot exceed 87600h0m0s, got 2562047h0m0s",
		},
		{
			"sub-agent", ok + "sub_agents = [\"b\", \"\"]\n",
			`a.toml:3: sub_agents: agent name ""` + malformed,
		},
		{
			"too hot", ok + "[params]\ntemperature = 2.1\n",
			"a.toml:4: params.temperature must be between 0 and 2",
		},
		{
			"no temperature", ok + "[params]\ntemperature = nan\n",
			"a.toml:4: params.temperature must be between 0 and 2",
		},
		{
			"negative tokens", ok + "[params]\nmax_tokens = -1\n",
			"a.toml:4: params.max_tokens must be non-negative",
		},
		{"negative memory", ok + "[memory]\nlast_n = -1\n", "a.toml:4: memory.last_n must be non-negative"},
		{
			"policy with an invalid name", ok + "[policy]\nagents = [\"A b\"]\n",
			`a.toml:4: policy.agents: agent name "A b"` + malformed,
		},
		{
			"policy with an unknown tool", ok + "[policy]\ntools = [\"call\"]\n",
			"a.toml:4: policy.tools: must be some of call_agent, spawn_agent, spawn_agents, fork, send, check_mail, " +
				"wait, kill, list_directory, read_file, write_file, edit_file, search_files, run_command, url_fetch, " +
				`web_search, read_artifact, write_artifact, and "toolset/tool", got "call"`,
		},
		{
			"unknown tool", ok + "tools = [\"run_comand\"]\n",
			`a.toml:3: tools: unknown tool "run_comand" in tools config; did you mean "run_command"?`,
		},
		{
			"unknown effect", ok + "[tool.run_command]\neffect = \"twice\"\n",
			"a.toml:4: tool.run_command.effect must be one of: read, idempotent, once",
		},
		{
			"unknown decision", ok + "[tool.edit_file]\non_unknown = \"perhaps\"\n",
			"a.toml:4: tool.edit_file.on_unknown must be one of: tell, ask, again, fail",
		},
		{
			"secret for commands", ok + "[sandbox]\nenv = [\"GOFLAGS\", \"PGPASSWORD\"]\n",
			"a.toml:4: sandbox.env: PGPASSWORD may hold a secret: no command gets it",
		},
		{
			"malformed variable", ok + "[sandbox]\nenv = [\"A=b\"]\n",
			`a.toml:4: sandbox.env: must be names of variables, got "A=b"`,
		},
		{
			"writable directory outside", ok + "[sandbox]\nwrite = [\"../x\"]\n",
			`a.toml:4: sandbox.write: "../x" is not below the workdir`,
		},
		{
			"unknown style", ok + "[delegation]\nstyle = \"spwan\"\n",
			`a.toml:4: delegation.style must be one or more of call, spawn, mail, slash, got "spwan"`,
		},
		{
			"unknown style among others", ok + "[delegation]\nstyle = [\"call\", \"Spawn\"]\n",
			`a.toml:4: delegation.style must be one or more of call, spawn, mail, slash, got "Spawn"`,
		},
		{
			"another type for styles", ok + "[delegation]\nstyle = [1]\n",
			"a.toml:4: delegation.style: must be a string or a list of strings",
		},
		{
			"negative batch", ok + "[delegation]\nmax_batch = -1\n",
			"a.toml:4: delegation.max_batch must be non-negative",
		},
		{
			"too large a batch", ok + "[delegation]\nmax_batch = 1001\n",
			"a.toml:4: delegation.max_batch cannot exceed 1000",
		},
		{
			"too many turns", ok + "[delegation]\nmax_turns = 50\n",
			"a.toml:4: delegation.max_turns cannot exceed 49",
		},
		{
			"unknown mode", ok + "[supervision]\nmode = \"strict\"\n",
			"a.toml:4: supervision.mode must be one of: unsupervised, supervised, human",
		},
		{
			"no supervisor", ok + "[supervision]\nmode = \"human\"\n",
			"a.toml:4: supervision.mode: supervision.agent is required: the agent that reviews this one's turns",
		},
		{
			"supervised by itself", ok + "[supervision]\nmode = \"supervised\"\nagent = \"a\"\n",
			"a.toml:5: supervision.agent: an agent cannot supervise itself",
		},
		{
			"supervised by an invalid name", ok + "[supervision]\nmode = \"supervised\"\nagent = \"A b\"\n",
			`a.toml:5: supervision.agent: agent name "A b"` + malformed,
		},
		{
			"supervisor without a mode", ok + "[supervision]\nagent = \"watcher\"\n",
			`a.toml:4: supervision.agent: has no effect without mode = "supervised" or mode = "human"`,
		},
		{
			"negative supervision timeout", ok + "[supervision]\ntimeout = \"-1s\"\n",
			"a.toml:4: supervision.timeout must be non-negative",
		},
		{
			"too long a supervision timeout", ok + "[supervision]\ntimeout = \"721h\"\n",
			"a.toml:4: supervision.timeout cannot exceed 30 days",
		},
		{
			"unknown decision", ok + "[supervision]\non_timeout = \"maybe\"\n",
			"a.toml:4: supervision.on_timeout must be one of: deny, approve",
		},
		{
			"approver without a kind", ok + "[approve]\nby = [\"user:alice\", \"operator\"]\n",
			`a.toml:4: approve.by: must be some of "user:NAME" and "role:NAME", got "operator"`,
		},
		{
			"approver that is a pattern", ok + "[approve]\nby = [\"role:*\"]\n",
			`a.toml:4: approve.by: must be some of "user:NAME" and "role:NAME", got "role:*"`,
		},
		{
			"negative attempts", ok + "[retry]\nmax_attempts = -1\n",
			"a.toml:4: retry.max_attempts must be non-negative",
		},
		{
			"too many attempts", ok + "[retry]\nmax_attempts = 21\n",
			"a.toml:4: retry.max_attempts cannot exceed 20",
		},
		{
			"unknown backoff", ok + "[retry]\nbackoff = \"never\"\n",
			"a.toml:4: retry.backoff must be one of: exponential, linear, fixed",
		},
		{"want string for backoff", ok + "[retry]\nbackoff = 2\n", "a.toml:4: retry.backoff: must be a string"},
		{"negative pause", ok + "[retry]\ninitial = \"-1s\"\n", "a.toml:4: retry.initial must be non-negative"},
		{"negative longest pause", ok + "[retry]\nmax = -0.5\n", "a.toml:4: retry.max must be non-negative"},
		{
			"no duration", ok + "[retry]\ninitial = \"soon\"\n",
			`a.toml:4: retry.initial: must be a duration such as "500ms", or a number of seconds`,
		},
		{
			"another type for a duration", ok + "[retry]\nmax = true\n",
			`a.toml:4: retry.max: must be a duration such as "500ms", or a number of seconds`,
		},
		{
			"infinite", ok + "[retry]\nmax = inf\n",
			`a.toml:4: retry.max: must be a duration such as "500ms", or a number of seconds`,
		},
		{"too long", ok + "[retry]\nmax = \"61m\"\n", "a.toml:4: retry.max cannot exceed one hour"},
		{
			"shrinking", ok + "[retry]\ninitial = 3\nmax = \"2s\"\n",
			"a.toml:5: retry.max cannot be less than retry.initial, which is 3s",
		},
		{
			"shrinking from the default", ok + "[retry]\nmax = \"100ms\"\n",
			"a.toml:4: retry.max cannot be less than retry.initial, which is 500ms",
		},
		{
			"larger than the default", ok + "[retry]\ninitial = 31\n",
			"a.toml:4: retry.initial cannot exceed retry.max, which is 30s",
		},
		{"too large", "# " + strings.Repeat("x", 1<<20), "a.toml: is larger than 1 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := write(t, dir, "a.toml", tt.text)
			_, err := configs.Load(file)
			e, ok := errors.AsType[*configs.Error](err)
			if !ok {
				t.Fatalf("got %T: %v, want a *configs.Error", err, err)
			}
			if got := strings.TrimPrefix(e.Error(), dir+"/"); got != tt.want || e.File != file {
				t.Errorf("got  %s\nwant %s\nof file %s, want %s", got, tt.want, e.File, file)
			}
		})
	}
}

// TestLoadReadsOnlyFiles: Load refuses a missing file, a directory and a pipe.
// It does not wait for a writer of the pipe.
func TestLoadReadsOnlyFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := configs.Load(filepath.Join(dir, "a.toml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: got %v, want fs.ErrNotExist", err)
	}
	if _, err := configs.Load(dir); err == nil {
		t.Error("a directory: got no error, want one")
	}
	fifo := filepath.Join(dir, "b.toml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := configs.Load(fifo); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: got %v, want not a regular file", err)
	}
}
