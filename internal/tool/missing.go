package tool

import (
	"fmt"
	"strings"
)

// Missing is a tool of an agent's file that the agent cannot be offered.
type Missing struct {
	// Name is the name in the agent's file, or a glob.
	Name string
	// Why says what is wrong with its toolset.
	Why string
}

// Unavailable is the part of a system prompt that tells a run of the tools that
// are missing. It is "" if none is.
func Unavailable(missing []Missing) string {
	if len(missing) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("## Tools that are not available\n\nDo not rely on these tools. Say so if you need one of them.\n")
	for _, m := range missing {
		fmt.Fprintf(&b, "\n- %s: %s", m.Name, m.Why)
	}
	return b.String()
}
