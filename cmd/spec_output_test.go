package cmd_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The output of axe run besides the answer: requirements 5.7, 7.5 and 8.5 to
// 8.8.

// TestRun_DryRun_ShowsSubAgents: requirement 8.5. A dry run prints the names of
// the sub-agents and their settings, and makes no request.
func TestRun_DryRun_ShowsSubAgents(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, text, want string }{
		{
			"all set", config("max_depth = 2", "parallel = false", "timeout = 30"),
			"Max Depth: 2\nParallel:  no\nTimeout:   30s\n",
		},
		{"5.2 row 2 the defaults", "", "Max Depth: 3\nParallel:  yes\nTimeout:   0s\n"},
		{
			"5.2 row 5 max_depth 0", config("max_depth = 0", "parallel = true"),
			"Max Depth: 3\nParallel:  yes\nTimeout:   0s\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newScenario(t)
			p.agent("parent", subAgents("helper", "nobody", "third")+test.text, nil)
			_, section, _ := strings.Cut(p.wantAnswer("parent", "--dry-run", "go")+"\n", "--- Sub-Agents ---\n")
			if diff := cmp.Diff("helper, nobody, third\n"+test.want, section); diff != "" {
				t.Errorf("section of sub-agents (-want +got):\n%s", diff)
			}
			p.wantRequests("", 0)
		})
	}
}

func TestRun_DryRun_NoSubAgents(t *testing.T) {
	p := newScenario(t)
	p.agent("single", config("max_depth = 2", "timeout = 30"), nil)
	_, section, _ := strings.Cut(p.wantAnswer("single", "--dry-run", "go"), "--- Sub-Agents ---\n")
	if section != "(none)" {
		t.Errorf("got the section of sub-agents %q, want %q", section, "(none)")
	}
	p.wantRequests("", 0)
}

// jsonOutput is the part of --json that the specification defines.
type jsonOutput struct {
	Model        string `json:"model"`
	Content      string `json:"content"`
	InputTokens  int    `json:"input_tokens"`
	OutputTokens int    `json:"output_tokens"`
	StopReason   string `json:"stop_reason"`
	DurationMS   *int   `json:"duration_ms"`
	ToolCalls    *int   `json:"tool_calls"`
}

// runJSON runs an agent with --json, and checks and removes the duration.
func (p *scenario) runJSON(agent string) jsonOutput {
	p.t.Helper()
	var got jsonOutput
	if err := json.Unmarshal([]byte(p.wantAnswer(agent, "--json", "go")), &got); err != nil {
		p.t.Fatal(err)
	}
	if got.DurationMS == nil || *got.DurationMS < 0 {
		p.t.Error("duration_ms is missing or negative")
	}
	got.DurationMS = nil
	return got
}

// TestRun_JSON_IncludesToolCalls: requirements 8.6 and 8.8. The numbers are the
// agent's own: four tool calls in two of three turns, and the tokens of these
// turns. The numbers of its sub-agents are not included.
func TestRun_JSON_IncludesToolCalls(t *testing.T) {
	p := newScenario(t)
	p.agent(
		"parent",
		subAgents("helper", "bad"),
		inOrder(
			calls(call("helper", "1"), call("helper", "2"), call("bad", "x")),
			calls(call("", "")),
			answers("done"),
		),
	)
	p.agent("helper", "", answers("fine"))
	p.agent("bad", "", refuses(http.StatusInternalServerError, "oh"))
	got := p.runJSON("parent")
	if diff := cmp.Diff(jsonOutput{
		Model: "openai/parent", Content: "done", StopReason: "stop", ToolCalls: new(4),
		InputTokens: 2*callsIn + textIn, OutputTokens: 2*callsOut + textOut,
	}, got); diff != "" {
		t.Errorf("output of --json (-want +got):\n%s", diff)
	}
}

