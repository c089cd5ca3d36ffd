package cli

import (
	"github.com/spf13/cobra"

	"github.com/axebus/axe/subjects"
)

// LimitFlags are bounds on a whole tree.
type LimitFlags struct{ limits subjects.Limits }

// Register adds the flags.
func (f *LimitFlags) Register(cmd *cobra.Command) {
	cmd.Flags().IntVar(
		&f.limits.Agents,
		"max-agents",
		0,
		"the most runs of the whole tree, 0: what the agents' files say; they can only be narrowed",
	)
	cmd.Flags().IntVar(&f.limits.Turns, "max-turns", 0, "the most model calls of the whole tree")
	cmd.Flags().IntVar(
		&f.limits.Tokens,
		"max-tokens",
		0,
		"the most input and output tokens of the whole tree; calls in flight still end",
	)
}

// Limits checks and returns them.
func (f *LimitFlags) Limits() (subjects.Limits, error) {
	for name, n := range map[string]int{"max-agents": f.limits.Agents, "max-turns": f.limits.Turns, "max-tokens": f.limits.Tokens} {
		if n < 0 || n > subjects.MaxLimit {
			return subjects.Limits{}, Usage("--%s %d: want 0 to %d", name, n, subjects.MaxLimit)
		}
	}
	return f.limits, nil
}
