package subjects_test

import (
	"fmt"

	"github.com/axebus/axe/subjects"
)

// A run's address gives its subjects, and a subject parses to the address. A
// name with a wildcard is no agent.
func Example() {
	var space subjects.Space // axe.>
	agent, err := subjects.ParseAgent("reviewer")
	if err != nil {
		fmt.Println(err)
		return
	}
	tree, err := subjects.ParseTree("V1StGXR8Z5jdHi6BmyT")
	if err != nil {
		fmt.Println(err)
		return
	}
	child := space.Run(agent, tree, subjects.Root.Child(1, 0))
	fmt.Println(child.Call())
	fmt.Println(space.Live(child.Log()))

	at, err := space.Parse("axe.run.reviewer.V1StGXR8Z5jdHi6BmyT.r-1-0.in.2.3")
	fmt.Println(at.Kind == subjects.Reply, at.Run == child, at.Turn, at.Index, err)

	_, err = subjects.ParseAgent("all.*")
	fmt.Println(err)
	// Output:
	// axe.run.reviewer.V1StGXR8Z5jdHi6BmyT.r-1-0.call
	// axe.live.run.reviewer.V1StGXR8Z5jdHi6BmyT.r-1-0.log
	// true true 2 3 <nil>
	// agent name "all.*": malformed: want a lower-case letter or digit, then up to 63 of a-z 0-9 _ -
}
