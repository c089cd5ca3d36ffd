package run

import "encoding/json"

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

// ToolInput is the part of a call's body that makes its run a tool run: a run
// without a model, which carries out one tool call.
type ToolInput struct {
	// Name is the tool's name at the agent or toolset that serves it.
	Name string `json:"name"`
	// Arguments is the JSON object of the model's arguments.
	Arguments json.RawMessage `json:"arguments"`
	Effect    ToolEffect      `json:"effect"`
}
