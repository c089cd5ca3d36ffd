package cmd_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
)

// Errors: sections 3.13, 5.2, 5.3 and 5.7, and the exit codes of section 8.

// TestTable_5_2: the table of an agent's settings of sub-agents.
// TestRun_NoSubAgents_NoTools has row 1, TestRun_Depth the rows 5 to 7, and
// TestRun_Timeout row 10.
func TestTable_5_2(t *testing.T) {
	t.Parallel()
	t.Run("5.2 row 2 names without a config", func(t *testing.T) {
		p := newScenario(t)
		p.agent("parent", subAgents("helper"), delegates(call("helper", "x")))
		p.agent("helper", "", answers("done"))
		if got := p.wantAnswer("parent", "--dry-run", "go"); !strings.Contains(
			got,
			"\nMax Depth: 3\nParallel:  yes\nTimeout:   0s",
		) {
			t.Errorf("got %s, want the default settings of sub-agents", got)
		}
		if got := p.wantAnswer("parent", "go"); got != "done" {
			t.Errorf("got the answer %q, want %q", got, "done")
		}
	})
	t.Run("5.2 row 3 duplicate names", func(t *testing.T) {
		p := newScenario(t)
		p.agent("parent", subAgents("helper", "helper"), delegates(call("helper", "x"), call("helper", "y")))
		p.agent("helper", "", answers("done"))
		if got := p.wantAnswer("parent", "go"); got != "done | done" {
			t.Errorf("got the answer %q, want %q", got, "done | done")
		}
		if got := p.firstRequest("parent").request.Tools[0].Description; !strings.HasSuffix(
			got,
			"Available agents: helper, helper",
		) {
			t.Errorf("the tool is described as %q, want both names at the end", got)
		}
	})
	t.Run("5.2 row 4 an agent without a file", func(t *testing.T) {
		p := newScenario(t)
		p.agent("parent", subAgents("helper", "nobody"), delegates(call("nobody", "x"), call("helper", "x")))
		p.agent("helper", "", answers("done"))
		// The specification has no check of the names. axe warns, and
		// the run is the same.
		if end := p.run("parent", "--dry-run", "go"); end.code != 0 ||
			!strings.HasSuffix(end.stderr, "parent.toml: sub_agents: no agent \"nobody\"\n") {
			t.Errorf("got exit code %d, want 0; got stderr %q", end.code, end.stderr)
		}
		want := `call_agent error: failed to load agent "nobody": agent config not found: nobody | done`
		if got := p.wantAnswer("parent", "go"); got != want {
			t.Errorf("got the answer %q, want %q", got, want)
		}
	})
	t.Run("5.2 row 4 a name that no agent can have", func(t *testing.T) {
		// The name cannot be a token of a subject, so the file is
		// invalid.
		p := newScenario(t)
		p.agent("parent", subAgents("Not An Agent"), nil)
		if end := p.run("parent", "go"); end.code != 2 ||
			!strings.Contains(end.stderr, `parent.toml:4: sub_agents: agent name "Not An Agent": malformed`) {
			t.Errorf("got exit code %d, want 2; got stderr %q", end.code, end.stderr)
		}
		p.wantRequests("", 0)
	})
	for name, test := range map[string][2]string{
		"5.2 row 8 max_depth 6":   {"max_depth = 6", "sub_agents_config.max_depth cannot exceed 5"},
		"5.2 row 9 max_depth -1":  {"max_depth = -1", "sub_agents_config.max_depth must be non-negative"},
		"5.2 row 11 timeout -1":   {"timeout = -1", "sub_agents_config.timeout must be non-negative"},
		"5.2 row 11 without subs": {"timeout = -1\n#", "sub_agents_config.timeout must be non-negative"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newScenario(t)
			p.agent("parent", subAgents("helper")+config(test[0]), nil)
			end := p.run("parent", "go")
			if end.code != 2 || !strings.HasSuffix(end.stderr, ": "+test[1]+"\n") ||
				!strings.Contains(end.stderr, "parent.toml:") {
				t.Errorf("got exit code %d, want 2; got stderr %q", end.code, end.stderr)
			}
			p.wantRequests("", 0)
		})
	}
}

