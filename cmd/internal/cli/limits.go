package cli

import (
	"github.com/spf13/cobra"

	"github.com/axebus/axe/subjects"
)

// BudgetFlags are bounds on a whole tree.
type BudgetFlags struct{ limits subjects.Budget }

// Register adds the flags.
func (f *BudgetFlags) Register(cmd *cobra.Command) {
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
func (f *BudgetFlags) Limits() (subjects.Budget, error) {
	for name, n := range map[string]int{"max-agents": f.limits.Agents, "max-turns": f.limits.Turns, "max-tokens": f.limits.Tokens} {
		if n < 0 || n > subjects.MaxLimit {
			return subjects.Budget{}, Usage("--%s %d: want 0 to %d", name, n, subjects.MaxLimit)
		}
	}
	return f.limits, nil
}
