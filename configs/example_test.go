package configs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/axebus/axe/configs"
)

// LoadDir returns the agents of a directory, sorted by name.
func ExampleLoadDir() {
	agents, err := configs.LoadDir("examples")
	if err != nil {
		fmt.Println(err)
	}
	for _, a := range agents {
		fmt.Println(a.Name, "calls", a.SubAgents)
	}
	// Output:
	// correctness-reviewer calls [reader]
	// lead calls [correctness-reviewer security-reviewer readability-reviewer]
	// readability-reviewer calls [reader]
	// reader calls []
	// security-reviewer calls [reader]
}

// An error of Load has the line and the key of a mistake.
func ExampleLoad() {
	dir, err := os.MkdirTemp("", "agents")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "reviewer.toml")
	text := "name = \"reviewer\"\nmodel = \"openai/gpt-4o\"\nsub_agent = [\"reader\"]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	_, err = configs.Load(file)
	if e, ok := errors.AsType[*configs.Error](err); ok {
		fmt.Printf("line %d: %s: %s\n", e.Line, e.Key, e.Message)
	}
	// Output: line 3: sub_agent: unknown key; did you mean "sub_agents"?
}
