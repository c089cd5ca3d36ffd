package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// The exit codes. A command that a signal ends exits with 128 plus the signal's
// number, for example 130 after ^C.
const (
	CodeOK = 0
	// CodeFailed: the agent failed (50 turns, a bad model name, a request
	// that the provider refused as bad), the bus cannot be reached, or any
	// failure without a code of its own.
	CodeFailed = 1
	// CodeConfig: usage, a bad name, an unknown agent, an invalid file, an
	// unknown id, refused credentials, or a call that a policy does not
	// permit.
	CodeConfig = 2
	// CodeAPI: the model's provider failed, has no key, or a time limit
	// passed.
	CodeAPI = 3
	// CodeBudget: a budget, or the largest depth of a tree.
	CodeBudget = 4
	// CodeCancelled: the tree was cancelled.
	CodeCancelled = 5
)

// Error is a failure with its exit code.
type Error struct {
	Code int
	Err  error
}

// Error returns the text of the failure.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the failure.
func (e *Error) Unwrap() error { return e.Err }

// Fail adds an exit code to an error.
func Fail(code int, err error) error { return &Error{code, err} }

// Usage makes an error of the command line. Its exit code is CodeConfig.
func Usage(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

type usageError struct{ error }

// Unwrap returns the error without the usage mark.
func (e *usageError) Unwrap() error { return e.error }

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal syscall.Signal }

// Error names the signal.
func (e SignalError) Error() string {
	if e.Signal == syscall.SIGINT {
		return "interrupted"
	}
	return "ended by a signal: " + e.Signal.String()
}

// Code returns the exit code of a command that ended with err.
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
	if errors.Is(err, client.ErrOverdue) {
		return CodeAPI
	}
	_, usage := errors.AsType[*usageError](err)
	_, file := errors.AsType[*configs.Error](err)
	input := []error{
		subjects.ErrToken, bus.ErrTooLarge, client.ErrKeptTooShort, client.ErrUnknownTree, client.ErrUnknownRun,
		client.ErrUnknownTurn, client.ErrUnknownDeadLetter, client.ErrUnknownArtifact, client.ErrInvalidMessage,
		client.ErrIDTaken, client.ErrIDReused,
	}
	if usage || file || slices.ContainsFunc(input, func(bad error) bool { return errors.Is(err, bad) }) {
		return CodeConfig
	}
	return CodeFailed
}

// Failed returns the error of a failed outcome, nil if the outcome is
// completed.
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
	return Fail(outcomeCode(o), &outcomeError{text, hint(o)})
}

// outcomeError is the error of a failed outcome. Other programs compare its
// text, so the hint is not in it.
type outcomeError struct {
	text string
	// hint is a person's next step. It has a line of its own.
	hint string
}

// Error returns the text without the hint.
func (e *outcomeError) Error() string { return e.text }

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
		case "", string(provider.BadRequest), string(provider.ContextWindow):
			return CodeFailed
		case run.CategoryConfig:
			return CodeConfig
		}
		return CodeAPI
	case run.KindTurns, run.KindPoisoned, run.KindSubAgentError, run.KindUnknown:
	}
	return CodeFailed
}
