package script

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/axebus/axe/provider"
)

const (
	callAgent = "call_agent"
	maxCalls  = 10_000 // in one turn
)

// call is one [[turn.call]] with compiled templates.
type call struct {
	tool   string
	each   string
	repeat *template.Template
	raw    *template.Template
	// arguments has templates in place of strings.
	arguments map[string]any
}

// add appends the calls to calls, which the turn has already.
func (c *call) add(calls []provider.ToolCall, v templateData) ([]provider.ToolCall, error) {
	items, err := c.items(v)
	if err != nil {
		return nil, err
	}
	if len(calls)+len(items) > maxCalls {
		return nil, fmt.Errorf("more than %d calls in one turn", maxCalls)
	}
	for i, item := range items {
		v.Item, v.Index = item, i
		raw, err := c.rawArguments(v)
		if err != nil {
			return nil, err
		}
		calls = append(calls, provider.NewToolCall(callID(v.Turn, len(calls)), c.tool, raw))
	}
	return calls, nil
}

// items returns the elements. Each of them becomes one call.
func (c *call) items(v templateData) ([]any, error) {
	switch c.each {
	case "files":
		return toAnys(v.Files), nil
	case "results":
		return toAnys(v.Results), nil
	case "lines":
		return toAnys(textLines(v)), nil
	}
	if c.repeat == nil {
		return []any{nil}, nil
	}
	s, err := render(c.repeat, v)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 0 || n > maxCalls {
		return nil, fmt.Errorf("repeat must be an integer from 0 to %d, got %q", maxCalls, s)
	}
	return make([]any, n), nil
}

func toAnys[T any](list []T) []any {
	items := make([]any, len(list))
	for i, e := range list {
		items[i] = e
	}
	return items
}

// textLines returns the lines of the context, or else of the task. It leaves
// out blank lines.
func textLines(v templateData) []string {
	text := v.Context
	if text == "" {
		text = v.Task
	}
	return slices.DeleteFunc(lines(text), func(l string) bool { return strings.TrimSpace(l) == "" })
}

func (c *call) rawArguments(v templateData) ([]byte, error) {
	if c.raw != nil {
		s, err := render(c.raw, v)
		return []byte(s), err
	}
	filled, err := mapLeaves("", c.arguments, func(_ string, leaf any) (any, error) {
		if t, ok := leaf.(*template.Template); ok {
			return render(t, v)
		}
		return leaf, nil
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(filled)
}
