package cmd_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var findFaults = flag.Bool("faults", false, "plant every fault and run the tests that are to find it (make faults)")

// testTimeout bounds a test. A test that hangs has found nothing. It is longer
// than the five minutes after which a stuck bubble of agentd ends its process,
// which does find the fault, and than the longest walk, which takes five
// minutes alone.
const testTimeout = 15 * time.Minute

// TestFaultsAreFound runs the tests that have to find faults: first without a
// fault, when each must pass, and then with each fault, when each must fail.
// Most of the time goes into compiling and linking, on one processor. So
// several faults are planted at a time, each in a copy of its own: as many as
// -parallel says, by default one for each processor. Without a fault, random
// walks run side by side too, since they take simulated time. The other tests
// run alone.
func TestFaultsAreFound(t *testing.T) {
	if !*findFaults {
		t.Skip("it takes minutes: make faults")
	}
	all := faults(t)
	t.Run("none", func(t *testing.T) {
		// sound maps a package to its test binary.
		sound, ran := map[string]string{}, map[string]bool{}
		for _, f := range all {
			for _, find := range f.finds {
				if !mostWalks(all, find) || ran[find.String()] {
					continue
				}
				ran[find.String()] = true
				if sound[find.pkg] == "" {
					sound[find.pkg] = find.build(t, t.TempDir())
				}
				t.Run(find.test, func(t *testing.T) {
					if find.walks() > 0 {
						t.Parallel()
					}
					took, out, failed := find.run(t, sound[find.pkg], "")
					if failed {
						t.Fatalf("%s fails without a fault, after %v:\n%s", find, took, out)
					}
					t.Logf("passed in %v: %s", took, find)
				})
			}
		}
	})
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			overlay := f.overlay(t, dir)
			built := map[string]string{}
			for _, find := range f.finds {
				if built[find.pkg] == "" {
					built[find.pkg] = find.build(t, dir, "-overlay", overlay)
				}
				took, out, failed := find.run(t, built[find.pkg], "-overlay="+overlay)
				if !failed {
					t.Errorf("%s passes with the fault, after %v", find, took)
					continue
				}
				t.Logf("found in %v by %s:\n%s", took, find, verdict(out))
			}
		})
	}
}

// mostWalks reports whether no fault is to be found by more random walks of the
// same test.
func mostWalks(all []fault, f find) bool {
	return !slices.ContainsFunc(all, func(other fault) bool {
		return slices.ContainsFunc(other.finds, func(o find) bool {
			return o.pkg == f.pkg && o.test == f.test && o.walks() > f.walks()
		})
	})
}

// build compiles the tests of a package. The binary has no tables for
// debuggers, which saves a fifth of the time.
func (f find) build(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	file := filepath.Join(dir, filepath.Base(f.pkg)+".test")
	cmd := exec.CommandContext(
		t.Context(),
		"go",
		slices.Concat([]string{"test", "-c", "-ldflags=-s -w", "-o", file}, flags, []string{f.pkg})...)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s does not compile: %v\n%s", f.pkg, err, out)
	}
	return file
}

// run runs the test, and returns its duration and its output. A test that
// builds the commands builds them with the flag of the go command, too.
func (f find) run(t *testing.T, binary, flag string) (took time.Duration, out string, failed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	flags := []string{"-test.run=^" + f.test + "$", "-test.v", "-test.failfast"}
	cmd := exec.CommandContext(ctx, binary, slices.Concat(flags, f.flags)...)
	// The test only has to fail; rapid need not shrink the failure.
	cmd.Env = append(os.Environ(), "RAPID_NOFAILFILE=true", "RAPID_SHRINKTIME=1ms",
		"GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" "+flag))
	cmd.Dir = filepath.Join("..", filepath.FromSlash(f.pkg))
	begun := time.Now()
	raw, err := cmd.CombinedOutput()
	took, out = time.Since(begun).Round(100*time.Millisecond), string(raw)
	if ctx.Err() != nil {
		t.Fatalf("%s has not ended within %v, and so has found nothing", f, testTimeout)
	}
	if err == nil && !strings.Contains(out, "--- PASS: "+strings.TrimSuffix(f.test, "$")) {
		t.Fatalf("there is no test %s", f)
	}
	return took, out, err != nil
}

var telling = regexp.MustCompile(`(?m)^(panic: .*|\s*--- FAIL: .*|\s+\w+_test\.go:\d+: .*)$`)

// verdict returns the first lines of a failed test's output that describe the
// failure.
func verdict(out string) string {
	var b strings.Builder
	n := 0
	for _, line := range telling.FindAllString(out, -1) {
		line = strings.TrimSpace(line)
		fails := strings.HasPrefix(line, "---") || strings.HasPrefix(line, "panic")
		if fails && n > 0 || !fails && n > 2 {
			continue
		}
		n++
		fmt.Fprintf(&b, "\t%.300s\n", line)
	}
	return b.String()
}
