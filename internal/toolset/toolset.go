// Package toolset has what a worker needs to serve a toolset: tools that a
// program, an HTTP service or a server of another protocol carries out. A
// toolset is defined by a file of its own (configs.Toolset).
package toolset

import (
	"context"
	"encoding/json"
	"time"

	"github.com/axebus/axe/agentd/run"
)

// Set carries out the tools of one toolset. Its methods may be called at the
// same time.
type Set interface {
	// Tools returns the tools that the toolset has at present, in the order
	// of its server. It may connect to the server, and fails if that is
	// down. It takes as long as ctx allows.
	Tools(ctx context.Context) ([]Tool, error)
	// Changed has a token after Tools may have begun to return others.
	Changed() <-chan struct{}
	// Call carries out a tool. The error is for the model: the call failed,
	// or the tool could not be asked. It wraps ErrLost if the tool was
	// asked and gave no answer, so that it may have taken effect, an
	// InputError if the tool goes on only after answers, and a TaskError if
	// it goes on as a task of its server. If ctx ends, the call is
	// cancelled, and the result is what there was until then. A call with a
	// task asks for the task, and is never cancelled.
	Call(ctx context.Context, c Call) (Result, error)
	// Close ends what the set has started. It is called once, after the
	// last call.
	Close()
}

// Canceller is a Set of which some calls go on as tasks (TaskError).
type Canceller interface {
	Set
	// CancelTask asks the server to end a task. The server may not do so.
	CancelTask(ctx context.Context, id string) error
}

// Tool is a tool as its server describes it.
type Tool struct {
	// Name is the tool's name at its server.
	Name        string `json:"name"`
	Description string `json:"description,omitzero"`
	// Schema is the JSON Schema of the arguments, an object.
	Schema json.RawMessage `json:"schema,omitempty"`
	// Effect is the effect that the server names. It is empty if the server
	// names none, or is not trusted.
	Effect run.ToolEffect `json:"effect,omitzero"`
}

// Call is one call of a tool.
type Call struct {
	// Tool is the tool's name at its server.
	Tool string
	// Arguments is a JSON object.
	Arguments json.RawMessage
	// Key is the same for every attempt at the call, and for no other call
	// on the same bus.
	Key string
	// CalledAt is the stream's time of the call, which is the same for
	// every attempt.
	CalledAt time.Time
	// Filled is the form of an earlier attempt with a person's answers, nil
	// if the tool has not asked.
	Filled *run.FilledForm
	// Task is the task as which the server goes on with an earlier attempt,
	// nil if it does not.
	Task *run.AwaitedTask
}

// Result is the result of a call that was carried out.
type Result struct {
	// Text is the text for the model.
	Text string
	// Files are the parts of the result that are no text, such as images.
	Files []File
}

// File is a part of a result that is no text.
type File struct {
	// Name is a file name without a directory. It is unique in its result.
	Name string
	// MediaType is for example "image/png". It may be empty.
	MediaType string
	Bytes     []byte
}
