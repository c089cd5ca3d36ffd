package toolset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/sandbox"
)

// MaxResult bounds the bytes of one result.
const MaxResult = 16 << 20

// Commands returns the toolset of a file of the kind command. Each call of a
// tool starts its program. The program gets the arguments as a JSON object on
// its standard input, and its standard output is the result. Hold returns how a
// program is held, for the key of its call.
func Commands(def configs.Toolset, hold func(key string) (sandbox.Config, error)) Set {
	return commandSet{static{defined(def)}, def, hold}
}

type commandSet struct {
	static

	def  configs.Toolset
	hold func(key string) (sandbox.Config, error)
}

// Call starts the program of a tool.
func (s commandSet) Call(ctx context.Context, c Call) (Result, error) {
	tool, ok := s.def.Tools[c.Tool]
	if !ok {
		return Result{}, noTool(c.Tool)
	}
	held, err := s.hold(c.Key)
	if err != nil {
		return Result{}, err
	}
	held.Apart = true
	held.Head, held.Tail = MaxResult-sandbox.DefaultKeep, sandbox.DefaultKeep
	r, err := sandbox.Run(ctx, held, tool.Command, c.Arguments)
	if errors.Is(err, sandbox.ErrLost) {
		return Result{}, fmt.Errorf("%w: %w", ErrLost, err)
	}
	if err != nil {
		return Result{}, err
	}
	return printed(r)
}

// printed returns the result of a program that ended.
func printed(r sandbox.Result) (Result, error) {
	out := text(r.Output.String())
	switch errs := text(r.Errors.String()); {
	case errors.Is(r.Cause, sandbox.ErrProcesses), errors.Is(r.Cause, sandbox.ErrMemory):
		return Result{}, fmt.Errorf("%w\n%s", r.Cause, errs)
	case r.Cause != nil:
		return Result{Text: out}, r.Cause
	case r.Code != 0:
		return Result{}, fmt.Errorf("exit code %d\n%s", r.Code, strings.Join(nonEmpty(errs, out), "\n"))
	}
	return Result{Text: out}, nil
}

func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(t string) bool { return t == "" })
}
