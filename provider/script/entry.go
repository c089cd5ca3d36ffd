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
	turn    int // 0: every turn
	when    *template.Template
	latency time.Duration
	text    *template.Template
	calls   []call
	fail    *failure
}

// failure is the error of an entry.
type failure struct {
	err     provider.Error
	message *template.Template
}

// matches reports whether the entry answers a request.
func (e *entry) matches(v templateData) (bool, error) {
	if e.turn != 0 && e.turn != v.Turn {
		return false, nil
	}
	if e.when == nil {
		return true, nil
	}
	s, err := render(e.when, v)
	if err != nil {
		return false, e.wrap(err)
	}
	return strings.TrimSpace(s) == "true", nil
}

// answer returns the response to a request, or the entry's failure.
func (e *entry) answer(v templateData) (*provider.Response, error) {
	if e.fail != nil {
		return nil, e.fail.error(v)
	}
	text, err := render(e.text, v)
	if err != nil {
		return nil, e.wrap(err)
	}
	resp := &provider.Response{Content: text, StopReason: "end_turn"}
	for i := range e.calls {
		if resp.ToolCalls, err = e.calls[i].add(resp.ToolCalls, v); err != nil {
			return nil, e.wrap(err)
		}
	}
	if len(resp.ToolCalls) > 0 {
		resp.StopReason = "tool_use"
	}
	return resp, nil
}

func (e *entry) wrap(err error) error { return fmt.Errorf("[[turn]] at line %d: %w", e.line, err) }

func (f *failure) error(v templateData) error {
	message, err := render(f.message, v)
	if err != nil {
		return err
	}
	answer := f.err
	answer.Message = message
	return &answer
}

// render executes a template. A nil template gives no text.
func render(t *template.Template, v templateData) (string, error) {
	if t == nil {
		return "", nil
	}
	var b strings.Builder
	if err := t.Execute(&b, v); err != nil {
		return "", err
	}
	return b.String(), nil
}
