package memory_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/axebus/axe/agentd/memory"
)

// write writes a file with the mode 600.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// names returns the names in a directory, separated by spaces.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return strings.Join(all, " ")
}

// mode returns the type and the permissions of a file.
func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

// TestFilesPaths: the first append makes the file and its directories: the
// agent's own path, or <Dir>/<agent>.md. Read and Trim make none.
func TestFilesPaths(t *testing.T) {
	dir := t.TempDir()
	store := memory.Files{Dir: filepath.Join(dir, "data", "memory")}
	log := store.Open(agent(t, "one"), "")
	wantText(t, log, "")
	if _, err := log.Trim(t.Context(), 1); err != nil {
		t.Errorf("trim of a missing file: %v", err)
	}
	if got := names(t, dir); got != "" {
		t.Errorf("Read and Trim made %s, want no file", got)
	}
	add(t, log, entry("a", "1"))
	file := filepath.Join(store.Dir, "one.md")
	if log.String() != file {
		t.Errorf("the log is at %s, want %s", log, file)
	}
	if got := names(t, store.Dir); got != "one.md one.md.lock" {
		t.Errorf("the directory has %s, want the log and its lock", got)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != text("a", "1") {
		t.Errorf("the file has %q, %v, want the entry", b, err)
	}

	own := filepath.Join(dir, "own", "notes.txt")
	log = store.Open(agent(t, "one"), own)
	add(t, log, entry("b", "2"))
	if got := names(t, filepath.Dir(own)); got != "notes.txt notes.txt.lock" || log.String() != own {
		t.Errorf("the log is at %s, and its directory has %s, want %s and its lock", log, got, own)
	}
}

// TestFilesKeepTheirMode: a new file has the mode 600, a new directory 700. A
// mode that a person set stays.
func TestFilesKeepTheirMode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "memory")
	log := memory.Files{Dir: dir}.Open(agent(t, "one"), "")
	add(t, log, entry("a", "1"))
	file := filepath.Join(dir, "one.md")
	if d, f := mode(t, dir).Perm(), mode(t, file).Perm(); d != 0o700 || f != 0o600 {
		t.Errorf("the directory has mode %o and the file %o, want 700 and 600", d, f)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	add(t, log, entry("b", "2"), entry("c", "3"))
	if _, err := log.Trim(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got := mode(t, file).Perm(); got != 0o640 {
		t.Errorf("the mode that a person set became %o, want 640", got)
	}
}

// TestFilesKeepHandwrittenText: text that a person wrote stays as it is. The
// next entry begins on a new line.
func TestFilesKeepHandwrittenText(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "one.md")
	log := memory.Files{Dir: dir}.Open(agent(t, "one"), "")
	write(t, file, "# Mine\r\n\xff\r\n## by hand\r\nx\n##  two\ny")
	add(t, log, entry("a", "1"))
	wantText(t, log, "# Mine\r\n\xff\r\n## by hand\r\nx\n##  two\ny\n"+text("a", "1"))
	if removed, err := log.Trim(t.Context(), 2); err != nil || removed != 1 {
		t.Errorf("removed %d entries, error %v, want 1", removed, err)
	}
	wantText(t, log, "# Mine\r\n\xff\r\n##  two\ny\n"+text("a", "1"))
}

// TestFilesSurviveAKilledWriter: a killed writer leaves the log as it was, and
// at most one temporary file. The next writer removes that file.
func TestFilesSurviveAKilledWriter(t *testing.T) {
	dir := t.TempDir()
	log := memory.Files{Dir: dir}.Open(agent(t, "one"), "")
	add(t, log, entry("a", "1"))
	write(t, filepath.Join(dir, "one.md.tmp"), text("a", "1")+"## 2026-03-01T12:0")
	wantText(t, log, text("a", "1"))
	add(t, log, entry("b", "2"))
	wantText(t, log, text("a", "1")+text("b", "2"))
	if got := names(t, dir); got != "one.md one.md.lock" {
		t.Errorf("the directory has %s, want the log and its lock", got)
	}
}

