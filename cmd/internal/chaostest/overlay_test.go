package chaostest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clockEnv names the file with the error of a process's wall clock.
const clockEnv = "AXE_CHAOS_CLOCK"

// The edits of the package time. The edited time.Now adds an error to the wall
// clock and leaves the monotonic clock alone.
const (
	nowBefore = "	sec, nsec, mono := runtimeNow()\n	if mono == 0 {\n"
	nowAfter  = "	sec, nsec, mono := runtimeNow()\n	sec += chaosError()\n	if mono == 0 {\n"

	importsBefore = "	_ \"unsafe\" // for go:linkname\n"
	importsAfter  = "	\"sync/atomic\"\n	\"syscall\"\n	\"unsafe\"\n"

	// The runtime calls time.Now on its own stack too, when a timer fires.
	// It can make no system calls there. So the file is mapped into memory.
	chaosSource = `
var chaosSeconds = func() *int64 {
	file, ok := syscall.Getenv("` + clockEnv + `")
	if !ok {
		return new(int64)
	}
	fd, err := syscall.Open(file, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		panic(file + ": " + err.Error())
	}
	memory, err := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		panic(file + ": " + err.Error())
	}
	_ = syscall.Close(fd)
	return (*int64)(unsafe.Pointer(&memory[0]))
}()

// chaosError is the error of the wall clock in seconds.
func chaosError() int64 { return atomic.LoadInt64(chaosSeconds) }
`
)

// offClock is the file with the error of the wall clock of some processes, in
// seconds: eight bytes in the order of this machine.
type offClock struct{ file string }

// newOffClock makes a clock with an error.
func newOffClock(t *testing.T, by time.Duration) offClock {
	t.Helper()
	c := offClock{filepath.Join(t.TempDir(), "clock")}
	if err := c.set(by); err != nil {
		t.Fatal(err)
	}
	return c
}

// set sets the error of the clock. The processes see it at once.
func (c offClock) set(by time.Duration) error {
	f, err := os.OpenFile(c.file, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	seconds := binary.NativeEndian.AppendUint64(nil, uint64(by/time.Second))
	_, err = f.WriteAt(seconds, 0)
	return errors.Join(err, f.Close())
}

// env makes a process read its clock's error from the file.
func (c offClock) env() string { return clockEnv + "=" + c.file }

// clockBinaries builds agentd, axe-submit and this test with a clock that can
// be set, and returns their directory. The binary of the test is named server,
// since it runs as one. The command axe is the one in bin.
func clockBinaries(t *testing.T, bin string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	overlay := timeOverlay(t, dir)
	for _, args := range [][]string{
		{"build", "-overlay", overlay, "-o", dir + string(filepath.Separator), "../../agentd", "../../axe-submit"},
		{"test", "-c", "-overlay", overlay, "-o", filepath.Join(dir, "server"), "."},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	if err := os.Symlink(filepath.Join(bin, "axe"), filepath.Join(dir, "axe")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// timeOverlay writes a copy of the file of time.Now, with a clock that can be
// set, and the overlay for the go command.
func timeOverlay(t *testing.T, dir string) string {
	t.Helper()
	root, err := goroot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(root, "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	for _, edit := range [][2]string{{nowBefore, nowAfter}, {importsBefore, importsAfter}} {
		if n := strings.Count(text, edit[0]); n != 1 {
			t.Fatalf("%s: got the text below %d times, want once: adapt the edit to this Go\n%s", original, n, edit[0])
		}
		text = strings.Replace(text, edit[0], edit[1], 1)
	}
	edited := filepath.Join(dir, "time.go")
	overlay := filepath.Join(dir, "overlay.json")
	config, err := json.Marshal(map[string]any{"Replace": map[string]string{original: edited}})
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{edited: []byte(text + chaosSource), overlay: config} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}

// goroot returns the directory of the Go installation.
func goroot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
