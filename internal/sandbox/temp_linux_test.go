package sandbox

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAbandonedTemp: the temporary directory of a process stays while the
// process lives. Once it was killed, the next one removes the directory.
func TestAbandonedTemp(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	maker := exec.CommandContext(t.Context(), os.Args[0], attemptArg, "temp", base)
	out, err := maker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := maker.Start(); err != nil {
		t.Fatal(err)
	}
	path, err := bufio.NewReader(out).ReadString('\n')
	if path = strings.TrimSpace(path); err != nil || filepath.Dir(path) != base {
		t.Fatalf("the process has made %q, error %v", path, err)
	}
	own, err := makeTemp(base, tempPrefix)
	if err != nil {
		t.Fatal(err)
	}
	removeAbandoned(base)
	for _, dir := range []string{path, own.path} {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("the directory of a living process is gone: %v", err)
		}
	}
	if err := own.remove(); err != nil {
		t.Error(err)
	}
	_ = maker.Process.Kill()
	_ = maker.Wait()
	removeAbandoned(base)
	wantEmpty(t, base)
}

// TestProbeRemovesAbandoned: a probe removes directories that dead processes
// have left, whatever is in them. It follows no link, and removes nothing with
// another name.
func TestProbeRemovesAbandoned(t *testing.T) {
	base, elsewhere := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", base)
	closed := filepath.Join(base, "axe-sandbox-1"+tempEnd, "closed")
	kept := []string{"axe-probe-1", "axe-bench-1" + tempEnd, "axe-probe-link" + tempEnd, "axe-probe-file" + tempEnd}
	for _, dir := range []string{
		filepath.Join(closed, "below"), filepath.Join(base, "axe-probe-2"+tempEnd), filepath.Join(base, kept[0]),
		filepath.Join(base, kept[1]), filepath.Join(elsewhere, "axe-probe-3"+tempEnd),
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(base, kept[2])); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(base, kept[3]), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// Whether the kernel has a sandbox does not matter here.
	_, _ = Probe(t.Context())
	entries, err := os.ReadDir(base)
	if err != nil || len(entries) != len(kept) {
		t.Errorf("%d entries are left, error %v: %v; want %v", len(entries), err, entries, kept)
	}
	for _, name := range kept {
		if _, err := os.Lstat(filepath.Join(base, name)); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(elsewhere, "axe-probe-3"+tempEnd)); err != nil {
		t.Errorf("behind a link: %v", err)
	}
}
