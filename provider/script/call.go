package script

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"text/template"

	"github.com/axebus/axe/provider"
)

const (
	callAgent = "call_agent"
	maxCalls  = 10_000 // in one turn
)

// call is one [[turn.call]].
type call struct {
	tool      string
	each      string
	repeat    *template.Template
	raw       *template.Template
	arguments map[string]any // templates in place of strings
}

// add appends the calls to those that the turn has already.
func (c *call) add(calls []provider.ToolCall, v view) ([]provider.ToolCall, error) {
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

// items returns the elements to make one call for each.
func (c *call) items(v view) ([]any, error) {
	switch c.each {
	case "files":
		return anys(v.Files), nil
	case "results":
		return anys(v.Results), nil
	case "lines":
		return anys(textLines(v)), nil
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
		return nil, fmt.Errorf("repeat gives %q: want an integer from 0 to %d", s, maxCalls)
	}
	return make([]any, n), nil
}

func anys[T any](list []T) []any {
	items := make([]any, len(list))
	for i, e := range list {
		items[i] = e
	}
	return items
}

// textLines returns the lines that a task is about, without blank ones.
func textLines(v view) []string {
	text := v.Context
	if text == "" {
		text = v.Task
	}
	var full []string
	for _, l := range lines(text) {
		if strings.TrimSpace(l) != "" {
			full = append(full, l)
		}
	}
	return full
}

func (c *call) rawArguments(v view) ([]byte, error) {
	if c.raw != nil {
		s, err := render(c.raw, v)
		return []byte(s), err
	}
	filled, err := fill(c.arguments, v)
	if err != nil {
		return nil, err
	}
	return json.Marshal(filled)
}

// fill returns a value with its templates rendered.
func fill(value any, v view) (any, error) {
	switch x := value.(type) {
	case *template.Template:
		return render(x, v)
	case map[string]any:
		filled := make(map[string]any, len(x))
		for k, e := range x {
			f, err := fill(e, v)
			if err != nil {
				return nil, err
			}
			filled[k] = f
		}
		return filled, nil
	case []any:
		filled := make([]any, len(x))
		for i, e := range x {
			f, err := fill(e, v)
			if err != nil {
				return nil, err
			}
			filled[i] = f
		}
		return filled, nil
	default:
		return value, nil
	}
}
