package cmd_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// threePackages is a module of three packages. The test of the first one waits
// for a text through the named pipe.
const threePackages = `
-- go.mod --
module three

go 1.26
-- a/a_test.go --
package a

import (
	"os"
	"testing"
)

func TestWaits(t *testing.T) {
	if _, err := os.ReadFile("../pipe"); err != nil {
		t.Fatal(err)
	}
}
-- b/b_test.go --
package b

import "testing"

func TestPasses(t *testing.T) { t.Log("noise") }
-- c/c_test.go --
package c

import "testing"

func TestPasses(t *testing.T) { t.Log("noise") }

func TestFails(t *testing.T) {
	t.Run("below", func(t *testing.T) { t.Error("got 1, want 2") })
}
`

// TestMakeTest: the program of make test prints each package as soon as it has
// ended, even if a package before it has not. Of the tests it prints only those
// that fail, and exits with 1 then.
func TestMakeTest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := txtar.Write(txtar.Parse([]byte(threePackages)), dir); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := filepath.Abs("../.ci/test.go")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", source, "-p", "3", "-timeout", "1m", "./...")
	cmd.Dir, cmd.Stderr = dir, t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var ends []string
	var all strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || !strings.HasPrefix(fields[1], "three/") {
			continue
		}
		ends = append(ends, fields[0]+" "+fields[1])
		if len(ends) == 2 {
			if err := os.WriteFile(pipe, []byte("."), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("exit code %d, want 1: %v", code, err)
	}
	slices.Sort(ends[:min(2, len(ends))])
	if want := []string{"FAIL three/c", "ok three/b", "ok three/a"}; !slices.Equal(ends, want) {
		t.Errorf("got packages in the order %q, want %q", ends, want)
	}
	if s := all.String(); !strings.Contains(s, "--- FAIL: TestFails/below") || !strings.Contains(s, "got 1, want 2") ||
		strings.Contains(s, "noise") {
		t.Errorf("want only the output of the failed test, got:\n%s", s)
	}
}
