package script

import (
	"fmt"
	"strings"
	"text/template"
	"time"

	"github.com/axebus/axe/provider"
)

// entry is one [[turn]] with compiled templates.
type entry struct {
	line    int
	turn    *int // nil: every turn
	when    *template.Template
	latency time.Duration
	text    *template.Template
	calls   []call
	// fail is the answer if it is an error; failMessage gives its message.
	fail        *provider.Error
	failMessage *template.Template
}

// matches reports whether the entry answers a request.
func (e *entry) matches(data templateData) (bool, error) {
	if e.turn != nil && *e.turn != data.Turn {
		return false, nil
	}
	s, err := render(e.when, data)
	if err != nil {
		return false, e.wrap(err)
	}
	return strings.TrimSpace(s) == "true", nil
}

// answer returns the response to a request, or the entry's failure.
func (e *entry) answer(data templateData) (*provider.Response, error) {
	if e.fail != nil {
		message, err := render(e.failMessage, data)
		if err != nil {
			return nil, e.wrap(err)
		}
		failed := *e.fail
		failed.Message = message
		return nil, &failed
	}
	text, err := render(e.text, data)
	if err != nil {
		return nil, e.wrap(err)
	}
	resp := &provider.Response{Content: text, StopReason: "end_turn"}
	for i := range e.calls {
		if resp.ToolCalls, err = e.calls[i].add(resp.ToolCalls, data); err != nil {
			return nil, e.wrap(err)
		}
	}
	if len(resp.ToolCalls) > 0 {
		resp.StopReason = "tool_use"
	}
	return resp, nil
}

func (e *entry) wrap(err error) error { return fmt.Errorf("[[turn]] at line %d: %w", e.line, err) }

// render executes a template. A nil template gives no text.
func render(t *template.Template, data templateData) (string, error) {
	if t == nil {
		return "", nil
	}
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		return "", err
	}
	return b.String(), nil
}
