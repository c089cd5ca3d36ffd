package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/configs"
)

// TestAgentsShow_SubAgentsConfigWhenSubAgentsIsNonEmpty: requirement 5.7. The
// settings of sub-agents are shown for an agent that has sub-agents, with
// defaults for those that it does not set. cmd/testdata/script/agents.txt tests
// the other fields.
func TestAgentsShow_SubAgentsConfigWhenSubAgentsIsNonEmpty(t *testing.T) {
	for _, tt := range []struct {
		name  string
		agent configs.Agent
		want  string
	}{
		{
			"no sub-agents",
			configs.Agent{SubAgentsConf: configs.SubAgentsConfig{MaxDepth: 2, Parallel: true, Timeout: 30}},
			"",
		},
		{
			"all set",
			configs.Agent{
				SubAgents: []string{"b", "c"}, SubAgentsConf: configs.SubAgentsConfig{MaxDepth: 2, Timeout: 30},
			},
			"Sub-Agents:     b, c\nMax Depth:      2\nParallel:       no\nTimeout:        30s\n",
		},
		{
			"the defaults",
			configs.Agent{SubAgents: []string{"b"}, SubAgentsConf: configs.SubAgentsConfig{Parallel: true}},
			"Sub-Agents:     b\nMax Depth:      3\nParallel:       yes\n" +
				"Timeout:        0s (what is left of the caller's time)\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.agent.Name, tt.agent.Model = "a", "openai/x"
			want := "Name:           a\nModel:          openai/x\n" + tt.want + "Retry:          1 attempt\n"
			if diff := cmp.Diff(want, describe(tt.agent)); diff != "" {
				t.Errorf("description (-want +got):\n%s", diff)
			}
		})
	}
}
