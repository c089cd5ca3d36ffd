package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/archive"
	"github.com/axebus/axe/subjects"
)

// export returns the lines of an export of trees, without the first one, which
// has the time.
func (h *harness) export(c *client.Client, trees ...subjects.Tree) (file, lines string) {
	h.t.Helper()
	var b bytes.Buffer
	w := archive.NewWriter(&b, time.Now())
	for _, tree := range trees {
		e, err := client.Export(h.t.Context(), c, w, tree)
		if err != nil || len(e.Gone) > 0 {
			h.t.Fatalf("export %s: %+v, %v", tree, e, err)
		}
	}
	_, lines, _ = strings.Cut(b.String(), "\n")
	return b.String(), lines
}

// load imports a file, and returns the trees that were imported.
func (h *harness) load(c *client.Client, file string) (trees []subjects.Tree, _ error) {
	imported := func(t subjects.Tree) { trees = append(trees, t) }
	err := client.Import(h.t.Context(), c, strings.NewReader(file), imported)
	return trees, err
}

// other opens a connection with another prefix, and makes streams with three
// partitions there.
func (h *harness) other(intercept func(bus.Point) error) *client.Client {
	h.t.Helper()
	space, err := subjects.NewSpace("other")
	if err != nil {
		h.t.Fatal(err)
	}
	conn := h.intercepted(space, intercept)
	if err := conn.Provision(h.t.Context(), bus.Provision{Partitions: 3}); err != nil {
		h.t.Fatal(err)
	}
	return client.New(conn)
}

// intercepted opens a connection of which the test sees each operation.
func (h *harness) intercepted(space subjects.Space, intercept func(bus.Point) error) *bus.Conn {
	h.t.Helper()
	cfg := bus.Config{Dial: bus.Dial{Server: h.server}, Space: space, Intercept: intercept}
	conn, err := bus.Open(h.t.Context(), cfg)
	if err != nil {
		h.t.Fatal(err)
	}
	h.ends = append(h.ends, conn.Close)
	return conn
}

// sequence matches the sequence of a message in an export.
var sequence = regexp.MustCompile(`,"seq":(\d+),`)

// TestSlowImport: a worker does nothing for an imported call of which the
// result is not imported yet, though the call has its old sequence.
func TestSlowImport(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		drain := h.startWorker()
		echo := h.submit("echo", "a", "echo")
		h.answers(echo, "echo: a")
		file, _ := h.export(h.Client, echo)
		if _, err := client.Forget(t.Context(), h.Client, echo); err != nil {
			t.Fatal(err)
		}
		drain()
		h.startWorker()
		bounds, err := h.conn.Bounds(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		// The call was the first message of the stream.
		file = sequence.ReplaceAllStringFunc(file, func(text string) string {
			seq, _ := strconv.ParseUint(sequence.FindStringSubmatch(text)[1], 10, 64)
			return fmt.Sprintf(`,"seq":%d,`, seq+bounds[0].Last)
		})
		slow := h.intercepted(subjects.Space{}, func(p bus.Point) error {
			if p.Op == "write" && p.After {
				time.Sleep(10 * time.Second)
			}
			return nil
		})
		if _, err := h.load(client.New(slow), file); err != nil {
			t.Fatal(err)
		}
		_, lines, _ := strings.Cut(file, "\n")
		if _, again := h.export(h.Client, echo); again != lines {
			t.Errorf("the export differs after the import:\n%s\nwant:\n%s", again, lines)
		}
	})
}

// TestRoundTrip: an export is the same after an import into a bus with another
// prefix and other partitions, and into the bus that it came from. It has large
// bodies and artifacts. The workers do nothing for imported messages.
func TestRoundTrip(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	withHarness(t, func(h *harness) {
		t := h.t
		h.timeout = time.Minute
		h.startWorker()
		large := strings.Repeat("x", 9<<20)
		lead, echo := h.submit("lead", "a", "lead"), h.submit("echo", large, "large")
		h.answers(lead, "together: echo: a 1")
		h.answers(echo, "echo: "+large)
		plan := bus.Artifact{Name: "plan.md", MediaType: "text/markdown", Path: "r-1-0"}
		if _, err := bus.ArtifactsOf(h.conn, lead).Store(t.Context(), plan, []byte("\xffplan")); err != nil {
			t.Fatal(err)
		}
		file, lines := h.export(h.Client, lead, echo)
		if !strings.Contains(lines, `"name":"`+lead.String()+`/plan.md","type":"text/markdown"`) {
			t.Error("the export lacks the artifact")
		}
		other := h.other(nil)
		for name, c := range map[string]*client.Client{"another bus": other, "the same bus": h.Client} {
			if c == h.Client {
				for _, tree := range []subjects.Tree{lead, echo} {
					if _, err := client.Forget(t.Context(), c, tree); err != nil {
						t.Fatal(err)
					}
				}
			}
			trees, err := h.load(c, file)
			if diff := cmp.Diff([]string{lead.String(), echo.String()}, names(trees)); err != nil || diff != "" {
				t.Fatalf("import into %s: %v, trees (-want +got):\n%s", name, err, diff)
			}
			time.Sleep(2 * h.timeout)
			if _, again := h.export(c, lead, echo); again != lines {
				t.Errorf("%s: the export differs after the import: %d bytes, want %d", name, len(again), len(lines))
			}
			if _, err := h.load(c, file); !errors.Is(err, client.ErrExists) {
				t.Errorf("%s: import of trees that are there: got %v, want %v", name, err, client.ErrExists)
			}
		}
		h.answers(lead, "together: echo: a 1")
		h.answers(echo, "echo: "+large)
	})
}

