package check

import (
	"slices"
	"strings"

	"github.com/axebus/axe/configs"
)

// callsOfRun is the number of calls of each run in the example of a warning.
const callsOfRun = 10

// cycles warns of agents that may call each other in a circle. Each agent is in
// one warning at most. There is no warning if max_depth ends the calls before
// the circle closes, or if an agent of the circle has a budget of runs.
func (c *checker) cycles(agents []configs.Agent) {
	seen := map[string]bool{}
	for _, a := range agents {
		cycle := c.cycle(a.Name)
		if len(cycle) == 0 || slices.ContainsFunc(cycle, func(name string) bool { return seen[name] }) {
			continue
		}
		levels, bounded := c.bounds(cycle)
		if bounded || levels < len(cycle) {
			continue
		}
		for _, name := range cycle {
			seen[name] = true
		}
		runs := 0
		for range levels {
			runs = (runs + 1) * callsOfRun
		}
		c.add(a, "sub_agents", Warning,
			"cycle %s: max_depth ends it after %d levels; with %d calls of each run these are %d runs: "+
				"set max_agents in [limits]",
			strings.Join(append(cycle, a.Name), " → "), levels, callsOfRun, runs)
	}
}

// cycle returns the shortest way by which an agent may call itself, from the
// agent to the last one before it comes again. It is empty if there is none.
func (c *checker) cycle(agent string) []string {
	ways := [][]string{{agent}}
	seen := map[string]bool{}
	for i := 0; i < len(ways); i++ {
		way := ways[i]
		for _, next := range callees(c.agents[way[len(way)-1]]) {
			if next == agent {
				return way
			}
			if !seen[next] {
				seen[next] = true
				ways = append(ways, append(slices.Clone(way), next))
			}
		}
	}
	return nil
}

// bounds returns the levels of runs below the root of a tree that has all
// agents of a cycle, and whether one of them has a budget of runs.
func (c *checker) bounds(cycle []string) (levels int, bounded bool) {
	levels = c.agents[cycle[0]].MaxDepth()
	for _, name := range cycle {
		levels = min(levels, c.agents[name].MaxDepth())
		bounded = bounded || c.agents[name].Budget.Agents > 0
	}
	return levels, bounded
}
