package memory_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/subjects"
)

func Example() {
	dir, err := os.MkdirTemp("", "memory")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	agent, err := subjects.ParseAgent("reviewer")
	if err != nil {
		fmt.Println(err)
		return
	}
	log := memory.Files{Dir: dir}.Open(agent, "")

	ctx := context.Background()
	ended := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, e := range []memory.Entry{
		{Time: ended, Task: "Review the parser", Result: "Two findings."},
		{Time: ended.Add(time.Hour), Task: "Review it again", Result: "None.\n# All good"},
	} {
		if err := log.Append(ctx, e); err != nil {
			fmt.Println(err)
			return
		}
	}

	text, err := log.Read(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(memory.Count(text), "entries; the last one:")
	fmt.Print(memory.Last(text, 1))
	// Output:
	// 2 entries; the last one:
	// ## 2026-03-01T13:00:00Z
	// **Task:** Review it again
	// **Result:** None.
	// \# All good
}
