package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFileBeforeInput: a missing file is reported before the wait for standard
// input. A pipe without a writer is waited for until the context ends.
func TestFileBeforeInput(t *testing.T) {
	silent, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	defer writer.Close()
	stdin := os.Stdin
	os.Stdin = silent
	defer func() { os.Stdin = stdin }()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	over := errors.New("over")
	for file, want := range map[string]error{pipe + ".md": os.ErrNotExist, pipe: over} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, over)
		_, err := TaskFlags{Program: "test", File: file}.Read(ctx)
		if cancel(); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", filepath.Base(file), err, want)
		}
	}
}

// TestFence: the fence of a text is longer than any run of backticks in it.
func TestFence(t *testing.T) {
	for text, want := range map[string]int{
		"": 3, "x``x": 3, "```": 4, "``\n`````x```": 6, strings.Repeat("`", 1<<20): 1<<20 + 1,
	} {
		got := join([]part{{"", "task"}, {"file", text}})
		fence := strings.Repeat("`", want)
		if got != "task\n\nfile:\n\n"+fence+"\n"+text+"\n"+fence {
			t.Errorf("a text of %d bytes is not in a fence of %d backticks", len(text), want)
		}
	}
}
