package chaostest

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
)

// roleEnv makes a process of this test's own binary a server or a keeper
// instead of a test.
const roleEnv = "AXE_CHAOS_ROLE"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "":
		os.Exit(isolated(m.Run))
	case "keeper":
		keep()
	case "server":
		if err := serve(os.Getenv(serverEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		fmt.Fprintf(os.Stderr, "%s=%q: unknown role\n", roleEnv, role)
		os.Exit(2)
	}
}

// isolated runs the tests with directories of their own. A worker with a server
// keeps the key of the server there, and its clients find it.
func isolated(run func() int) int {
	dir, err := os.MkdirTemp("", "axe-chaos-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"XDG_STATE_HOME", "XDG_CONFIG_HOME"} {
		if err := os.Setenv(name, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return run()
}

// keep kills every process of its group, itself included, as soon as the test
// has ended. The test's end of the pipe is then closed, even after a crash.
// Stopped processes are killed too.
func keep() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = syscall.Kill(0, syscall.SIGKILL)
}
