//go:build unix

package memory_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/memory"
)

// The environment of TestWriter: the file of the log, and the writer's name.
const (
	envFile   = "AXE_TEST_MEMORY_FILE"
	envWriter = "AXE_TEST_MEMORY_WRITER"
)

// entriesEach is the number of entries that a writer appends.
const entriesEach = 15

// TestWriter runs in a process of its own. It appends entriesEach entries. A
// writer named endless appends until it is killed.
func TestWriter(t *testing.T) {
	writer := os.Getenv(envWriter)
	if writer == "" {
		t.Skip("started by other tests only")
	}
	log := memory.Files{}.Open(agent(t, "one"), os.Getenv(envFile))
	for i := 0; i < entriesEach || writer == "endless"; i++ {
		if err := log.Append(t.Context(), writerEntry(writer, i)); err != nil {
			t.Fatal(err)
		}
		fmt.Println("appended")
	}
}

// writer returns a process that runs TestWriter.
func writer(t *testing.T, file, name string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestWriter$")
	cmd.Env = append(os.Environ(), envFile+"="+file, envWriter+"="+name)
	return cmd
}

// TestFilesAreSharedByProcesses: processes that append at the same time lose
// nothing and mix nothing.
func TestFilesAreSharedByProcesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "one.md")
	var wg sync.WaitGroup
	names := []string{"p0", "p1", "p2", "p3"}
	for _, name := range names {
		cmd := writer(t, file, name)
		wg.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("writer %s: %v\n%s", name, err, out)
			}
		})
	}
	wg.Wait()
	got, err := memory.Files{}.Open(agent(t, "one"), file).Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkWriters(t, got, names, entriesEach)
}

// TestFilesSurviveKilledProcesses: kill -9 leaves whole entries, no held lock,
// and after the next append no temporary file. The killed append has stored its
// entry, or not.
func TestFilesSurviveKilledProcesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "one.md")
	log := memory.Files{}.Open(agent(t, "one"), file)
	before := 0
	for round := range 5 {
		cmd := writer(t, file, "endless")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		appended := 0
		lines := bufio.NewScanner(out)
		for appended < 3+round && lines.Scan() {
			appended++
		}
		// Kill the writer somewhere in its next append.
		time.Sleep(time.Duration(round) * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			appended++
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the writer ended by itself, and was not killed")
		}
		got, err := log.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := memory.Count(got) - before
		if n < appended || n > appended+1 {
			t.Errorf("%d entries of a process that appended %d, want as many, or one more", n, appended)
		}
		for i := range n {
			if rest := memory.Last(got, n-i); !strings.HasPrefix(rest, writerEntry("endless", i).String()) {
				t.Fatalf("entry %d of the process is not whole, it begins with\n%.200s", i, rest)
			}
		}
		before += n
	}
	add(t, log, entry("last", ""))
	if got := names(t, filepath.Dir(file)); got != "one.md one.md.lock" {
		t.Errorf("the directory has %s, want the log and its lock", got)
	}
}

// TestFilesAreRegular: a path that is not a regular file is refused at once: it
// is neither read nor replaced.
func TestFilesAreRegular(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(pipe, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe, link, "/dev/null", "/dev/zero"} {
		log := memory.Files{}.Open(agent(t, "one"), path)
		_, err := log.Read(t.Context())
		_, err2 := log.Trim(t.Context(), 1)
		for _, err := range []error{err, err2, log.Append(t.Context(), entry("a", "1"))} {
			if err == nil || !strings.Contains(err.Error(), path+": is not a regular file") {
				t.Errorf("%s: error %v, want one about a file that is not regular", path, err)
			}
		}
	}
	if mode(t, pipe).Type() != fs.ModeNamedPipe || names(t, dir) != "link pipe" {
		t.Errorf("the directory has %s, want the pipe and the link alone", names(t, dir))
	}
	below := memory.Files{}.Open(agent(t, "one"), filepath.Join(pipe, "x"))
	if err := below.Append(t.Context(), entry("a", "1")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a pipe: error %v, want ENOTDIR", err)
	}
}

// TestFilesReadOnly: a file that its owner made read-only is not replaced.
func TestFilesReadOnly(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write every file")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "one.md")
	log := memory.Files{Dir: dir}.Open(agent(t, "one"), "")
	add(t, log, entry("a", "1"))
	if err := os.Chmod(file, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), entry("b", "2")); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v, want ErrPermission", err)
	}
	wantText(t, log, text("a", "1"))
}
