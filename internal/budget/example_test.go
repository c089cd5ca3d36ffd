package budget_test

import (
	"fmt"
	"time"

	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/subjects"
)

// A tree may have four agents. Its root wants to call five, and then makes one
// more model call than it may.
func ExampleTally() {
	limits := subjects.Budget{Agents: 4, Turns: 1}
	now := time.Now()
	first := budget.Reservation{By: subjects.Root, Turn: 1, Until: now.Add(time.Hour)}
	tally, _ := budget.Tally{}.Reserve(limits, first, budget.Estimate{}, now)
	tally, granted := tally.Record(limits, budget.Grant{By: subjects.Root, Turn: 1, Calls: 5}, 0, budget.Grant{})
	second := budget.Reservation{By: subjects.Root, Turn: 2, Until: now.Add(time.Hour)}
	_, exceeded := tally.Reserve(limits, second, budget.Estimate{}, now)
	fmt.Println("granted:", granted.Calls)
	fmt.Println(exceeded)
	// Output:
	// granted: 3
	// budget exceeded: used 1 of 1 turns
}
