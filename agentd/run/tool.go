package run

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/subjects"
)

// ToolEffect says how often the effect of a tool may happen.
type ToolEffect string

// The effects of tools.
const (
	// ToolReads: the tool changes nothing. After a crash it is asked again.
	// In a turn, calls of such tools run side by side.
	ToolReads ToolEffect = "read"
	// ToolIdempotent: a second call with the same key changes nothing more.
	// After a crash the tool is asked again, with the same key.
	ToolIdempotent ToolEffect = "idempotent"
	// ToolOnce: every call may change something. A worker writes to the log
	// that it begins. After a crash the call is not made again, and its
	// outcome is KindUnknown.
	ToolOnce ToolEffect = "once"
)

// OnUnknown says how a run goes on after a call of a tool that may have taken
// effect (KindUnknown).
type OnUnknown string

// The choices. The empty value is UnknownTell.
const (
	// UnknownTell: the run's model is told, and decides.
	UnknownTell OnUnknown = "tell"
	// UnknownAsk: the tool run waits for a person, who settles the call.
	UnknownAsk OnUnknown = "ask"
	// UnknownAgain: the tool is asked again.
	UnknownAgain OnUnknown = "again"
	// UnknownFail: the run fails.
	UnknownFail OnUnknown = "fail"
)

// ServedTool is a tool of a run's model that a tool run carries out.
type ServedTool struct {
	// Name is the tool's name for the model.
	Name string `json:"name"`
	// By is the agent or the toolset that serves the tool.
	By string `json:"by"`
	// Tool is the tool's name in its toolset, or "server/tool" for a tool
	// of an agent's own MCP server. It is empty for a built-in tool.
	Tool   string     `json:"tool,omitzero"`
	Effect ToolEffect `json:"effect"`
	// Timeout bounds a call. 0 leaves it the rest of the run's own time.
	Timeout   time.Duration `json:"timeout_ns,omitzero"`
	OnUnknown OnUnknown     `json:"on_unknown,omitzero"`
}

// FullName is the name by which files and policies name the tool: "set/tool",
// or the name of a built-in tool.
func (t ServedTool) FullName() string {
	switch {
	case t.Tool == "":
		return t.Name
	case strings.Contains(t.Tool, "/"):
		return t.Tool
	}
	return t.By + "/" + t.Tool
}

// ServedTool returns the served tool with a name.
func (s *Start) ServedTool(name string) (ServedTool, bool) {
	i := slices.IndexFunc(s.Served, func(t ServedTool) bool { return t.Name == name })
	if i < 0 {
		return ServedTool{}, false
	}
	return s.Served[i], true
}

// ToolInput is the part of a call's body that makes its run a tool run: a run
// without a model, which carries out one tool call.
type ToolInput struct {
	// Name is the tool's name at the agent or toolset that serves it.
	Name string `json:"name"`
	// Arguments is the JSON object of the model's arguments.
	Arguments json.RawMessage `json:"arguments"`
	// OnUnknown is UnknownAgain if a call that may have taken effect is to
	// be made again, and UnknownAsk if a person is to settle it.
	OnUnknown OnUnknown `json:"on_unknown,omitzero"`
	// Timeout bounds a call of a tool with UnknownAsk, whose run has all
	// the time of its caller. 0 bounds it by the run's deadline alone, as
	// for every other tool.
	Timeout time.Duration `json:"timeout_ns,omitzero"`
	// Cwd is the working directory of the run that calls the tool, below
	// the agent's own.
	Cwd string `json:"cwd,omitzero"`
	// AllowedHosts are the hosts that url_fetch may ask. A call without the
	// list uses that of the agent's file.
	AllowedHosts []string `json:"allowed_hosts,omitempty"`
	// Approvers are those of the Start of the run that calls the tool. If
	// the tool run is held, their decisions alone count.
	Approvers subjects.Approvers `json:"approvers,omitempty"`
}

// ToolKey is the key of the call that a tool run carries out. It is the address
// of the run: the same for every attempt, and of no other call.
func ToolKey(r subjects.Run) string { return r.Tree.String() + "." + r.Path.String() }

// Attempt is one attempt to carry out a tool with the effect ToolOnce. It
// is on the log of the tool run before the tool begins.
type Attempt struct {
	// ID tells the attempt from every other one. A worker that finds its
	// own attempt on the log may go on with it: the answer to its write was
	// lost.
	ID string `json:"id"`
	// Detail is what the tool needs to find out later whether the attempt
	// took effect. Most tools have none.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// StartedAttempt is an attempt on the log.
type StartedAttempt struct {
	Attempt
	// Worker is the name of the worker that makes the attempt.
	Worker string
	// Time is the stream's time of the entry.
	Time time.Time
}

// startTool folds the start of a tool's work. The run goes on under the same
// owner.
func startTool(s State, e ToolStarted) (State, error) {
	before := s.Phase
	s, err := s.append(e.Meta, e.Entry)
	if err != nil || s.Ended() {
		return s, err
	}
	if before != Ready || s.Input.Tool == nil {
		return s, fmt.Errorf("%w: log message %d starts a tool in a run that is none", ErrCorrupt, e.Seq)
	}
	s.Attempt = &StartedAttempt{*e.Entry.Attempt, e.Entry.Worker, e.Time}
	s.Owner, s.Hold, s.MayBeginAgain = e.Entry.Trigger, nil, false
	return s, nil
}

// unknownEnd returns the end of a run by a call of its last turn that may have
// taken effect, if the run is to fail then. With UnknownAsk a person has
// settled the call so, or no person can be asked.
func (ts Turns) unknownEnd() (End, bool) {
	if len(ts) == 0 {
		return End{}, false
	}
	for i, o := range ts.last().Outcomes {
		c := ts.last().Entry.Calls[i]
		fails := c.OnUnknown == UnknownFail || c.OnUnknown == UnknownAsk
		if o != nil && o.Kind == KindUnknown && c.Op == OpTool && fails {
			return End{Kind: KindUnknown, Text: c.Tool + ": " + o.Error}, true
		}
	}
	return End{}, false
}
