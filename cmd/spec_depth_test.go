package cmd_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/provider"
)

// chain adds seven agents, a0 to a6. Each calls the next if it is offered the
// tool. text returns further lines of an agent's file.
func (p *scenario) chain(text func(depth int) string) {
	p.t.Helper()
	for i := range 7 {
		p.agent(fmt.Sprintf("a%d", i), subAgents(fmt.Sprintf("a%d", i+1))+text(i), func(a *modelRequest) reply {
			if a.turn == 1 && a.offered {
				return reply{calls: []provider.ToolCall{call(fmt.Sprintf("a%d", i+1), "go on")}}
			}
			return reply{text: fmt.Sprintf("a%d was the last", i)}
		})
	}
}

// toolsByDepth lists the agents in the order of the requests to their models,
// and whether each was offered the tool.
func (p *scenario) toolsByDepth() []string {
	var out []string
	for _, a := range p.requests("") {
		if a.turn == 1 && a.offered {
			out = append(out, a.agent+" calls")
		} else if a.turn == 1 {
			out = append(out, a.agent+" does not")
		}
	}
	return out
}

// toolsUpTo returns the expected toolsByDepth for a depth limit.
func toolsUpTo(limit int) []string {
	var out []string
	for i := range limit {
		out = append(out, fmt.Sprintf("a%d calls", i))
	}
	return append(out, fmt.Sprintf("a%d does not", limit))
}

// checkDepth runs a chain, which must end at the depth limit.
func (p *scenario) checkDepth(limit int, args ...string) {
	p.t.Helper()
	p.wantAnswer("a0", append(args, "go")...)
	if diff := cmp.Diff(toolsUpTo(limit), p.toolsByDepth()); diff != "" {
		p.t.Errorf("agents and their offers of tools, by depth (-want +got):\n%s", diff)
	}
}

// TestRun_Depth: requirements 9.3 and 10.4. The agents at the depth limit are
// offered no tool.
func TestRun_Depth(t *testing.T) {
	t.Parallel()
	every := func(lines ...string) func(int) string { return func(int) string { return config(lines...) } }
	root := func(lines ...string) func(int) string {
		return func(depth int) string {
			if depth == 0 {
				return config(lines...)
			}
			return ""
		}
	}
	nothing := func(int) string { return "" }
	for _, test := range []struct {
		name  string
		text  func(int) string
		limit int
	}{
		{"5.2 row 5 max_depth 0", every("max_depth = 0"), 3},
		{"5.2 row 6 max_depth 1", root("max_depth = 1"), 1},
		{"5.2 row 7 max_depth 5", every("max_depth = 5"), 5},
		{"9.3 max_depth 2 of the root", root("max_depth = 2"), 2},
		{"9.3 max_depth 4", every("max_depth = 4"), 4},
		{"9.3 not set", nothing, 3},
		// Each agent has a limit of its own within the limits of its
		// ancestors. The specification has a limit at the root only.
		{"10.4 max_depth 5 of the root alone", root("max_depth = 5"), 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newScenario(t)
			p.chain(test.text)
			p.checkDepth(test.limit)
		})
	}
}

// TestTable_5_4: the table of depths and tools, in two chains with the limits 3
// and 5.
func TestTable_5_4(t *testing.T) {
	three, five := newScenario(t), newSerialScenario(t)
	three.chain(func(int) string { return "" })
	three.wantAnswer("a0", "go")
	five.chain(func(int) string { return config("max_depth = 5") })
	five.wantAnswer("a0", "go")
	for _, test := range []struct {
		name    string
		p       *scenario
		agent   string
		offered bool
	}{
		{"5.4 row 1 depth 0 of 3", three, "a0", true},
		{"5.4 row 2 depth 2 of 3", three, "a2", true},
		{"5.4 row 3 depth 3 of 3", three, "a3", false},
		{"5.4 row 4 depth 4 of 5", five, "a4", true},
		{"5.4 row 5 depth 5 of 5", five, "a5", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if a := test.p.firstRequest(test.agent); a.offered != test.offered {
				t.Errorf("%s was offered %+v, want tools: %t", a.agent, a.request.Tools, test.offered)
			}
		})
	}
	t.Run("5.4 row 6 its sub_agents do not matter", func(t *testing.T) {
		three.wantRequests("a3", 1)
		three.wantRequests("a4", 0)
		if got := three.nthRequest("a2", 2).results()[0].Content; got != "a3 was the last" {
			t.Errorf("got the answer %q of a3, want %q", got, "a3 was the last")
		}
	})
}

// TestRun_DepthIsNotExposed: requirement 9.4. The depth is neither in the
// output nor a flag.
func TestRun_DepthIsNotExposed(t *testing.T) {
	p := newScenario(t)
	p.agent("parent", subAgents("helper")+config("max_depth = 1"), delegates(call("helper", "x")))
	p.agent("helper", "", answers("done"))
	if got := p.wantAnswer("parent", "--json", "go"); strings.Contains(got, "depth") ||
		!strings.Contains(got, `"content":"done"`) {
		t.Errorf("got %s, want the answer and no depth", got)
	}
	if got := p.axe("run", "--help").stdout; strings.Contains(got, "depth") {
		t.Errorf("--help has the word depth:\n%s", got)
	}
	p.wantFailure(2, "unknown flag: --depth (see axe run --help)", "--depth", "1")
}
