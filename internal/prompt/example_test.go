package prompt_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/prompt"
)

// The system text has the agent's prompt, and the files that its patterns
// match.
func ExampleResolve() {
	dir, err := os.MkdirTemp("", "work")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte("package main\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	c, err := prompt.Resolve(configs.Agent{
		Name:         "reader",
		SystemPrompt: "Answer from the files.",
		Workdir:      dir,
		Files:        []string{"**/*.go"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Text())
	// Output:
	// Answer from the files.
	//
	// ---
	//
	// ## Context Files
	//
	// ### main.go
	// ```go
	// package main
	// ```
}

// The first user message of a child has its task and its context.
func ExampleUser() {
	fmt.Println(prompt.User("Review the change.", "It touches the parser."))
	// Output:
	// Task: Review the change.
	//
	// Context:
	// It touches the parser.
}
