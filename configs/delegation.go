package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Delegation says how an agent gives work to others.
type Delegation struct {
	// the tools it is offered; none stands for call alone
	Styles Styles
	// tasks of one spawn_agents; 0 stands for DefaultMaxBatch
	MaxBatch int
	// of each run that it spawns, before a last one to answer; 0: no budget
	// of its own
	MaxTurns int
}

// Style is a set of tools with which an agent gives work to others.
type Style string

// The styles.
const (
	// call_agent: agents by name, whose last words are the results
	StyleCall Style = "call"
	// fork, send, check_mail, wait, kill: runs that work beside each other
	// and write to each other
	StyleMail Style = "mail"
	// the same as lines of text, for models that cannot call tools
	StyleSlash Style = "slash"
	// spawn_agent, spawn_agents: agents by name or of nobody's definition,
	// which submit results or errors
	StyleSpawn Style = "spawn"
)

// DefaultMaxBatch is the most tasks of one spawn_agents where a file names no
// other number.
const DefaultMaxBatch = 10

// maxBatch and maxTurns are the most that a file may name.
const (
	maxBatch = 1000
	// of a run's 50 one is for the answer
	maxTurns = 49
)

// Styles are several of them; in a file, one string or a list of strings.
type Styles []Style //nolint:recvcheck // what is decoded into has to be a pointer

// String is the list, with commas.
func (s Styles) String() string {
	names := make([]string, len(s))
	for i, one := range s {
		names[i] = string(one)
	}
	return strings.Join(names, ", ")
}

// UnmarshalTOML implements toml.Unmarshaler.
func (s *Styles) UnmarshalTOML(v any) error {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	*s = nil
	for _, one := range list {
		text, ok := one.(string)
		if !ok {
			return fmt.Errorf("style %v is not a string", one)
		}
		*s = append(*s, Style(text))
	}
	return nil
}

// Has reports whether an agent delegates in a style.
func (d Delegation) Has(s Style) bool {
	return slices.Contains(d.Styles, s) || len(d.Styles) == 0 && s == StyleCall
}

// mailTools are the names of the tools of StyleMail.
var mailTools = []string{"fork", "send", "check_mail", "wait", "kill"}

// Tools are the names of the tools of an agent's styles.
func (d Delegation) Tools() []string {
	var names []string
	if d.Has(StyleCall) {
		names = append(names, "call_agent")
	}
	if d.Has(StyleSpawn) {
		names = append(names, "spawn_agent", "spawn_agents")
	}
	if d.Has(StyleMail) {
		names = append(names, mailTools...)
	}
	return names
}

// Commands are the names of the tools that an agent uses by writing lines of
// text.
func (d Delegation) Commands() []string {
	if d.Has(StyleMail) || !d.Has(StyleSlash) {
		return nil
	}
	return slices.Clone(mailTools)
}

// Batch is the most tasks of one spawn_agents.
func (d Delegation) Batch() int { return cmp.Or(d.MaxBatch, DefaultMaxBatch) }

func checkDelegation(a Agent) *Error {
	known := Styles{StyleCall, StyleSpawn, StyleMail, StyleSlash}
	for _, s := range a.Delegation.Styles {
		if !slices.Contains(known, s) {
			return invalid(
				"delegation.style",
				fmt.Sprintf("delegation.style %q is not known: want one or more of %s", s, known),
			)
		}
	}
	for _, l := range []struct {
		setting
		most int
	}{{setting{"delegation.max_batch", a.Delegation.MaxBatch}, maxBatch}, {setting{"delegation.max_turns", a.Delegation.MaxTurns}, maxTurns}} {
		if l.value > l.most {
			return invalid(l.key, fmt.Sprintf("%s cannot exceed %d", l.key, l.most))
		}
	}
	return nonNegative(
		setting{"delegation.max_batch", a.Delegation.MaxBatch},
		setting{"delegation.max_turns", a.Delegation.MaxTurns},
	)
}
