package agentd_test

import (
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/provider"
)

// TestInvalidConfig: New refuses a Config without Open, and one with a negative
// field. The error names the field, and has the value as a person writes it.
func TestInvalidConfig(t *testing.T) {
	t.Parallel()
	open := func(string) (provider.Provider, string, error) { return nil, "", nil }
	for want, cfg := range map[string]agentd.Config{
		"agentd: Config.Open is required":                             {},
		"agentd: Config.Slots must not be negative, got -2":           {Open: open, Slots: -2},
		"agentd: Config.ToolSlots must not be negative, got -1":       {Open: open, ToolSlots: -1},
		"agentd: Config.ActiveAgents must not be negative, got -1":    {Open: open, ActiveAgents: -1},
		"agentd: Config.DormantAfter must not be negative, got -1m0s": {Open: open, DormantAfter: -time.Minute},
		"agentd: Config.Timeout must not be negative, got -1s":        {Open: open, Timeout: -time.Second},
		"agentd: Config.Grace must not be negative, got -1s":          {Open: open, Grace: -time.Second},
		"agentd: Config.Poison must not be negative, got -1":          {Open: open, Poison: -1},
		"agentd: Config.Cache must not be negative, got -1":           {Open: open, Cache: -1},
	} {
		if _, err := agentd.New(nil, cfg); err == nil || err.Error() != want {
			t.Errorf("got error %v, want %s", err, want)
		}
	}
}
