package cli

import (
	"slices"
	"testing"

	"github.com/axebus/axe/internal/presence"
)

// TestSoleAgents: a worker that drains takes no more work, so it serves no
// agent in place of another one.
func TestSoleAgents(t *testing.T) {
	busy := func(name string, draining bool, agents ...string) presence.Busy {
		return presence.Busy{
			Worker: presence.Worker{Entry: presence.Entry{Name: name, Agents: agents}},
			Work:   presence.Work{Draining: draining},
		}
	}
	there := []presence.Busy{busy("one", false, "a", "b", "c"), busy("two", true, "b"), busy("three", false, "c")}
	if got := soleAgents(there[0], there); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("no other worker serves %v, want a and b", got)
	}
}
