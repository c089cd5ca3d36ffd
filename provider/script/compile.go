package script

import (
	"cmp"
	"errors"
	"fmt"
	"text/template"
	"time"

	"github.com/axebus/axe/provider"
)

// compile checks a [[turn]] and parses its templates.
func (t *turnTable) compile() (entry, error) {
	if t.Text == nil && t.Fail == nil && len(t.Call) == 0 {
		return entry{}, errors.New("answers nothing: want text, fail or call")
	}
	if t.Fail != nil && (t.Text != nil || len(t.Call) > 0) {
		return entry{}, errors.New("fail excludes text and call")
	}
	if t.Turn != nil && *t.Turn < 1 {
		return entry{}, fmt.Errorf("turn = %d: turns count from 1", *t.Turn)
	}
	var e entry
	if t.Turn != nil {
		e.turn = *t.Turn
	}
	var err error
	if e.latency, err = duration("latency", t.Latency); err != nil {
		return entry{}, err
	}
	if e.when, err = compile("when", t.When); err != nil {
		return entry{}, err
	}
	if t.Text != nil {
		if e.text, err = compile("text", *t.Text); err != nil {
			return entry{}, err
		}
	}
	if t.Fail != nil {
		if e.fail, err = t.Fail.compile(); err != nil {
			return entry{}, err
		}
	}
	for _, c := range t.Call {
		compiled, err := c.compile()
		if err != nil {
			return entry{}, err
		}
		e.calls = append(e.calls, compiled)
	}
	return e, nil
}

func (f *failTable) compile() (*failure, error) {
	c := provider.Category(f.Category)
	switch c {
	case provider.Auth,
		provider.RateLimit,
		provider.Timeout,
		provider.Overloaded,
		provider.BadRequest,
		provider.Server:
	default:
		return nil, fmt.Errorf(
			"fail.category %q is none of auth, rate_limit, timeout, overloaded, bad_request, server",
			f.Category,
		)
	}
	after, err := duration("fail.retry_after", f.RetryAfter)
	if err != nil {
		return nil, err
	}
	message, err := compile("fail.message", f.Message)
	if err != nil {
		return nil, err
	}
	return &failure{provider.Error{Category: c, Status: f.Status, RetryAfter: after}, message}, nil
}

func (t *callTable) compile() (call, error) {
	named := map[string]string{"agent": t.Agent, "task": t.Task, "context": t.Context}
	c := call{tool: cmp.Or(t.Tool, callAgent), each: t.Each, arguments: map[string]any{}}
	if err := t.check(); err != nil {
		return call{}, err
	}
	var err error
	if c.repeat, err = compile("repeat", t.Repeat); err != nil {
		return call{}, err
	}
	if c.raw, err = compile("raw", t.Raw); err != nil {
		return call{}, err
	}
	for k, value := range t.Arguments {
		if c.arguments[k], err = compileValue(k, value); err != nil {
			return call{}, err
		}
	}
	for k, text := range named {
		if text == "" {
			continue
		}
		if c.arguments[k], err = compile(k, text); err != nil {
			return call{}, err
		}
	}
	return c, nil
}

// check refuses keys that exclude each other.
func (t *callTable) check() error {
	named := t.Agent != "" || t.Task != "" || t.Context != ""
	switch {
	case t.Each != "" && t.Each != "files" && t.Each != "results" && t.Each != "lines":
		return fmt.Errorf("call.each %q is none of files, results, lines", t.Each)
	case t.Each != "" && t.Repeat != "":
		return errors.New("call.each excludes call.repeat")
	case t.Raw != "" && (named || t.Arguments != nil):
		return errors.New("call.raw excludes all other arguments")
	case named && cmp.Or(t.Tool, callAgent) != callAgent:
		return errors.New(
			"agent, task and context are arguments of call_agent: another tool's go into [turn.call.arguments]",
		)
	}
	return nil
}

// compileValue puts templates in place of the strings in a value.
func compileValue(key string, value any) (any, error) {
	switch x := value.(type) {
	case string:
		return template.New(key).Option("missingkey=error").Funcs(funcs()).Parse(x)
	case map[string]any:
		compiled := make(map[string]any, len(x))
		for k, e := range x {
			c, err := compileValue(key+"."+k, e)
			if err != nil {
				return nil, err
			}
			compiled[k] = c
		}
		return compiled, nil
	case []map[string]any:
		return compileValue(key, anys(x))
	case []any:
		compiled := make([]any, len(x))
		for i, e := range x {
			c, err := compileValue(key, e)
			if err != nil {
				return nil, err
			}
			compiled[i] = c
		}
		return compiled, nil
	default:
		return value, nil
	}
}

// compile parses a template; no text is no template.
func compile(key, text string) (*template.Template, error) {
	if text == "" {
		return nil, nil
	}
	return template.New(key).Option("missingkey=error").Funcs(funcs()).Parse(text)
}

func duration(key, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s %q is no duration such as 200ms", key, s)
	}
	return d, nil
}
