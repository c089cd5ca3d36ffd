package budget

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/axebus/axe/subjects"
)

// Tally counts the agents, turns, tokens and tool calls that the runs of a
// scope have used so far. A number that the scope does not bound may be too
// low. The zero value is the tally of a scope before its first model call.
type Tally struct {
	// Agents is the number of runs called or about to be called. The
	// scope's own run is not counted here.
	Agents int `json:"agents"`
	// Turns is the number of model calls made or about to be made.
	Turns int `json:"turns"`
	// Tokens is the number of input and output tokens of the answers.
	Tokens int `json:"tokens"`
	// ToolCalls is the number of tool runs called or about to be called.
	ToolCalls int `json:"tool_calls,omitzero"`
	// Reserved are the reservations of the requests in flight. A scope
	// without a bound on tokens has none.
	Reserved []Reservation `json:"reserved,omitempty"`
	// Grants are the grants that this message of the tally made or changed.
	Grants []Grant `json:"grants,omitempty"`
}

// Grant is the number of runs and of tool runs that one turn may start, as one
// message of a tally has it.
type Grant struct {
	// By is the path of the run that takes the turn.
	By subjects.Path `json:"by"`
	// Turn is the number of that run's turn, from 1.
	Turn int `json:"turn"`
	// Calls is the number of runs that the turn may start.
	Calls int `json:"calls"`
	// ToolCalls is the number of tool runs that the turn may start.
	ToolCalls int `json:"tool_calls,omitzero"`
}

// ExceededError says that a scope has no room left under one of its bounds.
type ExceededError struct {
	Used  int
	Limit int
	// Unit is "agents", "turns", "tokens" or "tool calls".
	Unit string
	// Needs is the estimate of a request that has too little room, 0 if
	// there is no room at all.
	Needs int
}

// Error is the text of the outcome that the bound brings about. A parent's
// model reads it.
func (e *ExceededError) Error() string {
	text := fmt.Sprintf("budget exceeded: used %d of %d %s", e.Used, e.Limit, e.Unit)
	if e.Needs > 0 {
		text += fmt.Sprintf(", and the next request needs about %d", e.Needs)
	}
	return text
}

// Decode reads a stored tally. An empty or unreadable body is the zero tally.
func Decode(b []byte) Tally {
	var t Tally
	if json.Unmarshal(b, &t) != nil {
		return Tally{}
	}
	return t
}

// Next returns the tally that the next message starts from. Earlier grants stay
// in the earlier messages.
func (t Tally) Next() Tally {
	t.Grants = nil
	return t
}

// Granted returns the grant that this message has of a turn. It returns false
// if the message has none.
func (t Tally) Granted(by subjects.Path, turn int) (granted Grant, ok bool) {
	for _, g := range t.Grants {
		if g.By == by && g.Turn == turn {
			granted, ok = g, true
		}
	}
	return granted, ok
}

// Record counts the tokens of an answer in place of its reservation, and grants
// its turn as much of the wanted grant g as the scope has room for. Already is
// the grant that the same turn had before, by a worker that may have died then.
// It is kept.
func (t Tally) Record(b subjects.Budget, g Grant, tokens int, already Grant) (_ Tally, granted Grant) {
	granted = g
	if b.Agents > 0 {
		granted.Calls = max(0, min(g.Calls, already.Calls+b.Agents-1-t.Agents))
	}
	if b.ToolCalls > 0 {
		granted.ToolCalls = max(0, min(g.ToolCalls, already.ToolCalls+b.ToolCalls-t.ToolCalls))
	}
	t, _ = t.Release(g.By, g.Turn, time.Time{})
	t.Agents += max(0, granted.Calls-already.Calls)
	t.ToolCalls += max(0, granted.ToolCalls-already.ToolCalls)
	t.Tokens += tokens
	kept := granted
	kept.Calls = max(granted.Calls, already.Calls)
	kept.ToolCalls = max(granted.ToolCalls, already.ToolCalls)
	return t.grant(kept), granted
}

// Refund lowers the grant of a turn from granted to g, where that is less.
func (t Tally) Refund(g, granted Grant) Tally {
	g.Calls = min(g.Calls, granted.Calls)
	g.ToolCalls = min(g.ToolCalls, granted.ToolCalls)
	t.Agents -= granted.Calls - g.Calls
	t.ToolCalls -= granted.ToolCalls - g.ToolCalls
	return t.grant(g)
}

// covers reports whether the grant has room for all of another one.
func (g Grant) covers(other Grant) bool {
	return other.Calls <= g.Calls && other.ToolCalls <= g.ToolCalls
}

func (t Tally) grant(g Grant) Tally {
	t.Grants = append(t.Grants[:len(t.Grants):len(t.Grants)], g)
	return t
}
