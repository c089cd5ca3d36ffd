package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/toolset"
)

// maxPages bounds the pages of a list.
const maxPages = 128

// definition is a tool in the list of a server.
type definition struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations struct {
		ReadOnlyHint   bool `json:"readOnlyHint"`
		IdempotentHint bool `json:"idempotentHint"`
	} `json:"annotations"`
	// Execution is that of the protocol 2025-11-25.
	Execution struct {
		TaskSupport string `json:"taskSupport"`
	} `json:"execution"`
}

// effect is the effect that the annotations of a trusted server name. It is
// empty if they name none. A tool that destroys nothing is not idempotent for
// that.
func (d *definition) effect() run.ToolEffect {
	switch {
	case d.Annotations.ReadOnlyHint:
		return run.ToolReads
	case d.Annotations.IdempotentHint:
		return run.ToolIdempotent
	}
	return ""
}

// page is a page of a list. Its schemas have the bytes that the server sent.
type page struct {
	Tools      []definition `json:"tools"`
	NextCursor string       `json:"nextCursor"`
}

// list returns all tools of the server, in its order. One goroutine at a time
// lists.
func (c *session) list(ctx context.Context) ([]definition, error) {
	select {
	case c.listing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-c.listing }()
	var all []definition
	cursor := ""
	for n := range maxPages {
		p, err := c.page(ctx, n, cursor)
		if err != nil {
			return nil, err
		}
		all = append(all, p.Tools...)
		if p.NextCursor == "" {
			c.noteTasks(all)
			return all, nil
		}
		cursor = p.NextCursor
	}
	return nil, fmt.Errorf("the list has more than %d pages", maxPages)
}

// noteTasks notes which tools of a whole list make a task with each call. Of
// two tools of one name the first one counts, as in callable.
func (c *session) noteTasks(all []definition) {
	c.tasks = make(map[string]bool, len(all))
	for _, d := range all {
		if _, seen := c.tasks[d.Name]; !seen {
			c.tasks[d.Name] = d.Execution.TaskSupport == "required"
		}
	}
}

// listOnce lists the tools unless this connection has listed all of them
// before.
func (c *session) listOnce(ctx context.Context) error {
	select {
	case c.listing <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	listed := c.tasks != nil
	<-c.listing
	if listed {
		return nil
	}
	_, err := c.list(ctx)
	return err
}

// page returns page n of the list, from 0, without the tools that the SDK
// refuses. The page before has named its cursor.
func (c *session) page(ctx context.Context, n int, cursor string) (page, error) {
	var accepted *mcp.ListToolsResult
	ctx = context.WithValue(ctx, cursorKey{}, cursor)
	raw, err := request(ctx, func(ctx context.Context) (err error) {
		accepted, err = c.client.ListTools(ctx, &mcp.ListToolsParams{Cursor: strconv.Itoa(n)})
		return err
	})
	if err != nil {
		return page{}, err
	}
	var p page
	if err := json.Unmarshal(raw, &p); err != nil {
		return page{}, fmt.Errorf("the list is malformed: %w", err)
	}
	if accepted == nil {
		return page{}, errors.New("the list is malformed")
	}
	p.Tools = slices.DeleteFunc(p.Tools, func(d definition) bool {
		return !slices.ContainsFunc(accepted.Tools, func(t *mcp.Tool) bool { return t.Name == d.Name })
	})
	return p, nil
}

type cursorKey struct{}

// withCursor sends the cursor of the context in place of the number of a page.
// The SDK keeps each page under the cursor that ListTools gets, for as long as
// the connection lives. By numbers a new list takes the place of the old one,
// also if the server names other cursors in each list. A page is never taken
// from there: the SDK does not have its bytes.
func withCursor(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		client, ok := req.GetSession().(*mcp.ClientSession)
		params, isList := req.GetParams().(*mcp.ListToolsParams)
		if !ok || !isList {
			return next(ctx, method, req)
		}
		sent := *params
		sent.Cursor, _ = ctx.Value(cursorKey{}).(string)
		res, err := next(ctx, method, &mcp.ClientRequest[*mcp.ListToolsParams]{Session: client, Params: &sent})
		if list, ok := res.(*mcp.ListToolsResult); ok && list != nil {
			list.TTLMs = 0
		}
		return res, err
	}
}

// callable returns the tools of a list without those that no model can call. It
// says so in the log.
func (s *Set) callable(ctx context.Context, all []definition) []toolset.Tool {
	tools := []toolset.Tool{}
	seen := map[string]bool{}
	for _, d := range all {
		if why := flaw(d, seen); why != "" {
			s.log.WarnContext(ctx, "left out a tool of an MCP server",
				slog.String("tool", d.Name), slog.String("reason", why))
			continue
		}
		seen[d.Name] = true
		t := toolset.Tool{Name: d.Name, Description: d.Description, Schema: d.InputSchema}
		if s.def.Trust {
			t.Effect = d.effect()
		}
		tools = append(tools, t)
	}
	return tools
}

// flaw is the reason why no model can call a tool, if there is one. Seen are
// the names before it.
func flaw(d definition, seen map[string]bool) string {
	var schema map[string]json.RawMessage
	switch {
	case d.Name == "":
		return "it has no name"
	case seen[d.Name]:
		return "another tool has the same name"
	case json.Unmarshal(d.InputSchema, &schema) != nil || schema == nil:
		return "its schema is no JSON object"
	}
	return ""
}
