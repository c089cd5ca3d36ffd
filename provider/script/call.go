package script

import (
	"cmp"
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

// add appends the calls that c stands for to calls, those of the turn so far.
func (c *call) add(calls []provider.ToolCall, data templateData) ([]provider.ToolCall, error) {
	items, err := c.items(data)
	if err != nil {
		return nil, err
	}
	if len(calls)+len(items) > maxCalls {
		return nil, fmt.Errorf("more than %d calls in one turn", maxCalls)
	}
	for i, item := range items {
		data.Item, data.Index = item, i
		raw, err := c.rawArguments(data)
		if err != nil {
			return nil, err
		}
		calls = append(calls, provider.NewToolCall(callID(data.Turn, len(calls)), c.tool, raw))
	}
	return calls, nil
}

// items returns the elements. Each of them becomes one call. Without each and
// repeat there is one.
func (c *call) items(data templateData) ([]any, error) {
	switch c.each {
	case "files":
		return toAnys(data.Files), nil
	case "results":
		return toAnys(data.Results), nil
	case "lines":
		return toAnys(textLines(data)), nil
	}
	if c.repeat == nil {
		return []any{nil}, nil
	}
	s, err := render(c.repeat, data)
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
func textLines(data templateData) []string {
	text := lines(cmp.Or(data.Context, data.Task))
	return slices.DeleteFunc(text, func(l string) bool { return strings.TrimSpace(l) == "" })
}

func (c *call) rawArguments(data templateData) ([]byte, error) {
	if c.raw != nil {
		s, err := render(c.raw, data)
		return []byte(s), err
	}
	filled, err := mapLeaves("", c.arguments, func(_ string, leaf any) (any, error) {
		if t, ok := leaf.(*template.Template); ok {
			return render(t, data)
		}
		return leaf, nil
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(filled)
}
