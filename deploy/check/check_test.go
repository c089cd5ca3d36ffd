// Package check_test checks the image, compose.yaml and the chart of axe with
// the libraries of Compose, Helm and Kubernetes. It is a module of its own, so
// that axe does not have theirs: make deploy-check runs it.
package check_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// programs is the directory with static programs of axe.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

// run builds the programs for all tests.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "axe-deploy-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	programs = dir
	build := exec.Command("go", "build", "-o", dir+"/", "./cmd/agentd", "./cmd/axe", "./cmd/axe-submit")
	build.Dir, build.Stderr = "../..", os.Stderr
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := build.Run(); err != nil {
		panic(err)
	}
	return m.Run()
}

// checkCommand runs a command of axe with --help, so that it parses its
// arguments and does nothing else.
func checkCommand(t *testing.T, of string, command []string) {
	t.Helper()
	name := filepath.Base(command[0])
	if !slices.Contains([]string{"agentd", "axe", "axe-submit"}, name) {
		t.Errorf("%s: %q is no program of axe", of, command)
		return
	}
	args := append(slices.Clone(command[1:]), "--help")
	out, err := exec.CommandContext(t.Context(), filepath.Join(programs, name), args...).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %q: %v: %s", of, command, err, out)
	}
	// The help of the root command is shown for an unknown subcommand.
	if _, usage, _ := strings.Cut(string(out), "Usage:\n  "+name); name == "axe" &&
		!strings.HasPrefix(usage, " "+command[1]) {
		t.Errorf("%s: %q is no command of axe", of, command)
	}
}

// grace returns the value of the flag --grace of a worker's command.
func grace(t *testing.T, command []string) time.Duration {
	t.Helper()
	for _, arg := range command {
		if text, ok := strings.CutPrefix(arg, "--grace="); ok {
			d, err := time.ParseDuration(text)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatalf("%q has no --grace", command)
	return 0
}

// afterGrace is the least time that a worker has, after its model calls have
// ended, until it is killed.
const afterGrace = 20 * time.Second

// credsOf are the creds files that a container of a command needs: a worker has
// the role worker, and so on.
func credsOf(command []string) string {
	switch name := filepath.Base(command[0]); {
	case name == "agentd":
		return "worker.creds"
	case len(command) > 1 && command[1] == "provision":
		return "provisioner.creds"
	}
	return "operator.creds"
}
