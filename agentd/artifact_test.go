package agentd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// artifact reads an artifact of a tree. It returns false if the tree has none
// under the name.
func (h *harness) artifact(tree subjects.Tree, name string) (text string, ok bool) {
	stored := bus.ArtifactsOf(h.conn, tree)
	a, err := stored.Find(h.ctx, name)
	if errors.Is(err, bus.ErrNoArtifact) {
		return "", false
	}
	var b bytes.Buffer
	if err == nil {
		err = stored.Copy(h.ctx, &b, a)
	}
	if err != nil {
		h.tb.Fatal(err)
	}
	return b.String(), true
}

// names returns the names of artifacts, in their order.
func names(all []run.Artifact) []string {
	var names []string
	for _, a := range all {
		names = append(names, a.Name)
	}
	return names
}

// numberedLines returns n lines of about 25 bytes. Each contains its number,
// from 1.
func numberedLines(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "this is line %d äöü\n", i+1)
	}
	return b.String()
}

// lastLine is the end of read_file's result for 10,000 numbered lines.
const lastLine = "\n10000: this is line 10000 äöü"

// TestArtifacts: a tool's result that is too large for the model becomes an
// artifact of the tree. The model reads its beginning and its end, and a note
// that says how to read the rest. Agents of one tree read each other's
// artifacts. A name keeps its content. The root's outcome names all artifacts
// of the tree, and a sub-agent's outcome those that it wrote.
func TestArtifacts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := numberedLines(10_000)
	if err := os.WriteFile(filepath.Join(dir, "log.txt"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{
			define("lead", []string{"reader"}, withTools(dir, "read_file", "read_artifact", "write_artifact")),
			define("reader", nil, withTools(dir, "read_artifact", "write_artifact")),
		}
		h.models["lead"] = turns(
			calls(use("read_file", "path", "log.txt", "limit", "100000")),
			func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
				checkExcerpt(t, req.results()[0].Content)
				return calls(
					use("read_artifact", "name", "r-1-0.txt", "offset", "5000", "limit", "2"),
					use("write_artifact", "name", "note.md", "content", "one\ntwo"),
					use("write_artifact", "name", "../note.md", "content", "out"),
					call("reader", "read it"),
				)(ctx, req)
			},
			joinsResults,
		)
		h.models["reader"] = turns(
			calls(
				use("read_artifact", "name", "note.md"),
				use("read_artifact", "name", "other.md"),
				use("write_artifact", "name", "note.md", "content", "three"),
				use("write_artifact", "name", "note.md", "content", "one\ntwo"),
				use("write_artifact", "name", "mine.md", "content", "four"),
			),
			joinsResults,
		)
		h.startWorker("w", workerOptions{})
		h.awaitReady()
		root := h.submit("lead", "go")
		o := h.awaitOutcome(root, time.Hour)
		read := `c0=1: one` + "\n" + `2: two|c1=no artifact has the name "other.md"|` +
			`c2=artifact "note.md" exists with another content (7 bytes, written by r-2-1): choose another name|` +
			`c3=wrote 7 bytes to artifact note.md|c4=wrote 4 bytes to artifact mine.md`
		want := "c0=5000: 5000: this is line 5000 äöü\n5001: 5001: this is line 5001 äöü|" +
			"c1=wrote 7 bytes to artifact note.md|" +
			`c2=the name of an artifact is a file name of printable characters without / \ : * ? " < > |, ` +
			`got "../note.md"|c3=` + read
		if o.Result != want {
			t.Errorf("got %q, want %q", o.Result, want)
		}
		if got := names(o.Artifacts); !slices.Equal(got, []string{"r-1-0.txt", "note.md", "mine.md"}) {
			t.Errorf("the tree has the artifacts %v, want r-1-0.txt, note.md and mine.md", got)
		}
		if a := o.Artifacts[1]; a.Path != "r-2-1" || a.Size != 7 || !strings.HasPrefix(a.MediaType, "text/plain") {
			t.Errorf("the lead's artifact is %+v, want 7 bytes of text/plain, written by r-2-1", a)
		}
		if got := names(h.outcomes(root.Reply(2, 3))[0].Artifacts); !slices.Equal(got, []string{"note.md", "mine.md"}) {
			t.Errorf("the reader's outcome has the artifacts %v, want note.md and mine.md", got)
		}
		whole, _ := h.artifact(root.Tree, "r-1-0.txt")
		if !strings.HasSuffix(whole, lastLine) {
			t.Errorf("the artifact ends with %q, want %q", whole[max(0, len(whole)-100):], lastLine)
		}
		h.checkVerified()
	})
}

