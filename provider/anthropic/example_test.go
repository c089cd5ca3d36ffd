package anthropic_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/anthropic"
)

// The model answers with a text and a tool call.
func ExampleClient_Send() {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"content": [
			{"type": "text", "text": "I ask the reviewer."},
			{"type": "tool_use", "id": "toolu_1", "name": "call_agent", "input": {"agent": "reviewer", "task": "PR 12"}}
		]}`)
	}))
	defer api.Close()

	c := anthropic.New(anthropic.Config{Key: "sk-ant-example", BaseURL: api.URL})
	resp, err := c.Send(context.Background(), &provider.Request{
		Model:    "claude-sonnet-4-5",
		Messages: []provider.Message{{Role: provider.User, Content: "Have PR 12 reviewed."}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resp.Content)
	for _, call := range resp.ToolCalls {
		fmt.Println(call.ID, call.Name, call.Arguments["agent"], call.Arguments["task"])
	}
	// Output:
	// I ask the reviewer.
	// toolu_1 call_agent reviewer PR 12
}