// TestTable_5_3: the table of a call's arguments. A model makes all the calls
// in one turn.
func TestTable_5_3(t *testing.T) {
	p := newScenario(t)
	args := func(pairs ...string) provider.ToolCall {
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return toolCall("call_agent", m)
	}
	p.caller(
		subAgents("helper"),
		args("agent", "stranger", "task", "x"),
		args("agent", "", "task", "x"),
		args("agent", "helper", "task", ""),
		args("agent", "helper", "task", "t"),
		args("agent", "helper", "task", "t", "context", ""),
	)
	p.agent("helper", "", func(a *modelRequest) reply { return reply{text: "I was asked: " + a.user()} })
	got := p.results()
	for i, test := range []struct {
		name, want string
		isError    bool
	}{
		{
			"5.3 row 1 not in the list", `call_agent error: agent "stranger" is not in this agent's sub_agents list`,
			true,
		},
		{"5.3 row 2 no name", `call_agent error: "agent" argument is required`, true},
		{"5.3 row 3 no task", `call_agent error: "task" argument is required`, true},
		{"5.3 row 4 no context", "I was asked: Task: t", false},
		{"5.3 row 5 an empty context", "I was asked: Task: t", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got[i].Content != test.want || got[i].IsError != test.isError {
				t.Errorf("got %+v, want %q, error %t", got[i], test.want, test.isError)
			}
		})
	}
	p.wantRequests("helper", 2)
}

// troubles are the sub-agents of TestTable_5_7: any failure of a sub-agent is a
// result for its parent's model (requirements 13.1 to 13.4).
var troubles = []struct {
	name, agent string
	// file has lines of the agent's file; "": there is no file.
	file string
	// model is the agent's model; nil: it is not asked.
	model behavior
	want  string
}{
	{
		"5.7 row 1, 13.2 not found", "ghost", "", nil,
		`call_agent error: failed to load agent "ghost": agent config not found: ghost`,
	},
	{
		"13.2 bad TOML", "garbled", "name = \"garbled\"\nmodel =\nsystem_prompt = \"x\"\n", nil,
		`call_agent error: failed to load agent "garbled": garbled.toml:2: expected value but found '\n' instead`,
	},
	{
		"13.2 no model", "nomodel", "model = \"\"\n", nil,
		`call_agent error: failed to load agent "nomodel": nomodel.toml:3: model: is required, as provider/model`,
	},
	{
		"13.2 no name", "noname", "model = \"openai/noname\"\nname = \"\"\n", nil,
		`call_agent error: failed to load agent "noname": ` +
			`noname.toml:3: name: is required; this file defines the agent "noname"`,
	},
	{
		"5.7 row 2, 13.2 invalid model format", "format", "model = \"gpt\"\n", nil,
		`call_agent error: invalid model for agent "format": invalid model format "gpt": expected provider/model-name`,
	},
	{
		"5.7 row 3, 13.2 no API key", "keyless", "model = \"anthropic/keyless\"\n", nil,
		failed(
			"keyless",
			"auth: API key for provider \"anthropic\" is not configured (set ANTHROPIC_API_KEY or add to config.toml)",
		),
	},
	{
		"13.2 no provider", "acme", "model = \"acme/x\"\n", nil,
		failed(
			"acme",
			`unsupported provider "acme": supported providers are anthropic, openai, ollama (and script, offline)`,
		),
	},
	{
		"13.2 no skill", "noskill", "skill = \"nowhere.md\"\n", nil,
		failed("noskill", `agent "noskill": skill: agents/nowhere.md: no such file or directory`),
	},
	{
		"5.7 row 4, 13.2 API error: auth", "denied", " ", refuses(http.StatusUnauthorized, "who are you?"),
		failed("denied", "auth (HTTP 401): who are you?"),
	},
	{
		"5.7 row 5, 13.2 API error: rate limit", "busy", " ", refuses(http.StatusTooManyRequests, "slow down"),
		failed("busy", "rate_limit (HTTP 429): slow down"),
	},
	{
		"13.2 API error: server", "broken", " ", refuses(http.StatusInternalServerError, "oh"),
		failed("broken", "server (HTTP 500): oh"),
	},
	{
		"5.7 row 6, 13.2 API error: timeout", "slow", " ", stalls,
		failed("slow", "timeout after 2s"),
	},
	{
		"13.2 the end of a sub-agent's own time", "waits", "sub_agents = [\"sleeps\"]\n", delegates(call("sleeps",
			"x")),
		failed("waits", "timeout after 2s"),
	},
	{"a sub-agent that works", "works", " ", answers("fine"), "fine"},
}

