package cli

import (
	"github.com/spf13/cobra"

	"github.com/axebus/axe/subjects"
)

// BudgetFlags are the flags for the budget of a tree.
type BudgetFlags struct{ budget subjects.Budget }

// Register adds the flags.
func (f *BudgetFlags) Register(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.budget.Agents, "max-agents", 0,
		"maximum runs of the whole tree; 0 leaves the limit of the agents' files, which a flag can only narrow")
	cmd.Flags().IntVar(&f.budget.Turns, "max-turns", 0, "maximum model calls of the whole tree")
	cmd.Flags().IntVar(&f.budget.ToolCalls, "max-tool-calls", 0, "maximum calls of tools of the whole tree")
	cmd.Flags().IntVar(&f.budget.Tokens, "max-tokens", 0,
		"maximum input and output tokens of the whole tree; calls in flight still end")
}

// Budget checks the flags and returns the budget.
func (f *BudgetFlags) Budget() (subjects.Budget, error) {
	flags := map[string]int{
		"max-agents": f.budget.Agents, "max-turns": f.budget.Turns,
		"max-tokens": f.budget.Tokens, "max-tool-calls": f.budget.ToolCalls,
	}
	for name, n := range flags {
		if n < 0 || n > subjects.MaxLimit {
			return subjects.Budget{}, Usage("--%s must be 0 to %d, got %d", name, subjects.MaxLimit, n)
		}
	}
	return f.budget, nil
}
