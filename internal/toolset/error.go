package toolset

import (
	"errors"

	"github.com/axebus/axe/agentd/run"
)

// ErrLost is the error of a call that was made and of which no answer came. The
// tool may have taken effect.
var ErrLost = errors.New("no answer came")

// InputError is the error of a call that goes on only after a person's answers.
// The next call has the form with the answers in Call.Filled. The form has no
// ID.
type InputError struct{ Form run.Form }

// TaskError is the error of a call with which the server goes on as a task. The
// next call has the task in Call.Task, and asks for it.
type TaskError struct {
	Task run.ServerTask
	// Why says why the server was not asked for the task, or gave no
	// answer. It is nil if the server is still at work.
	Why error
}

// Error says that the task goes on, or why that is not known.
func (e *TaskError) Error() string {
	if e.Why != nil {
		return "the task of the server is not known: " + e.Why.Error()
	}
	return "the server goes on with the call as a task"
}

// ErrForgotten is the error of a call with a task that the server does not know
// any more. The task may have taken effect.
var ErrForgotten = errors.New("the server does not know its task any more")

// Error says what the tool asks.
func (e *InputError) Error() string { return e.Form.String() }
