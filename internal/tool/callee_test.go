package tool_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/axebus/axe/internal/tool"
)

// TestOfferDescribes: the definitions describe the agents that have a
// description, each on one line, and stay as they are for agents without one.
func TestOfferDescribes(t *testing.T) {
	names := []string{tool.CallAgentToolName, tool.SpawnAgentToolName}
	offer := func(callees ...tool.Callee) (call, spawn string) {
		tools := tool.Offer(names, callees, 5)
		return tools[0].Description, tools[1].Parameters["agent"].Description
	}
	call, spawn := offer(tool.Callee{Name: "tech"}, tool.Callee{Name: "market"})
	if want := tool.CallAgentTool([]string{"tech", "market"}).Description; call != want {
		t.Errorf("without descriptions: %q", call)
	}
	described, describedSpawn := offer(
		tool.Callee{Name: "tech"},
		tool.Callee{Name: "market", Description: " Knows\n the market. "},
	)
	const line = "\n- market: Knows the market."
	if described != call+line || describedSpawn != spawn+line {
		t.Errorf("%q, %q", described, describedSpawn)
	}
}

// TestOfferIsBounded: long descriptions are cut, and of very many agents the
// last ones have their names only.
func TestOfferIsBounded(t *testing.T) {
	var callees []tool.Callee
	for i := range 100 {
		callees = append(callees, tool.Callee{Name: fmt.Sprintf("a%d", i), Description: strings.Repeat("long ", 1000)})
	}
	text := tool.Offer([]string{tool.CallAgentToolName}, callees, 5)[0].Description
	if lines := strings.Count(text, "\n- "); lines < 20 || lines > 30 || len(text) > 9<<10 {
		t.Errorf("%d lines, %d bytes", lines, len(text))
	}
	for _, line := range strings.Split(text, "\n")[1:] {
		if len(line) > 320 || !strings.HasSuffix(line, "…") {
			t.Errorf("%d bytes: %s", len(line), line)
		}
	}
	if !strings.Contains(text, ", a99") {
		t.Error("the last agent is not named")
	}
}
