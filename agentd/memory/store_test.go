package memory_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/subjects"
)

// agent parses the name of an agent.
func agent(t *testing.T, name string) subjects.Agent {
	t.Helper()
	a, err := subjects.ParseAgent(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// entry returns an entry with the time noon.
func entry(task, result string) memory.Entry {
	return memory.Entry{Time: noon(), Task: task, Result: result}
}

// add appends entries to a log.
func add(t *testing.T, log memory.Log, entries ...memory.Entry) {
	t.Helper()
	for _, e := range entries {
		if err := log.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// wantText compares the whole text of a log.
func wantText(t *testing.T, log memory.Log, want string) {
	t.Helper()
	got, err := log.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", log, diff)
	}
}

// onBus returns a Bucket on a server of its own.
func onBus(t *testing.T) memory.Bucket {
	t.Helper()
	return memory.Bucket{Values: testbus.Open(t).Memory()}
}

// inFiles returns Files in a directory that does not exist yet.
func inFiles(t *testing.T) memory.Store {
	t.Helper()
	return memory.Files{Dir: filepath.Join(t.TempDir(), "not", "there")}
}

// TestStores: every store keeps a log in the same way, and passes the same
// tests.
func TestStores(t *testing.T) {
	for name, open := range map[string]func(*testing.T) memory.Store{
		"files":  inFiles,
		"bucket": func(t *testing.T) memory.Store { t.Helper(); return onBus(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Run("appends", func(t *testing.T) { testAppends(t, open(t)) })
			t.Run("trims", func(t *testing.T) { testTrims(t, open(t)) })
			t.Run("keeps apart", func(t *testing.T) { testKeepsApart(t, open(t)) })
			t.Run("loses nothing", func(t *testing.T) { testLosesNothing(t, open(t)) })
			t.Run("trims during appends", func(t *testing.T) { testTrimsDuringAppends(t, open(t)) })
			t.Run("ends with context", func(t *testing.T) { testEndsWithContext(t, open(t)) })
		})
	}
}

// testAppends: a log has its entries in their order, also when it is opened
// again.
func testAppends(t *testing.T, s memory.Store) {
	t.Helper()
	log := s.Open(agent(t, "one"), "")
	wantText(t, log, "")
	add(t, log, entry("a", "1"), entry("", ""), entry("b\nc", "2\n## 3\n"))
	wantText(t, log, text("a", "1")+text("", "")+text("b\nc", "2\n## 3\n"))
	wantText(t, s.Open(agent(t, "one"), ""), text("a", "1")+text("", "")+text("b\nc", "2\n## 3\n"))
	if !strings.Contains(log.String(), "one") {
		t.Errorf("the log is at %s, want a name with the agent", log)
	}
}

// testTrims: Trim keeps the newest entries and returns the number of removed
// ones. A keep of 0 removes none, and a negative one is refused.
func testTrims(t *testing.T, s memory.Store) {
	t.Helper()
	log := s.Open(agent(t, "one"), "")
	trim := func(keep, want int) {
		t.Helper()
		if removed, err := log.Trim(t.Context(), keep); err != nil || removed != want {
			t.Errorf("keep %d: removed %d, error %v, want %d", keep, removed, err, want)
		}
	}
	trim(0, 0)
	trim(1, 0)
	for i := range 5 {
		add(t, log, entry(strconv.Itoa(i), "é\n"))
	}
	trim(0, 0)
	trim(5, 0)
	trim(6, 0)
	trim(2, 3)
	wantText(t, log, text("3", "é\n")+text("4", "é\n"))
	trim(2, 0)
	add(t, log, entry("5", "5"))
	trim(1, 2)
	wantText(t, log, text("5", "5"))
	if removed, err := log.Trim(t.Context(), -1); err == nil || err.Error() != "keepN must be non-negative" ||
		removed != 0 {
		t.Errorf("keep -1: removed %d, error %v, want a refusal", removed, err)
	}
}

// testKeepsApart: each agent has a log of its own, also if its name begins with
// that of another agent.
func testKeepsApart(t *testing.T, s memory.Store) {
	t.Helper()
	one, other := s.Open(agent(t, "one"), ""), s.Open(agent(t, "one-more"), "")
	add(t, one, entry("a", "1"), entry("a", "2"))
	add(t, other, entry("b", "1"), entry("b", "2"))
	if _, err := one.Trim(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	wantText(t, one, text("a", "2"))
	wantText(t, other, text("b", "1")+text("b", "2"))
}

// checkWriters fails the test unless got holds each writer's entries, whole and
// in their order. Entry i of a writer is writerEntry(writer, i).
func checkWriters(t *testing.T, got string, writers []string, each int) {
	t.Helper()
	if n := memory.Count(got); n != len(writers)*each {
		t.Fatalf("%d entries, want %d", n, len(writers)*each)
	}
	next := map[string]int{}
	for n := memory.Count(got); n > 0; n-- {
		rest := memory.Last(got, n)
		one := strings.TrimSuffix(rest, memory.Last(rest, n-1))
		if n == 1 {
			one = rest
		}
		_, task, _ := strings.Cut(one, "**Task:** ")
		writer, _, _ := strings.Cut(task, " ")
		if want := writerEntry(writer, next[writer]).String(); one != want {
			t.Fatalf("an entry is\n%s\nwant\n%s", one, want)
		}
		next[writer]++
	}
	for _, w := range writers {
		if next[w] != each {
			t.Errorf("%s has %d entries, want %d", w, next[w], each)
		}
	}
}

// writerEntry returns the i-th entry of a writer. It is long, so that a torn
// write would show.
func writerEntry(writer string, i int) memory.Entry {
	return entry(fmt.Sprintf("%s %d", writer, i), strings.Repeat(writer+"\n## ", 100))
}

// testLosesNothing: logs of one agent that append at the same time lose nothing
// and mix nothing. Reads meanwhile see whole entries.
func testLosesNothing(t *testing.T, s memory.Store) {
	t.Helper()
	var wg sync.WaitGroup
	var writers []string
	for g := range 8 {
		name := fmt.Sprintf("g%d", g)
		writers = append(writers, name)
		log := s.Open(agent(t, "one"), "")
		wg.Go(func() {
			for i := range 20 {
				if err := log.Append(t.Context(), writerEntry(name, i)); err != nil {
					t.Errorf("append of entry %d of %s: %v", i, name, err)
				}
			}
		})
	}
	log := s.Open(agent(t, "one"), "")
	for range 20 {
		got, err := log.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got != "" && (!strings.HasPrefix(got, head) || !strings.HasSuffix(got, "\n\n")) {
			t.Fatalf("a read during the appends has a part of an entry:\n%s", got)
		}
	}
	wg.Wait()
	got, err := log.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkWriters(t, got, writers, 20)
}

// testTrimsDuringAppends: Trim always removes the oldest entries, also while
// another writer appends.
func testTrimsDuringAppends(t *testing.T, s memory.Store) {
	t.Helper()
	log := s.Open(agent(t, "one"), "")
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range 50 {
			if err := log.Append(t.Context(), entry(strconv.Itoa(i), "")); err != nil {
				t.Errorf("append of entry %d: %v", i, err)
			}
		}
	})
	total := 0
	for range 20 {
		removed, err := log.Trim(t.Context(), 5)
		if err != nil {
			t.Fatal(err)
		}
		total += removed
	}
	wg.Wait()
	got, err := log.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := total; i < 50; i++ {
		want.WriteString(text(strconv.Itoa(i), ""))
	}
	if diff := cmp.Diff(want.String(), got); diff != "" {
		t.Errorf("after %d were removed (-want +got):\n%s", total, diff)
	}
}

// testEndsWithContext: with a context that has ended, each operation fails with
// its cause and changes nothing.
func testEndsWithContext(t *testing.T, s memory.Store) {
	t.Helper()
	log := s.Open(agent(t, "one"), "")
	add(t, log, entry("a", "1"), entry("b", "2"))
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	_, err := log.Read(ctx)
	_, err2 := log.Trim(ctx, 1)
	for _, err := range []error{err, err2, log.Append(ctx, entry("c", "3"))} {
		if !errors.Is(err, over) {
			t.Errorf("error %v, want that of the context", err)
		}
	}
	wantText(t, log, text("a", "1")+text("b", "2"))
}

// TestBucketReadsHandwrittenValues: a value that a person put into the bucket
// is read as it is. The next value begins on a new line.
func TestBucketReadsHandwrittenValues(t *testing.T) {
	s := onBus(t)
	for _, v := range []string{"## mine", "", "## also mine\n", "notes"} {
		if err := s.Values.Append(t.Context(), agent(t, "one"), []byte(v)); err != nil {
			t.Fatal(err)
		}
	}
	log := s.Open(agent(t, "one"), "/is/of/no/use")
	add(t, log, entry("a", "1"))
	wantText(t, log, "## mine\n## also mine\nnotes\n"+text("a", "1"))
	if got := log.String(); got != "bucket AXE_MEMORY, agent one" {
		t.Errorf("the log is at %q, want the bucket and the agent", got)
	}
}

// TestBucketFails: on a bus without its streams every request fails at once.
func TestBucketFails(t *testing.T) {
	log := memory.Bucket{Values: testbus.Empty(t).Memory()}.Open(agent(t, "one"), "")
	begin := time.Now()
	_, err := log.Read(t.Context())
	_, err2 := log.Trim(t.Context(), 1)
	for _, err := range []error{err, err2, log.Append(t.Context(), entry("a", "1"))} {
		if !errors.Is(err, bus.ErrNoStream) || !strings.HasPrefix(err.Error(), "memory: bucket AXE_MEMORY: ") {
			t.Errorf("error %v, want ErrNoStream with the bucket's name", err)
		}
	}
	if d := time.Since(begin); d > 10*time.Second {
		t.Errorf("three requests failed after %v, want at most 10s", d)
	}
}