// TestRun_JSON_Subtree: beside the agent's own numbers axe prints the numbers
// of the whole tree, which the specification does not have.
func TestRun_JSON_Subtree(t *testing.T) {
	p := newScenario(t)
	p.agent("parent", subAgents("middle"), delegates(call("middle", "1"), call("middle", "2")))
	p.agent("middle", subAgents("leaf"), delegates(call("leaf", "x")))
	p.agent("leaf", "", answers("fine"))
	var got struct {
		InputTokens int            `json:"input_tokens"`
		ToolCalls   int            `json:"tool_calls"`
		Subtree     map[string]int `json:"subtree"`
	}
	if err := json.Unmarshal([]byte(p.wantAnswer("parent", "--json", "go")), &got); err != nil {
		t.Fatal(err)
	}
	if _, timed := got.Subtree["model_ms"]; !timed {
		t.Error("the subtree has no model_ms")
	}
	// The time differs from run to run.
	delete(got.Subtree, "model_ms")
	want := map[string]int{
		"input_tokens": 3*(callsIn+textIn) + 2*textIn, "output_tokens": 3*(callsOut+textOut) + 2*textOut,
		"runs": 5, "model_calls": 8, "tool_calls": 4,
	}
	if diff := cmp.Diff(want, got.Subtree); diff != "" || got.InputTokens != callsIn+textIn || got.ToolCalls != 2 {
		t.Errorf("got %d input tokens and %d tool calls, want %d and 2; subtree (-want +got):\n%s",
			got.InputTokens, got.ToolCalls, callsIn+textIn, diff)
	}
}

// TestRun_JSON_NoToolCalls: the model calls no tool. The field tool_calls is
// present and 0, for agents with and without sub-agents.
func TestRun_JSON_NoToolCalls(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"with sub-agents": subAgents("helper"), "without": ""} {
		t.Run(name, func(t *testing.T) {
			p := newScenario(t)
			p.agent("parent", "model = \"anthropic/parent\"\n"+text, answers("done"))
			want := jsonOutput{
				Model: "anthropic/parent", Content: "done", StopReason: "end_turn", ToolCalls: new(0),
				InputTokens: textIn, OutputTokens: textOut,
			}
			if diff := cmp.Diff(want, p.runJSON("parent")); diff != "" {
				t.Errorf("output of --json (-want +got):\n%s", diff)
			}
		})
	}
}

var (
	took = regexp.MustCompile(`completed in \d+ms`)
	// suffix is the end of a line with the path of the sub-agent. The
	// specification does not have it.
	suffix = regexp.MustCompile(` \[r-.*\]`)
)

// progressLines returns the lines about turns and sub-agents on stderr, without
// times and paths.
func progressLines(stderr string) string {
	var lines []string
	for line := range strings.Lines(took.ReplaceAllString(stderr, "completed in <N>ms")) {
		if strings.HasPrefix(line, "[") {
			lines = append(lines, suffix.ReplaceAllString(line, ""))
		}
	}
	return strings.Join(lines, "")
}

// wantProgress runs an agent and expects these lines on stderr.
func (p *scenario) wantProgress(want, agent string, args ...string) programEnd {
	p.t.Helper()
	end := p.run(agent, append(args, "go")...)
	if diff := cmp.Diff(want, progressLines(end.stderr)); diff != "" {
		p.t.Errorf("on stderr (-want +got):\n%s", diff)
	}
	return end
}

// TestRun_Verbose_ConversationTurns: requirements 7.5 and 8.7, line by line,
// and the sums of 8.8. The calls are sequential, so that there is one order.
func TestRun_Verbose_ConversationTurns(t *testing.T) {
	task := strings.Repeat("é", 79) + "ab\nc"
	p := newScenario(t)
	p.agent("parent", subAgents("helper", "bad")+config("parallel = false"), inOrder(
		calls(
			call("helper", task),
			call("bad", "b"),
			call("ghost", "c"),
		),
		calls(call("helper", "again")),
		answers("done"),
	))
	p.agent("helper", "", answers("Grüße"))
	p.agent("bad", "", refuses(http.StatusInternalServerError, "oh"))
	const failure = "server (HTTP 500): oh"
	for _, flag := range []string{"-v", "--verbose"} {
		end := p.wantProgress(`[turn 1] Sending request (1 messages, 0 tool calls pending)
[turn 1] Received response: tool_calls (3 tool calls)
[sub-agent] "ghost" failed: call_agent error: agent "ghost" is not in this agent's sub_agents list
[sub-agent] Calling "helper" (depth 1) with task: `+strings.Repeat("é", 79)+`a...
[sub-agent] "helper" completed in <N>ms (5 chars returned)
[sub-agent] Calling "bad" (depth 1) with task: b...
[sub-agent] "bad" failed: `+failure+`
[turn 2] Sending request (3 messages, 3 tool calls pending)
[turn 2] Received response: tool_calls (1 tool calls)
[sub-agent] Calling "helper" (depth 1) with task: again...
[sub-agent] "helper" completed in <N>ms (5 chars returned)
[turn 3] Sending request (5 messages, 1 tool calls pending)
[turn 3] Received response: stop (0 tool calls)
`, "parent", flag)
		if end.code != 0 || end.stdout != "done\n" {
			t.Errorf("got exit code %d, stdout %q; want 0, %q", end.code, end.stdout, "done\n")
		}
		if want := "\nTokens:   220 input, 23 output (cumulative)\n"; !strings.Contains(end.stderr, want) {
			t.Errorf("8.8: got stderr\n%s\nwant in it %q", end.stderr, want)
		}
	}
	if end := p.run("parent", "go"); end.stderr != "" {
		t.Errorf("got %q on stderr without --verbose, want nothing", end.stderr)
	}
}

