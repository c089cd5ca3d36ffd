package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestMain lets the test binary be the helper of a sandbox, and a program that
// makes one attempt.
func TestMain(m *testing.M) {
	MaybeExec()
	if len(os.Args) > 2 && os.Args[1] == attemptArg {
		os.Exit(attempt(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

// attemptArg lets the test binary make one attempt, in a sandbox or without.
const attemptArg = "sandbox-attempt"

// setUp returns a Config for programs that may write their working directory.
func setUp(tb testing.TB) Config {
	tb.Helper()
	base := tb.TempDir()
	dir, temp := filepath.Join(base, "work"), filepath.Join(base, "tmp")
	for _, d := range []string{dir, temp} {
		if err := os.Mkdir(d, 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	return Config{Dir: dir, Write: []string{dir}, Env: []string{"PATH=" + os.Getenv("PATH")}, TempBase: temp}
}

// shell runs a script of sh for at most a minute. It fails the test if the
// script cannot be run, or if its TMPDIR cannot be removed.
func shell(t *testing.T, c Config, script string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return shellUntil(ctx, t, c, script)
}

// shellUntil is shell with another end of the script: when ctx ends.
func shellUntil(ctx context.Context, t *testing.T, c Config, script string) Result {
	t.Helper()
	result, err := Run(ctx, c, []string{"/bin/sh", "-c", script}, nil)
	if err != nil || result.TempErr != nil {
		t.Fatalf("run of the script: error %v, error of its TMPDIR %v", err, result.TempErr)
	}
	return result
}
