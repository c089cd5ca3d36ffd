package cli

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// The exit codes. A command that a signal ended exits with 128 and the signal's
// number, as shells have it: 130 after ^C.
const (
	CodeOK = 0
	// the agent failed: 50 turns, a bad model name, a request that its
	// provider refuses as bad; a bus that cannot be reached; or something
	// not listed below
	CodeFailed = 1
	// usage, a bad name, an agent that nobody knows or whose file is wrong,
	// an id that there is not
	CodeConfig = 2
	// the model's provider failed or has no key, or the time was over
	CodeAPI       = 3
	CodeBudget    = 4 // a limit on the whole tree
	CodeCancelled = 5 // somebody cancelled the tree
)

// Error is a failure with its exit code.
type Error struct {
	Code int
	Err  error
}

// Error is the line that a user sees.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the failure.
func (e *Error) Unwrap() error { return e.Err }

// Fail gives a failure an exit code.
func Fail(code int, err error) error { return &Error{code, err} }

// Usage is a failure of whoever wrote the command line.
func Usage(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

type usageError struct{ error }

// Unwrap returns what is wrong with the command line.
func (e *usageError) Unwrap() error { return e.error }

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal syscall.Signal }

// Error names what happened in a user's words.
func (e SignalError) Error() string {
	if e.Signal == syscall.SIGINT {
		return "interrupted"
	}
	return "ended by a signal: " + e.Signal.String()
}

// Code is the exit code of a command that ended with err.
func Code(err error) int {
	if err == nil {
		return CodeOK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	if e, ok := errors.AsType[SignalError](err); ok {
		return 128 + int(e.Signal)
	}
	if _, ok := errors.AsType[*usageError](err); ok {
		return CodeConfig
	}
	if _, ok := errors.AsType[*configs.Error](err); ok {
		return CodeConfig
	}
	for _, bad := range []error{subjects.ErrToken, client.ErrUnknownTree, client.ErrUnknownRun, client.ErrUnknownTurn, client.ErrUnknownDeadLetter, client.ErrInvalidMessage, client.ErrIDTaken, bus.ErrTooLarge} {
		if errors.Is(err, bad) {
			return CodeConfig
		}
	}
	return CodeFailed
}

// Failed is the failure that a tree's outcome is, nil if it completed.
func Failed(o run.Outcome) error {
	if o.Status == run.StatusCompleted {
		return nil
	}
	text := o.Error
	switch {
	case text == "":
		text = "failed without a reason"
	case o.Kind == run.KindCancelled && !strings.HasPrefix(text, "cancelled"):
		text = "cancelled: " + text
	}
	return Fail(outcomeCode(o), errors.New(text))
}

func outcomeCode(o run.Outcome) int {
	switch o.Kind {
	case run.KindTimeout:
		return CodeAPI
	case run.KindCancelled:
		return CodeCancelled
	case run.KindBudget, run.KindDepth:
		return CodeBudget
	case run.KindUnknownAgent, run.KindPolicy:
		return CodeConfig
	case run.KindError:
		switch o.Category {
		case "", string(provider.BadRequest):
			return CodeFailed
		case run.CategoryConfig:
			return CodeConfig
		}
		return CodeAPI
	case run.KindTurns, run.KindPoisoned, run.KindSubAgentError:
	}
	return CodeFailed
}
