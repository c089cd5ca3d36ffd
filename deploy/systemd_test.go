// Package deploy_test checks the files of this directory: units of systemd,
// configurations of nats-server, the image and the chart.
package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// maxExposure is the largest exposure of a unit, of 10, as systemd-analyze
// security measures it.
const maxExposure = 1.5

// units returns the files of the units.
func units(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("systemd/*.service")
	if err != nil || len(all) != 2 {
		t.Fatalf("got the units %q, error %v; want two", all, err)
	}
	return all
}

// analyze runs systemd-analyze, and returns what it says.
func analyze(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze: Debian has it in the package systemd")
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("systemd-analyze %q: %v: %s", args, err, out)
	}
	return string(out)
}

var exposure = regexp.MustCompile(`Overall exposure level for \S+: ([0-9.]+)`)

// TestUnitsAreHardened: no unit has more exposure than maxExposure.
func TestUnitsAreHardened(t *testing.T) {
	for _, unit := range units(t) {
		out := analyze(t, "security", "--offline=true", "--no-pager", unit)
		m := exposure.FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("%s: systemd-analyze says no exposure: %s", unit, out)
		}
		got, err := strconv.ParseFloat(m[1], 64)
		if err != nil || got > maxExposure {
			t.Errorf("%s has the exposure %s, error %v; want at most %.1f:\n%s", unit, m[1], err, maxExposure, out)
		}
	}
}

// TestUnitsAreKnown: systemd knows every key and value of the units. Their
// programs are replaced by one that every machine has.
func TestUnitsAreKnown(t *testing.T) {
	dir := t.TempDir()
	program := regexp.MustCompile(`(?m)^(Exec\w+)=\S+`)
	var files []string
	for _, unit := range units(t) {
		b, err := os.ReadFile(unit)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, strings.Replace(filepath.Base(unit), "@", "@reviews", 1))
		if err := os.WriteFile(file, program.ReplaceAll(b, []byte("$1=/bin/true")), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	if out := analyze(t, append([]string{"verify", "--man=no"}, files...)...); out != "" {
		t.Errorf("systemd-analyze verify says: %s", out)
	}
}

// TestStopFitsTheDrain: systemd kills a worker later than its model calls end,
// with time for what follows. The worker may start for as long as it likes, and
// the watchdog is on.
func TestStopFitsTheDrain(t *testing.T) {
	b, err := os.ReadFile("systemd/agentd@.service")
	if err != nil {
		t.Fatal(err)
	}
	seconds := func(pattern string) time.Duration {
		t.Helper()
		m := regexp.MustCompile(pattern).FindSubmatch(b)
		if m == nil {
			t.Fatalf("agentd@.service does not match %s", pattern)
		}
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(n) * time.Second
	}
	grace, stop := seconds(`(?m)^ExecStart=.* --grace (\d+) `), seconds(`(?m)^TimeoutStopSec=(\d+)$`)
	if stop < grace+20*time.Second {
		t.Errorf("the worker is killed %s after it begins to drain, want 20s more than its grace of %s at least",
			stop, grace)
	}
	for _, line := range []string{"Type=notify", "TimeoutStartSec=infinity", "WatchdogSec=30", "KillMode=mixed"} {
		if !strings.Contains(string(b), "\n"+line+"\n") {
			t.Errorf("agentd@.service lacks %s", line)
		}
	}
}