// TestFilesAreWrittenThroughLinks: a writer replaces the target of a chain of
// symbolic links, and keeps the links. A link to itself is an error.
func TestFilesAreWrittenThroughLinks(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"memory", "elsewhere", "deep/er"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"memory/one.md":    "../elsewhere/two.md", // exists
		"elsewhere/two.md": filepath.Join(dir, "deep/er/one.md"),
		"memory/new.md":    "../elsewhere/new.md", // does not exist yet
		"memory/loop.md":   "loop.md",
		"memory/linked":    "../deep/er",
		"deep/er/up.md":    "../up.md",
		// .. is the parent of the link's target
		"elsewhere/three.md": "../memory/linked/up.md",
		"elsewhere/four.md":  "../memory/linked/../chain.md",
		"deep/chain.md":      "end.md",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "deep/er/one.md"), "# Mine\n")
	store := memory.Files{Dir: filepath.Join(dir, "memory")}
	for _, tt := range []struct{ path, target, before string }{
		{"memory/one.md", "deep/er/one.md", "# Mine\n"},
		{"memory/new.md", "elsewhere/new.md", ""},
		{"elsewhere/three.md", "deep/up.md", ""},
		{"elsewhere/four.md", "deep/end.md", ""},
	} {
		log := store.Open(agent(t, "one"), filepath.Join(dir, tt.path))
		add(t, log, entry("a", "1"), entry("b", "2"))
		if _, err := log.Trim(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		wantText(t, log, tt.before+text("b", "2"))
		if info, err := os.Lstat(filepath.Join(dir, tt.path)); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Errorf("%s has mode %v, %v, want a symbolic link", tt.path, info.Mode(), err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, tt.target)); err != nil || string(b) != tt.before+text("b", "2") {
			t.Errorf("%s has %q, %v, want the last entry", tt.target, b, err)
		}
	}
	log := store.Open(agent(t, "loop"), "")
	if err := log.Append(t.Context(), entry("a", "1")); err == nil {
		t.Error("an append to a link to itself has no error")
	}
	if _, err := log.Read(t.Context()); err == nil {
		t.Error("a read of a link to itself has no error")
	}
}

// TestFilesWaitForTheLock: a writer waits for a lock that another writer holds,
// until its context ends. A reader does not wait.
func TestFilesWaitForTheLock(t *testing.T) {
	dir := t.TempDir()
	log := memory.Files{Dir: dir}.Open(agent(t, "one"), "")
	add(t, log, entry("a", "1"), entry("b", "2"))
	lock := flock.New(filepath.Join(dir, "one.md.lock"))
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	wantText(t, log, text("a", "1")+text("b", "2"))

	over := errors.New("over")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, over)
	defer cancel()
	if err := log.Append(ctx, entry("c", "3")); !errors.Is(err, over) {
		t.Errorf("append: error %v, want that of the context", err)
	}
	ctx, cancel = context.WithTimeoutCause(t.Context(), 50*time.Millisecond, over)
	defer cancel()
	if _, err := log.Trim(ctx, 1); !errors.Is(err, over) {
		t.Errorf("trim: error %v, want that of the context", err)
	}
	wantText(t, log, text("a", "1")+text("b", "2"))

	done := make(chan error)
	go func() { done <- log.Append(t.Context(), entry("c", "3")) }()
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantText(t, log, text("a", "1")+text("b", "2")+text("c", "3"))
}

// TestFilesAreBounded: a file of more than 64 MiB is refused, and so is an entry
// that would make a file larger than that.
func TestFilesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "one.md")
	write(t, file, "")
	if err := os.Truncate(file, 64<<20+1); err != nil {
		t.Fatal(err)
	}
	log := memory.Files{Dir: dir}.Open(agent(t, "one"), "")
	if _, err := log.Read(t.Context()); err == nil || !strings.Contains(err.Error(), file+": is larger than 64 MiB") {
		t.Errorf("error %v, want one about a file that is too large", err)
	}
	if err := os.Truncate(file, 64<<20-1); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), memory.Entry{Task: "t", Result: "r"}); err == nil ||
		!strings.Contains(err.Error(), file+": another entry would make it larger than 64 MiB") {
		t.Errorf("error %v, want one about a file that would be too large", err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() != 64<<20-1 {
		t.Errorf("the file has %d bytes, error %v, want it as before", info.Size(), err)
	}
}
