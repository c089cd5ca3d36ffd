package script_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/script"
)

// lead is the file of the script.
const lead = `
[[turn]]
turn = 1
text = "I ask a reader."
[[turn.call]]
agent = "reader"
task = "Count the words of: {{.Task}}"

[[turn]]
text = 'The reader says: {{join ", " .Results}}'
`

// A script calls a reader in its first turn, and reports its result in the next
// one.
func Example() {
	dir, err := os.MkdirTemp("", "scripts")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "lead.toml"), []byte(lead), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	model, err := script.Load(dir, "lead")
	if err != nil {
		fmt.Println(err)
		return
	}
	req := &provider.Request{Messages: []provider.Message{{Role: provider.User, Content: "to be or not to be"}}}
	resp, err := model.Send(context.Background(), req)
	if err != nil {
		fmt.Println(err)
		return
	}
	call := resp.ToolCalls[0]
	fmt.Println(resp.Content, call.ID, call.Arguments["task"])

	req.Messages = append(
		req.Messages,
		provider.Message{Role: provider.Assistant, Content: resp.Content, ToolCalls: resp.ToolCalls},
		provider.Message{
			Role:        provider.ToolRole,
			ToolResults: []provider.ToolResult{{CallID: call.ID, Content: "six"}},
		},
	)
	resp, err = model.Send(context.Background(), req)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Content)
	// Output:
	// I ask a reader. script_1_0 Count the words of: to be or not to be
	// The reader says: six
}
