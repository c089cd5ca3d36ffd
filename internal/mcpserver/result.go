package mcpserver

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// result makes the result of a call from the outcome of its tree. The text is
// the answer, or the failure and how to see it.
func (s *Server) result(ctx context.Context, tree subjects.Tree, o run.Outcome) (*mcp.CallToolResult, output, error) {
	out := output{
		ID: tree.String(), Status: string(o.Status), Kind: string(o.Kind), Result: o.Result, Truncated: o.Truncated,
		Tokens: o.Subtree.InputTokens + o.Subtree.OutputTokens, Runs: o.Subtree.Runs, MS: o.DurationMS,
	}
	text := o.Result
	failed := o.Status != run.StatusCompleted
	if failed {
		out.Error = s.cfg.Explain(ctx, o)
		const format = "%s\n\nThe work failed (%s). Its id is %s, and \"axe wait %s -o json\" shows the whole outcome."
		text = fmt.Sprintf(format, out.Error, o.Kind, tree, tree)
	}
	return content(text, tree, failed), out, nil
}

// running is the result of a call if the server stops. The tree goes on.
func running(tree subjects.Tree) (*mcp.CallToolResult, output, error) {
	const format = "The server stops, and the work goes on. " +
		"Call the tool again with the same task and the id %s, or run \"axe wait %s\"."
	text := fmt.Sprintf(format, tree, tree)
	return content(text, tree, true), output{ID: tree.String(), Status: "running"}, nil
}

func content(text string, tree subjects.Tree, failed bool) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		Meta:    mcp.Meta{metaID: tree.String()},
		Content: []mcp.Content{&mcp.TextContent{Text: text}},
		IsError: failed,
	}
}
