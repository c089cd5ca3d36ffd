package toolset_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/sandbox"
	"github.com/axebus/axe/internal/toolset"
)

// commandSet returns a toolset of the kind command. Its tool act runs a script
// of sh, with the key of the call in the variable KEY.
func commandSet(t *testing.T, script string) toolset.Set {
	t.Helper()
	dir := t.TempDir()
	def := configs.Toolset{Kind: configs.ToolsetCommand, Tools: map[string]configs.ToolsetTool{
		"act": {Command: []string{"/bin/sh", "-c", script}},
	}}
	return toolset.Commands(def, func(key string) (sandbox.Config, error) {
		return sandbox.Config{Dir: dir, Env: []string{"PATH=/usr/bin:/bin", "KEY=" + key}}, nil
	})
}

// TestCommand: a program reads the arguments on its standard input. Its
// standard output is the result. The standard error is part of the error of a
// program that fails.
func TestCommand(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, script, want string }{
		{"success", `echo noise >&2; echo "$KEY $(cat)"`, "tree.r-1-0 {\"a\":1}\n"},
		{"failure", `echo out; echo why >&2; exit 3`, "error: exit code 3\nwhy\n\nout\n"},
		{"binary", `printf 'a\377b'`, "a\uFFFDb"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r, err := commandSet(t, test.script).Call(t.Context(), callOf(`{"a":1}`))
			got := r.Text
			if err != nil {
				got = "error: " + err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestCommandStopped: the end of the context ends the program. The result is
// the output until then.
func TestCommandStopped(t *testing.T) {
	t.Parallel()
	enough := errors.New("enough")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, enough)
	defer cancel()
	r, err := commandSet(t, `echo begun; sleep 100`).Call(ctx, callOf(`{}`))
	if !errors.Is(err, enough) || r.Text != "begun\n" {
		t.Errorf("got %q, error %v; want begun, and %v", r.Text, err, enough)
	}
}

// TestCommandNotStarted: a call whose program cannot be started is not lost.
func TestCommandNotStarted(t *testing.T) {
	t.Parallel()
	def := configs.Toolset{Tools: map[string]configs.ToolsetTool{"act": {Command: []string{"./none"}}}}
	set := toolset.Commands(def, func(string) (sandbox.Config, error) { return sandbox.Config{Dir: t.TempDir()}, nil })
	_, err := set.Call(t.Context(), callOf(`{}`))
	if err == nil || errors.Is(err, toolset.ErrLost) || !strings.Contains(err.Error(), "none") {
		t.Errorf("got %v, want an error that names the program", err)
	}
}