// checkExcerpt checks the excerpt of 10,000 numbered lines that a model reads:
// whole lines of the beginning and the end, with a note between them, and
// nearly as many bytes as a result may have.
func checkExcerpt(t *testing.T, got string) {
	t.Helper()
	head, rest, _ := strings.Cut(got, "\n... [")
	note, tail, _ := strings.Cut(rest, "]\n")
	lines := strings.Count(head, "\n") + 1
	if !strings.HasPrefix(head, "1: this is line 1 äöü\n") || !strings.HasSuffix(tail, lastLine) ||
		!strings.HasSuffix(head, fmt.Sprintf("\n%d: this is line %d äöü", lines, lines)) {
		t.Errorf("the excerpt has %q before its note and %q after it, want whole lines of both ends",
			head[max(0, len(head)-50):], tail[:50])
	}
	if n := len(got); n > configs.DefaultMaxResult || n < configs.DefaultMaxResult*9/10 {
		t.Errorf("the excerpt has %d bytes, want nearly %d", n, configs.DefaultMaxResult)
	}
	const format = "bytes are the artifact r-1-0.txt: read_artifact reads it, from line %d on for this part"
	want := fmt.Sprintf(format, lines+1)
	if !strings.HasSuffix(note, want) {
		t.Errorf("the note is %q, want %q at its end", note, want)
	}
}

// TestArtifactNotStored: the bus does not store a large result. The model reads
// its excerpt, with a note that the other bytes are lost. The outcome names no
// artifact.
func TestArtifactNotStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "log.txt"), []byte(numberedLines(10_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", nil, withTools(dir, "read_file"))}
		h.models["lead"] = turns(calls(use("read_file", "path", "log.txt", "limit", "100000")), joinsResults)
		h.startWorker("w", workerOptions{atStep: func(s step) error {
			if s.Op == "store" {
				return errBusBroken
			}
			return nil
		}})
		h.awaitReady()
		o := h.awaitOutcome(h.submit("lead", "go"), time.Hour)
		want := "They are lost: " + errBusBroken.Error() + "]\n"
		if !strings.Contains(o.Result, want) || o.Artifacts != nil {
			t.Errorf("the outcome has the artifacts %v and the result %.500q, want none and a result with %q",
				o.Artifacts, o.Result, want)
		}
		h.checkVerified()
	})
}