// TestRun_Verbose_Depth: axe run -v prints the calls of a sub-agent too, with
// their depth.
func TestRun_Verbose_Depth(t *testing.T) {
	p := newScenario(t)
	p.agent("parent", "model = \"anthropic/parent\"\n"+subAgents("middle"), delegates(call("middle", "one")))
	p.agent("middle", "model = \"ollama/middle\"\n"+subAgents("leaf"), delegates(call("leaf", "two")))
	p.agent("leaf", "", answers(""))
	p.wantProgress(`[turn 1] Sending request (1 messages, 0 tool calls pending)
[turn 1] Received response: tool_use (1 tool calls)
[sub-agent] Calling "middle" (depth 1) with task: one...
[sub-agent] "middle" turn 1 calls leaf
[sub-agent] Calling "leaf" (depth 2) with task: two...
[sub-agent] "leaf" completed in <N>ms (0 chars returned)
[sub-agent] "middle" completed in <N>ms (0 chars returned)
[turn 2] Sending request (3 messages, 1 tool calls pending)
[turn 2] Received response: end_turn (0 tool calls)
`, "parent", "-v")
}

// TestRun_Verbose_SingleShot: an agent without sub-agents has the lines of one
// turn.
func TestRun_Verbose_SingleShot(t *testing.T) {
	p := newScenario(t)
	p.agent("single", "", answers("shot"))
	p.wantProgress(
		"[turn 1] Sending request (1 messages, 0 tool calls pending)\n"+
			"[turn 1] Received response: stop (0 tool calls)\n",
		"single",
		"-v",
	)
}

// TestRun_Verbose_Timeout: a call that times out has a final line too.
func TestRun_Verbose_Timeout(t *testing.T) {
	p := newScenario(t)
	p.agent("parent", subAgents("slow")+config("timeout = 1"), delegates(call("slow", "x")))
	p.agent("slow", "", stalls)
	p.wantProgress(`[turn 1] Sending request (1 messages, 0 tool calls pending)
[turn 1] Received response: tool_calls (1 tool calls)
[sub-agent] Calling "slow" (depth 1) with task: x...
[sub-agent] "slow" failed: timeout after 1s
[turn 2] Sending request (3 messages, 1 tool calls pending)
[turn 2] Received response: stop (0 tool calls)
`, "parent", "-v")
}

// TestSpec_AgentsShow: requirement 5.7. The command axe agents show prints the
// settings of sub-agents for an agent that has some, and for no other.
// cmd/axe/describe_test.go has more cases.
func TestSpec_AgentsShow(t *testing.T) {
	p := newScenario(t)
	p.agent("parent", subAgents("helper")+config("max_depth = 4", "timeout = 9"), nil)
	p.agent("single", config("max_depth = 4"), nil)
	show := func(agent string) string { return p.axe("agents", "show", agent, "--agents", p.path("agents")).stdout }
	const want = "Sub-Agents:     helper\nMax Depth:      4\nParallel:       yes\nTimeout:        9s\n"
	if got := show("parent"); !strings.Contains(got, want) {
		t.Errorf("got %s, want in it\n%s", got, want)
	}
	if got := show("single"); !strings.Contains(got, "single") || strings.Contains(got, "Max Depth") {
		t.Errorf("got %s, want no settings of sub-agents", got)
	}
}
