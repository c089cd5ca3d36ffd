package script

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/axebus/axe/provider"
)

// compile checks a [[turn]] and parses the templates in it.
func (t *turnTable) compile() (entry, error) {
	if t.Text == nil && t.Fail == nil && len(t.Call) == 0 {
		return entry{}, errors.New("must have text, fail or call")
	}
	if t.Fail != nil && (t.Text != nil || len(t.Call) > 0) {
		return entry{}, errors.New("fail excludes text and call")
	}
	if t.Turn != nil && *t.Turn < 1 {
		return entry{}, fmt.Errorf("turn must be at least 1, got %d", *t.Turn)
	}
	var c compiler
	latency := c.duration("latency", t.Latency)
	e := entry{turn: t.Turn, latency: latency, when: c.template("when", cmp.Or(t.When, "true"))}
	if t.Text != nil {
		e.text = c.template("text", *t.Text)
	}
	if t.Fail != nil {
		e.fail = c.failure(t.Fail)
		e.failMessage = c.template("fail.message", t.Fail.Message)
	}
	for _, table := range t.Call {
		e.calls = append(e.calls, c.call(table))
	}
	return e, c.err
}

// compiler compiles the values of one [[turn]]. It keeps the first error.
type compiler struct{ err error }

func (c *compiler) fail(err error) { c.err = cmp.Or(c.err, err) }

// failure returns the error of an entry without its message.
func (c *compiler) failure(f *failTable) *provider.Error {
	const known = "auth, rate_limit, timeout, overloaded, bad_request, context_window, server"
	if !slices.Contains(strings.Split(known, ", "), f.Category) {
		c.fail(fmt.Errorf("fail.category must be one of %s, got %q", known, f.Category))
	}
	after := c.duration("fail.retry_after", f.RetryAfter)
	return &provider.Error{Category: provider.Category(f.Category), Status: f.Status, RetryAfter: after}
}

func (c *compiler) call(t callTable) call {
	c.fail(t.check())
	compiled := call{
		tool: cmp.Or(t.Tool, callAgent), each: t.Each, arguments: map[string]any{},
		repeat: c.template("repeat", t.Repeat), raw: c.template("raw", t.Raw),
	}
	for k, value := range t.Arguments {
		var err error
		compiled.arguments[k], err = mapLeaves(k, value, compileLeaf)
		c.fail(err)
	}
	for k, text := range map[string]string{"agent": t.Agent, "task": t.Task, "context": t.Context} {
		if text != "" {
			compiled.arguments[k] = c.template(k, text)
		}
	}
	return compiled
}

// template parses a template. The empty text gives nil.
func (c *compiler) template(key, text string) *template.Template {
	if text == "" {
		return nil
	}
	t, err := parseTemplate(key, text)
	c.fail(err)
	return t
}

// duration parses a duration. The empty text gives 0.
func (c *compiler) duration(key, text string) time.Duration {
	d, err := time.ParseDuration(cmp.Or(text, "0"))
	if err != nil || d < 0 {
		c.fail(fmt.Errorf("%s must be a duration such as 200ms, got %q", key, text))
	}
	return d
}

// check returns an error for keys that exclude each other.
func (t *callTable) check() error {
	named := t.Agent != "" || t.Task != "" || t.Context != ""
	switch {
	case t.Each != "" && t.Each != "files" && t.Each != "results" && t.Each != "lines":
		return fmt.Errorf("call.each must be one of files, results, lines, got %q", t.Each)
	case t.Each != "" && t.Repeat != "":
		return errors.New("call.each excludes call.repeat")
	case t.Raw != "" && (named || t.Arguments != nil):
		return errors.New("call.raw excludes all other arguments")
	case named && cmp.Or(t.Tool, callAgent) != callAgent:
		return errors.New("agent, task and context are arguments of call_agent: " +
			"write those of another tool into [turn.call.arguments]")
	}
	return nil
}

// mapLeaves returns a copy of a decoded value with f applied to everything but
// tables and lists. Key is the dotted key of the value.
func mapLeaves(key string, value any, f func(key string, leaf any) (any, error)) (any, error) {
	var err error
	switch x := value.(type) {
	case map[string]any:
		mapped := make(map[string]any, len(x))
		for k, e := range x {
			if mapped[k], err = mapLeaves(key+"."+k, e, f); err != nil {
				return nil, err
			}
		}
		return mapped, nil
	case []map[string]any:
		return mapLeaves(key, toAnys(x), f)
	case []any:
		mapped := make([]any, len(x))
		for i, e := range x {
			if mapped[i], err = mapLeaves(key, e, f); err != nil {
				return nil, err
			}
		}
		return mapped, nil
	}
	return f(key, value)
}

// compileLeaf parses a string as a template. Other values stay as they are.
func compileLeaf(key string, leaf any) (any, error) {
	text, ok := leaf.(string)
	if !ok {
		return leaf, nil
	}
	return parseTemplate(key, text)
}

func parseTemplate(key, text string) (*template.Template, error) {
	return template.New(key).Option("missingkey=error").Funcs(funcs()).Parse(text)
}