// TestExportCancelledBeforeItsCall: a tree was cancelled before a worker took
// its submission. It is the same after an import and another export. A message
// that claims to be imported keeps its place if its tree was not imported.
func TestExportCancelledBeforeItsCall(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		early := h.submit("echo", "a", "early")
		if err := h.Cancel(t.Context(), early, subjects.Root, "too early"); err != nil {
			t.Fatal(err)
		}
		drain := h.startWorker()
		if o, err := h.Wait(t.Context(), early); err != nil || o.Error != "too early" {
			t.Fatalf("outcome %+v, error %v, want a cancelled tree", o, err)
		}
		drain()
		file, lines := h.export(h.Client, early)
		if first, _, _ := strings.Cut(lines, "\n"); !strings.Contains(first, ".r.cancel") {
			t.Fatalf("the first message is %s, want the cancel message", first)
		}
		if _, err := client.Forget(t.Context(), h.Client, early); err != nil {
			t.Fatal(err)
		}
		if _, err := h.load(h.Client, file); err != nil {
			t.Fatal(err)
		}
		if _, again := h.export(h.Client, early); again != lines {
			t.Errorf("the export differs after the import:\n%s\nwant:\n%s", again, lines)
		}

		live := h.submit("echo", "a", "live")
		agent, err := subjects.ParseAgent("echo")
		if err != nil {
			t.Fatal(err)
		}
		cancel := h.conn.Space().Run(agent, live, subjects.Root).Cancel()
		seq, err := h.conn.Write(t.Context(), bus.Message{
			Subject: cancel, Header: [][2]string{{archive.ImportedHeader, "7 2026-01-01T00:00:00Z"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		h.startWorker()
		h.answers(live, "echo: a")
		if _, lines = h.export(h.Client, live); !strings.Contains(lines, fmt.Sprintf(`.cancel","seq":%d,`, seq)) {
			t.Errorf("a cancel message that claims to be imported lost its place %d:\n%s", seq, lines)
		}
	})
}

func names(trees []subjects.Tree) (all []string) {
	for _, t := range trees {
		all = append(all, t.String())
	}
	return all
}

// TestImportIsWhole: an import stores nothing of a file with a tree at work, a
// tree that is there, or a part of a tree. An import that was cut off is
// completed by the next one.
func TestImportIsWhole(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		lead, echo, slow := h.submit("lead", "a", "lead"), h.submit("echo", "b", "echo"), h.submit("slow", "c", "slow")
		h.answers(lead, "together: echo: a 1")
		h.answers(echo, "echo: b")
		file, lines := h.export(h.Client, lead, echo)
		working, _ := h.export(h.Client, echo, slow)
		cut := errors.New("cut off")
		writes := 0
		other := h.other(func(p bus.Point) error {
			if p.Op != "write" || p.After {
				return nil
			}
			if writes++; writes == 5 || writes == 10 {
				return cut
			}
			return nil
		})
		head, _, _ := strings.Cut(file, "\n")
		swapped := func(part, by string) string { return strings.Replace(file, part, by, 1) }
		for name, test := range map[string]struct {
			file string
			want error
		}{
			"at work": {working, client.ErrNotEnded}, "short": {file[:len(file)-20], archive.ErrMalformed},
			"no end":          {file[:strings.LastIndex(file, `{"tree":`)], archive.ErrMalformed},
			"no file":         {"", archive.ErrMalformed},
			"other form":      {"{}\n", archive.ErrMalformed},
			"twice":           {file + lines, archive.ErrMalformed},
			"other tree":      {swapped("run.lead."+lead.String(), "run.lead."+echo.String()), archive.ErrMalformed},
			"server's header": {swapped(`"Axe-Schema"`, `"Nats-Rollup"`), archive.ErrMalformed},
			"other kind":      {swapped(`"subject":"result.`, `"subject":"submit.`), archive.ErrMalformed},
			"wrong order":     {head + "\n" + reversed(lines), archive.ErrMalformed},
		} {
			if trees, err := h.load(other, test.file); !errors.Is(err, test.want) || len(trees) > 0 {
				t.Errorf("%s: %d trees, %v; want %v", name, len(trees), err, test.want)
			}
		}
		if writes != 0 {
			t.Errorf("%d writes for files that are refused, want none", writes)
		}
		for _, want := range [][]string{nil, {lead.String()}, {echo.String()}} {
			trees, err := h.load(other, file)
			if last := want != nil && want[0] == echo.String(); errors.Is(err, cut) == last || last && err != nil {
				t.Errorf("after %d writes: %v", writes, err)
			}
			if diff := cmp.Diff(want, names(trees)); diff != "" {
				t.Errorf("after %d writes: trees (-want +got):\n%s", writes, diff)
			}
		}
		if _, again := h.export(other, lead, echo); again != lines {
			t.Error("the export differs after an import in three parts")
		}
	})
}

// reversed reverses the messages of the first tree.
func reversed(lines string) string {
	all := strings.SplitAfter(lines, "\n")
	all[0], all[1] = all[1], all[0]
	return strings.Join(all, "")
}
