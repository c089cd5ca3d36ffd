package tool_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/axebus/axe/internal/tool"
)

// TestOfferDescribes: the definitions of call_agent and spawn_agent describe
// the agents that have a description, each on one line. Without descriptions
// they list the names alone.
func TestOfferDescribes(t *testing.T) {
	names := []string{tool.CallAgentToolName, tool.SpawnAgentToolName}
	offer := func(callees ...tool.Callee) (call, spawn string) {
		tools := tool.Offer(names, callees, 5)
		return tools[0].Description, tools[1].Parameters["agent"].Description
	}
	call, spawn := offer(tool.Callee{Name: "tech"}, tool.Callee{Name: "market"})
	if want := tool.CallAgentTool([]string{"tech", "market"}).Description; call != want {
		t.Errorf("without descriptions call_agent is described by %q, want %q", call, want)
	}
	described, describedSpawn := offer(
		tool.Callee{Name: "tech"},
		tool.Callee{Name: "market", Description: " Knows\n the market. "},
	)
	const line = "\n- market: Knows the market."
	if described != call+line || describedSpawn != spawn+line {
		t.Errorf("got %q and %q, want both as without descriptions, and the line %q", described, describedSpawn, line)
	}
}

// TestOfferIsBounded: a long description is cut. If there are many agents, the
// last of them are named and not described.
func TestOfferIsBounded(t *testing.T) {
	var callees []tool.Callee
	for i := range 100 {
		callees = append(callees, tool.Callee{Name: fmt.Sprintf("a%d", i), Description: strings.Repeat("long ", 1000)})
	}
	text := tool.Offer([]string{tool.CallAgentToolName}, callees, 5)[0].Description
	if lines := strings.Count(text, "\n- "); lines < 20 || lines > 30 || len(text) > 9<<10 {
		t.Errorf("100 agents are described in %d lines and %d bytes, want 20 to 30 lines and at most 9 KiB",
			lines, len(text))
	}
	for _, line := range strings.Split(text, "\n")[1:] {
		if len(line) > 320 || !strings.HasSuffix(line, "…") {
			t.Errorf("a line has %d bytes, want at most 320 with a mark at the end: %s", len(line), line)
		}
	}
	if !strings.Contains(text, ", a99") {
		t.Errorf("the last agent, a99, is not named in %.200s…", text)
	}
}
