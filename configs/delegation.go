package configs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Delegation says how an agent delegates.
type Delegation struct {
	// Styles select the tools that the agent is offered. An empty list
	// stands for StyleCall.
	Styles Styles
	// MaxBatch bounds the tasks of one spawn_agents call. 0 stands for
	// DefaultMaxBatch.
	MaxBatch int
	// MaxTurns bounds the turns of each run that the agent spawns. After
	// them the run has one more turn, to answer. 0 stands for no bound.
	MaxTurns int
}

// Style is a set of tools with which an agent delegates.
type Style string

// The styles.
const (
	// StyleCall offers call_agent, which calls an agent by name. The text
	// of the agent's last turn is the result.
	StyleCall Style = "call"
	// StyleMail offers fork, send, check_mail, wait and kill. Forks work
	// beside their parent, and all write to each other.
	StyleMail Style = "mail"
	// StyleSlash offers the tools of StyleMail as lines of text, for models
	// that cannot call tools.
	StyleSlash Style = "slash"
	// StyleSpawn offers spawn_agent and spawn_agents, which start agents by
	// name and ad hoc runs. These submit a result or an error.
	StyleSpawn Style = "spawn"
)

// DefaultMaxBatch is the number of tasks that one spawn_agents call may have if
// a file sets no other.
const DefaultMaxBatch = 10

// maxBatch and maxTurns are the largest values that a file may set.
const (
	maxBatch = 1000
	// A run has 50 turns, and the last one is for its answer.
	maxTurns = 49
)

// Styles is a list of styles. In a file it is one string or a list of strings.
type Styles []Style //nolint:recvcheck // decoding needs a pointer

// String returns the styles, separated by commas.
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

// Names returns the names of an agent's styles.
func (d Delegation) Names() []string {
	if len(d.Styles) == 0 {
		return []string{string(StyleCall)}
	}
	names := make([]string, len(d.Styles))
	for i, s := range d.Styles {
		names[i] = string(s)
	}
	return names
}

// mailTools are the names of the tools of StyleMail.
var mailTools = []string{"fork", "send", "check_mail", "wait", "kill"}

// Tools returns the names of the tools of an agent's styles.
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

// Commands returns the names of the tools that an agent uses by writing lines
// of text.
func (d Delegation) Commands() []string {
	if d.Has(StyleMail) || !d.Has(StyleSlash) {
		return nil
	}
	return slices.Clone(mailTools)
}

// Batch returns the largest number of tasks of one spawn_agents call.
func (d Delegation) Batch() int { return cmp.Or(d.MaxBatch, DefaultMaxBatch) }

func checkDelegation(a Agent) *Error {
	known := Styles{StyleCall, StyleSpawn, StyleMail, StyleSlash}
	for _, s := range a.Delegation.Styles {
		if !slices.Contains(known, s) {
			text := fmt.Sprintf("delegation.style must be one or more of %s, got %q", known, s)
			return invalid("delegation.style", text)
		}
	}
	return nil
}