// TestTable_5_7: one parent calls all agents of troubles in one turn. It gets a
// result for each and answers. Row 7 takes longer and has its own test. A
// result of 7.3 begins with "call_agent error". All others have the form of
// 13.3.
func TestTable_5_7(t *testing.T) {
	p := newScenario(t)
	delete(p.env, "ANTHROPIC_API_KEY")
	var names []string
	var tcs []provider.ToolCall
	for _, x := range troubles {
		names, tcs = append(names, x.agent), append(tcs, call(x.agent, "x"))
		if x.file != "" {
			p.agent(x.agent, x.file, x.model)
		}
	}
	p.write("agents/garbled.toml", "name = \"garbled\"\nmodel =\n")
	p.agent("sleeps", "", stalls)
	p.agent("parent", subAgents(names...)+config("timeout = 2"), inOrder(calls(tcs...), answers("I have seen it all")))
	if got := p.wantAnswer("parent", "go"); got != "I have seen it all" {
		t.Errorf("got the answer %q, want %q", got, "I have seen it all")
	}
	got := p.nthRequest("parent", 2).results()
	for i, x := range troubles {
		t.Run(x.name, func(t *testing.T) {
			if diff := cmp.Diff(x.want, strings.ReplaceAll(got[i].Content, p.dir+"/", "")); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
	p.wantAborted(p.firstRequest("slow"))
	p.wantAborted(p.firstRequest("sleeps"))
	t.Run("13.4 nothing is tried again", func(t *testing.T) {
		for agent, want := range map[string]int{
			"denied": 1, "busy": 1, "broken": 1, "slow": 1, "waits": 1,
			"sleeps": 1, "parent": 2,
		} {
			if got := len(p.requests(agent)); got != want {
				t.Errorf("%s was asked %d times, want %d", agent, got, want)
			}
		}
	})
}

// TestTable_5_7_Row7: the limit of 50 turns in 8.3 applies to sub-agents too.
func TestTable_5_7_Row7(t *testing.T) {
	p := newScenario(t)
	p.caller(subAgents("loops"), call("loops", "x"))
	p.agent("loops", subAgents("parent"), calls(call("parent", "")))
	p.wantResult(failed("loops", "agent exceeded maximum conversation turns (50)"), true)
	p.wantRequests("loops", 50)
}

// TestSpec_ExitCodes: section 8, the exit code and the message of each way to
// end. A failed sub-agent does not change how its parent ends: see
// TestTable_5_7.
func TestSpec_ExitCodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		code  int
		file  string // lines of the agent's file
		model behavior
		args  []string
		line  string // the end of stderr's first line
	}{
		{"0 an answer", 0, "", answers("done"), nil, ""},
		{"0 --dry-run", 0, "", nil, []string{"--dry-run"}, ""},
		{
			"1 invalid model format", 1, `model = "gpt"`, nil, nil,
			`invalid model format "gpt": expected provider/model-name`,
		},
		{"1 unsupported provider", 1, `model = "acme/x"`, nil, nil, "(and script, offline)"},
		{"1 bad request", 1, "", refuses(http.StatusBadRequest, "too long"), nil, "bad_request (HTTP 400): too long"},
		{
			"1 not found", 1, "", refuses(http.StatusNotFound, "no such model"), nil,
			"bad_request (HTTP 404): no such model",
		},
		{
			"1 50 turns", 1, subAgents("helper"), calls(call("helper", "")), nil,
			"agent exceeded maximum conversation turns (50)",
		},
		{
			"2 invalid TOML", 2, "model = \nname = \"agent\"\nsystem_prompt = \"\"", nil, nil,
			`:1: expected value but found '\n' instead; a line of TOML is key = value or a [table]; ` +
				`text stands in "", and text of several lines in """ """`,
		},
		{"2 no name", 2, `name = ""`, nil, nil, `name: is required; this file defines the agent "agent"`},
		{"2 no model", 2, `model = ""`, nil, nil, "model: is required, as provider/model"},
		{"2 skill", 2, `skill = "nowhere.md"`, nil, nil, "nowhere.md: no such file or directory"},
		{"2 glob", 2, `files = ["[a"]`, nil, nil, "syntax error in pattern"},
		{"2 sub_agents_config", 2, config("max_depth = 6"), nil, nil, "sub_agents_config.max_depth cannot exceed 5"},
		{"3 auth", 3, "", refuses(http.StatusForbidden, "no"), nil, "auth (HTTP 403): no"},
		{"3 rate limit", 3, "", refuses(http.StatusTooManyRequests, "no"), nil, "rate_limit (HTTP 429): no"},
		{"3 timeout", 3, "", stalls, []string{"--timeout", "1"}, "timeout after 1s"},
		{"3 server", 3, "", refuses(http.StatusBadGateway, "no"), nil, "server (HTTP 502): no"},
		{"3 overloaded", 3, "", refuses(http.StatusServiceUnavailable, "no"), nil, "overloaded (HTTP 503): no"},
		{"3 no key", 3, `model = "anthropic/agent"`, nil, nil, "(set ANTHROPIC_API_KEY or add to config.toml)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newScenario(t)
			delete(p.env, "ANTHROPIC_API_KEY")
			p.agent("agent", test.file, test.model)
			p.agent("helper", "", nil)
			end := p.run("agent", append(test.args, "go")...)
			said, hinted := errorLine(end.stderr)
			if end.code != test.code || test.code != 0 && !strings.HasSuffix(said, test.line) ||
				!hinted {
				t.Errorf("exit code %d, want %d; stderr %q, want %q", end.code, test.code, end.stderr, test.line)
			}
		})
	}
	t.Run("2 agent not found", func(t *testing.T) {
		p := newScenario(t)
		if end := p.run("nobody", "go"); end.code != 2 ||
			!strings.HasPrefix(end.stderr, "axe: agent config not found: nobody") {
			t.Errorf("got exit code %d, want 2; got stderr %q", end.code, end.stderr)
		}
	})
	t.Run("2 config.toml", func(t *testing.T) {
		p := newScenario(t)
		p.agent("agent", "", answers("no"))
		p.write("config/axe/config.toml", "[providers.openai]\napi_key =\n")
		if end := p.run("agent", "go"); end.code != 2 || !strings.Contains(end.stderr, "config.toml:2: ") {
			t.Errorf("got exit code %d, want 2; got stderr %q", end.code, end.stderr)
		}
	})
	t.Run("0 commands", func(t *testing.T) {
		p := newScenario(t)
		p.agent("agent", "", nil)
		for _, args := range [][]string{
			{"version"},
			{"config", "path"},
			{"agents", "list", "--agents", "agents"},
			{"agents", "show", "agent", "--agents", "agents"},
		} {
			if end := p.axe(args...); end.code != 0 || end.stdout == "" || end.stderr != "" {
				t.Errorf("%v: got exit code %d, stdout %q, stderr %q; want 0, some stdout and no stderr",
					args, end.code, end.stdout, end.stderr)
			}
		}
	})
}
