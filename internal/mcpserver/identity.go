package mcpserver

import (
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// metaID is the key of the tree's id in the metadata of a result.
const metaID = "axe/id"

// keyNames are the keys of a request's metadata that may hold its idempotency
// key. The protocol has none of its own. The first one that is present counts.
var keyNames = []string{"axe/idempotency-key", "io.modelcontextprotocol/idempotencyKey", "idempotencyKey"}

// keyOf returns the key of a call: the argument id, or else the idempotency key
// of the request. It is "" for a call without a key. The error names a key that
// is not a text.
func keyOf(in input, meta mcp.Meta) (string, error) {
	if in.ID != "" {
		return in.ID, nil
	}
	for _, name := range keyNames {
		switch key := meta[name].(type) {
		case nil:
		case string:
			if key != "" {
				return key, nil
			}
		default:
			return "", fmt.Errorf("_meta %s must be a string, got %T", name, key)
		}
	}
	return "", nil
}

// newTask makes the task of a call. The id of the task is zero for a call
// without a key.
func newTask(c call) (client.Task, error) {
	t := client.Task{Agent: c.agent, Text: c.in.Task}
	if strings.TrimSpace(t.Text) == "" {
		return t, errors.New("task must not be empty")
	}
	if strings.TrimSpace(c.in.Context) != "" {
		t.Text += "\n\nContext:\n" + c.in.Context
	}
	if c.in.Timeout != "" {
		timeout, err := subjects.ParseTimeout(c.in.Timeout)
		if err != nil {
			return t, fmt.Errorf("timeout: %w", err)
		}
		t.Timeout = timeout
	}
	key, err := keyOf(c.in, c.Params.Meta)
	if err == nil && key != "" {
		t.ID = client.TreeID(key)
	}
	return t, err
}
