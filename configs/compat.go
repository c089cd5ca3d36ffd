package configs

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/subjects"
)

// compat has the values of the keys that only files of axe 1.8 have. Each of
// them sets a field of an Agent, or is among its Inert keys, or is refused.
type compat struct {
	stream         bool
	responseFormat responseFormat
	maxTokens      int

	maxRetries   int
	initialDelay int
	maxDelay     int

	artifacts    bool
	artifactsDir string
	defaultWrite bool
}

// fields maps the keys of axe 1.8 to the variables for their values.
func (c *compat) fields() map[string]any {
	return map[string]any{
		"stream":                  &c.stream,
		"budget.max_tokens":       &c.maxTokens,
		"params.response_format":  &c.responseFormat,
		"retry.max_retries":       &c.maxRetries,
		"retry.initial_delay_ms":  &c.initialDelay,
		"retry.max_delay_ms":      &c.maxDelay,
		"artifacts.enabled":       &c.artifacts,
		"artifacts.dir":           &c.artifactsDir,
		"artifacts.default_write": &c.defaultWrite,
	}
}

// sameKeys are pairs of a key of axe 1.8 and our own key for the same setting.
// A file has one of them at most.
var sameKeys = [][2]string{
	{"retry.max_retries", "retry.max_attempts"},
	{"retry.initial_delay_ms", "retry.initial"},
	{"retry.max_delay_ms", "retry.max"},
}

// apply checks the values and sets the agent's settings to them. The function
// has reports whether the file has a key.
func (c *compat) apply(a *Agent, has func(key string) bool) *Error {
	for _, pair := range sameKeys {
		if has(pair[0]) && has(pair[1]) {
			const format = "%s and %s set the same: remove one of them"
			return invalid(pair[0], fmt.Sprintf(format, pair[0], pair[1]))
		}
	}
	if err := cmp.Or(c.refused(), c.checkNumbers(), c.responseFormat.check()); err != nil {
		return err
	}
	c.applyRetry(&a.Retry, has)
	if own := a.Budget.Tokens; own == 0 || 0 < c.maxTokens && c.maxTokens < own {
		a.Budget.Tokens = c.maxTokens
	}
	if c.stream {
		a.Inert = append(a.Inert, "stream")
	}
	if c.responseFormat.constrains() {
		a.Inert = append(a.Inert, "params.response_format")
	}
	return nil
}

// refused returns an error for a key without which the agent would do something
// else, and that this version cannot honour.
func (c *compat) refused() *Error {
	switch {
	case c.artifacts:
		return invalid("artifacts.enabled", "artifacts here belong to the tree, and have no directory: "+
			"remove enabled, and add read_artifact and write_artifact to tools")
	case c.artifactsDir != "":
		return invalid("artifacts.dir", "artifacts.dir is set but artifacts.enabled is false")
	}
	return nil
}

func (c *compat) checkNumbers() *Error {
	const longest = int(maxRetryPause / time.Millisecond)
	if err := cmp.Or(
		checkNumber("budget.max_tokens", c.maxTokens, subjects.MaxLimit),
		checkNumber("retry.max_retries", c.maxRetries, maxAttempts-1),
		checkNumber("retry.initial_delay_ms", c.initialDelay, longest),
		checkNumber("retry.max_delay_ms", c.maxDelay, longest),
	); err != nil {
		return err
	}
	if 0 < c.maxDelay && c.maxDelay < c.initialDelay {
		return invalid("retry.max_delay_ms", "retry.max_delay_ms must be >= retry.initial_delay_ms")
	}
	return nil
}

// applyRetry sets the retries. If the file sets one of the two pauses, the
// default of the other one is made to fit, as in axe: the longest pause bounds
// the first one.
func (c *compat) applyRetry(r *Retry, has func(key string) bool) {
	if has("retry.max_retries") {
		r.MaxAttempts = c.maxRetries + 1
	}
	if c.initialDelay > 0 {
		r.Initial = time.Duration(c.initialDelay) * time.Millisecond
		if !has("retry.max") {
			longest := cmp.Or(time.Duration(c.maxDelay)*time.Millisecond, defaultMax)
			r.Initial = min(r.Initial, longest)
		}
	}
	if c.maxDelay > 0 {
		r.Max = time.Duration(c.maxDelay) * time.Millisecond
		if r.Initial == 0 {
			r.Initial = min(defaultInitial, r.Max)
		}
	}
}

// open is a field with any keys below it. They are not keys of the format.
type open interface{ open() }

// responseFormat is the form that an answer shall have: a string, or a table
// with a type.
type responseFormat struct {
	set  bool
	kind string
}

func (*responseFormat) open() {}

// UnmarshalTOML reads either form.
func (f *responseFormat) UnmarshalTOML(value any) error {
	f.set = true
	switch v := value.(type) {
	case string:
		f.kind = v
	case map[string]any:
		f.kind, _ = v["type"].(string)
	default:
		return errors.New("neither a string nor a table")
	}
	return nil
}

// constrains reports whether the answer shall be anything but text.
func (f *responseFormat) constrains() bool { return f.set && f.kind != "text" }

func (f *responseFormat) check() *Error {
	if f.set && !slices.Contains([]string{"text", "json_object", "json_schema"}, f.kind) {
		return invalid("params.response_format", fmt.Sprintf(
			"must be text, json_object or json_schema, or a table with one of them as its type, got %q", f.kind))
	}
	return nil
}
