package budget_test

import (
	"fmt"

	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/subjects"
)

// A tree may have four agents. Its root wants to call five, and then makes one
// more model call than it may.
func ExampleTally() {
	limits := subjects.Budget{Agents: 4, Turns: 1}
	tally, _ := budget.Tally{}.ReserveTurn(limits)
	tally, granted := tally.Record(limits, budget.Grant{By: subjects.Root, Turn: 1, Calls: 5}, 0, 0)
	_, exceeded := tally.ReserveTurn(limits)
	fmt.Println("granted:", granted)
	fmt.Println(exceeded)
	// Output:
	// granted: 3
	// budget exceeded: used 1 of 1 turns
}
