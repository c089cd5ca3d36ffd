package cli

import (
	"cmp"
	"slices"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/price"
)

// StatisticsLine is an agent as axe agents stats -o json prints it.
type StatisticsLine struct {
	client.AgentStatistics
	price.Line
}

// StatisticsLineOf describes the statistics of an agent.
func StatisticsLineOf(s client.AgentStatistics, prices price.Table) StatisticsLine {
	return StatisticsLine{s, prices.Cost(s.Models).Line()}
}

// StatisticsOrders are the orders of SortStatistics, the default first.
func StatisticsOrders() []string { return []string{"p95", "failed", "runs", "tokens"} }

// SortStatistics sorts agents by one of StatisticsOrders. The first agent has
// the most.
func SortStatistics(all []client.AgentStatistics, order string) {
	slices.SortStableFunc(all, func(a, b client.AgentStatistics) int {
		return cmp.Compare(statisticsKey(b, order), statisticsKey(a, order))
	})
}

func statisticsKey(s client.AgentStatistics, order string) int64 {
	switch order {
	case "failed":
		return int64(s.Failed)
	case "runs":
		return int64(s.Runs)
	case "tokens":
		return int64(s.Usage.InputTokens + s.Usage.OutputTokens)
	}
	return int64(s.P95)
}
