package builtin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/sandbox"
	"github.com/axebus/axe/provider"
)

// Sandbox says what commands may do.
type Sandbox struct {
	// Off runs commands without a sandbox.
	Off bool
	// Namespaces adds namespaces to the other means (sandbox.Config).
	Namespaces bool
	// Network lets commands use the network.
	Network bool
	// Write are the directories that commands may write, relative to the
	// working directory. Nil allows none. Read are directories and files
	// that commands may read, besides the working directory and those of the
	// system.
	Write, Read []string
	// Env are the names of the variables that commands get from the
	// environment of the worker.
	Env []string
}

// maxOutput is the number of bytes of a command's output that are kept, half of
// them from its beginning and half from its end. A command at work takes up to
// so much memory of the worker. When its output is joined, it takes several
// times as much for a moment.
const maxOutput = 16 << 20

func runCommand() Tool {
	return Tool{
		Definition: define("run_command",
			"Execute a shell command in the agent's working directory via sh -c and return the combined "+
				"stdout/stderr output. Commands usually run in a sandbox: they can change the files of "+
				"directories that the agent was given (as a rule the working directory) and of $TMPDIR alone, "+
				"and there is no network unless the agent was given one.",
			map[string]provider.ToolParameter{
				"command": required("The shell command to execute."),
			}),
		Effect: run.ToolOnce,
		Run: func(ctx context.Context, c Call) (string, error) {
			command := c.Arguments["command"]
			if strings.TrimSpace(command) == "" {
				return "", errors.New("command is required")
			}
			dir, err := filepath.Abs(c.Dir)
			if err != nil {
				return "", err
			}
			r, err := sandbox.Run(ctx, Held(dir, c.Key, c.Sandbox()), []string{"/bin/sh", "-c", command}, nil)
			if err != nil {
				return "", err
			}
			return outputOf(r)
		},
	}
}

// Held returns the configuration of the sandbox for a program that works in an
// absolute directory. Key is the key of the program's call.
func Held(dir, key string, s Sandbox) sandbox.Config {
	return sandbox.Config{
		Dir: dir, Write: s.Write, Read: s.Read, Network: s.Network, Off: s.Off,
		Namespaces: s.Namespaces, Env: environment(dir, key, s.Env), Head: maxOutput / 2, Tail: maxOutput / 2,
	}
}

// environment returns the environment of a command. HOME is the directory, and
// AXE_IDEMPOTENCY_KEY the key of the call. PATH, LANG, LC_ALL, USER, LOGNAME,
// TERM and the named variables are those of the worker. It has no other one.
func environment(dir, key string, names []string) []string {
	env := []string{"HOME=" + dir, "AXE_IDEMPOTENCY_KEY=" + key}
	for _, name := range append([]string{"PATH", "LANG", "LC_ALL", "USER", "LOGNAME", "TERM"}, names...) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// truncated stands in the place of the middle of an output that is too long. It
// has the bound in MiB and the bytes that are lost.
const truncated = "\n... [output truncated, exceeded %d MiB: %d bytes left out here]\n"

// outputOf returns the output of a command. For a command that failed it
// returns an error with the exit code and the output. If the command was ended
// for its use of the machine, the error says so. A command that ctx ended has
// its output and the cause.
func outputOf(r sandbox.Result) (string, error) {
	var out strings.Builder
	out.Grow(len(r.Output.Head) + len(r.Output.Tail) + len(truncated))
	out.Write(r.Output.Head)
	if r.Output.Dropped > 0 {
		fmt.Fprintf(&out, truncated, maxOutput>>20, r.Output.Dropped)
	}
	out.Write(r.Output.Tail)
	text := strings.ToValidUTF8(out.String(), "\uFFFD")
	switch {
	case errors.Is(r.Cause, sandbox.ErrProcesses), errors.Is(r.Cause, sandbox.ErrMemory):
		return "", fmt.Errorf("%w\n%s", r.Cause, text)
	case r.Cause != nil:
		return text, r.Cause
	case r.Code != 0:
		return "", fmt.Errorf("exit code %d\n%s", r.Code, text)
	}
	return text, nil
}
