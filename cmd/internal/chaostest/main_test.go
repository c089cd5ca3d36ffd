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
		os.Exit(m.Run())
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

// keep kills every process of its group, itself included, as soon as the test
// has ended. The test's end of the pipe is then closed, even after a crash.
// Stopped processes are killed too.
func keep() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = syscall.Kill(0, syscall.SIGKILL)
}
