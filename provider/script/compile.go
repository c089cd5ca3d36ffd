package script

import (
	"cmp"
	"errors"
	"fmt"
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
	case provider.Auth, provider.RateLimit, provider.Timeout, provider.Overloaded, provider.BadRequest, provider.Server:
	default:
		const known = "auth, rate_limit, timeout, overloaded, bad_request, server"
		return nil, fmt.Errorf("fail.category must be one of %s, got %q", known, f.Category)
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
		if c.arguments[k], err = mapLeaves(k, value, compileLeaf); err != nil {
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

// compile parses a template. The empty text gives nil.
func compile(key, text string) (*template.Template, error) {
	if text == "" {
		return nil, nil
	}
	return parseTemplate(key, text)
}

func parseTemplate(key, text string) (*template.Template, error) {
	return template.New(key).Option("missingkey=error").Funcs(funcs()).Parse(text)
}

func duration(key, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s must be a duration such as 200ms, got %q", key, s)
	}
	return d, nil
}