// TestArtifactCrashTable kills the worker of a tool before and after it stores
// an artifact, and before and after it stores the outcome. The outcome names
// the artifacts of its own attempt and no others, and they have the bytes of
// that attempt.
func TestArtifactCrashTable(t *testing.T) {
	t.Parallel()
	thorough(t)
	// The command's output begins with one x for each time that it has run.
	command := "echo x >> effects; cat effects; seq 1000"
	own, written := []string{"r-1-0.txt"}, []string{"a.md"}
	before := func(suffix string) toolDeath { return toolDeath{"", "store", suffix, false} }
	after := func(suffix string) toolDeath { return toolDeath{"", "store", suffix, true} }
	for _, test := range []struct {
		name   string
		death  toolDeath
		tool   string
		effect configs.ToolEffect
		// names are the names of the tree's artifacts, and effects is
		// the number of times that the command has run.
		names   []string
		effects int
	}{
		{"command, before it is stored", before(".txt"), "run_command", "", nil, 1},
		{"command, after it is stored", after(".txt"), "run_command", "", nil, 1},
		{"command, after the outcome", toolDeaths[3], "run_command", "", own, 1},
		{"repeated, before it is stored", before(".txt"), "run_command", configs.ToolReads, own, 2},
		{"repeated, after it is stored", after(".txt"), "run_command", configs.ToolReads, []string{"r-1-0-2.txt"}, 2},
		{"write, before it is stored", before("/a.md"), "write_artifact", "", written, 0},
		{"write, after it is stored", after("/a.md"), "write_artifact", "", written, 0},
		{"write, before the outcome", toolDeaths[2], "write_artifact", "", written, 0},
		{"write, after the outcome", toolDeaths[3], "write_artifact", "", written, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			withHarness(t, func(h *harness) {
				h.agents = []configs.Agent{define("ops", nil, withTools(dir, test.tool), func(a *configs.Agent) {
					a.ToolConf = map[string]configs.ToolConfig{test.tool: {Effect: test.effect}}
					a.Artifacts.MaxResult = 1024
				})}
				arguments := []any{"command", command}
				if test.tool == "write_artifact" {
					arguments = []any{"name", "a.md", "content", "text"}
				}
				h.models["ops"] = turns(calls(use(test.tool, arguments...)), joinsResults)
				root := h.killToolAt(test.death)
				o := h.awaitOutcome(root, time.Hour)
				if got := names(o.Artifacts); !slices.Equal(got, test.names) {
					t.Errorf("the tree has the artifacts %v, want %v", got, test.names)
				}
				got := h.outcomes(root.Reply(1, 0))
				if len(got) != 1 || !slices.Equal(names(got[0].Artifacts), test.names) {
					t.Errorf("the outcomes of the tool are %+v, want one with %v", got, test.names)
				}
				for _, name := range test.names {
					text, ok := h.artifact(root.Tree, name)
					want := max(test.effects, 1) // the written text has one x
					if !ok || strings.Count(text, "x") != want {
						t.Errorf("the artifact %s (found %t) begins with %.20q, want a text with %d times x",
							name, ok, text, want)
					}
				}
				if b, _ := os.ReadFile(filepath.Join(dir, "effects")); strings.Count(string(b), "x") != test.effects {
					t.Errorf("the command ran %d times, want %d", strings.Count(string(b), "x"), test.effects)
				}
				h.checkVerified()
			})
		})
	}
}

// TestArtifactOfACommand: the artifact of a failed command has its exit code
// and its whole output. The model reads the beginning and the end.
func TestArtifactOfACommand(t *testing.T) {
	thorough(t)
	t.Parallel()
	dir := t.TempDir()
	inRealTime(t, func(h *harness) {
		h.agents = []configs.Agent{define("ops", nil, withTools(dir, "run_command"))}
		h.models["ops"] = turns(
			calls(use("run_command", "command", "seq 200000; echo the end; exit 3")),
			joinsResults,
		)
		h.startWorker("w", workerOptions{Config: agentd.Config{Sandbox: agentd.NewSandbox()}})
		h.awaitReady()
		root := h.submit("ops", "do it")
		result := root.Space.Result(root.Agent, root.Tree)
		h.eventually("the tree has ended", func() bool { return len(h.outcomes(result)) == 1 })
		o := h.outcomes(root.Reply(1, 0))[0]
		if o.Kind != run.KindError || !strings.HasPrefix(o.Error, "exit code 3\n1\n2\n") ||
			!strings.HasSuffix(o.Error, "\n200000\nthe end\n") || len(o.Error) > configs.DefaultMaxResult {
			t.Errorf("the model reads %d bytes, %.20q … %q, want the exit code, both ends of the output, "+
				"and at most %d bytes", len(o.Error), o.Error, o.Error[len(o.Error)-20:], configs.DefaultMaxResult)
		}
		text, _ := h.artifact(root.Tree, "r-1-0.txt")
		if n := strings.Count(text, "\n"); n != 200_002 {
			t.Errorf("the artifact has %d lines, want 200,002", n)
		}
		h.checkVerified()
	})
}
