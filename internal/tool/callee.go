package tool

import (
	"fmt"
	"strings"

	"github.com/axebus/axe/internal/text"
)

// Callee is an agent that a model may call.
type Callee struct {
	Name string
	// Description is what the agent's file says about it, "" if nothing is
	// known.
	Description string
}

// The bounds of the descriptions in one tool definition, in bytes. Every turn
// of a run pays for them. Agents beyond the second bound have their names only.
const (
	maxDescription  = 300
	maxDescriptions = 8 << 10
)

// describe returns a line for each agent with a description, each after a line
// break.
func describe(callees []Callee) string {
	var b strings.Builder
	for _, c := range callees {
		words := strings.Join(strings.Fields(c.Description), " ")
		line := fmt.Sprintf("\n- %s: %s", c.Name, text.Truncate(words, maxDescription))
		if words != "" && b.Len()+len(line) <= maxDescriptions {
			b.WriteString(line)
		}
	}
	return b.String()
}
