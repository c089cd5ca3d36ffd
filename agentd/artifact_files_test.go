package agentd

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/internal/toolset"
	"github.com/axebus/axe/subjects"
)

// runOf returns the address of a run of the agent ops, with the given path.
func runOf(t *testing.T, conn *bus.Conn, path string) subjects.Run {
	t.Helper()
	agent, agentErr := subjects.ParseAgent("ops")
	tree, treeErr := subjects.ParseTree("order4711")
	p, pathErr := subjects.ParsePath(path)
	if agentErr != nil || treeErr != nil || pathErr != nil {
		t.Fatal(agentErr, treeErr, pathErr)
	}
	return conn.Space().Run(agent, tree, p)
}

// TestStoreFiles: a run stores the files of a tool's result as artifacts. Their
// names are file names. Each begins with the run's path, or with the digest of
// a long path, so that no other run has the name. A second attempt with the
// same files gets the same artifacts.
func TestStoreFiles(t *testing.T) {
	conn := testbus.Open(t)
	long := "r" + strings.Repeat("-1-0", 40)
	for _, test := range []struct{ path, name, want string }{
		{"r-1-0", "chart.png", "r-1-0-chart.png"},
		{"r-1-1", "../../etc/passwd", "r-1-1-_.._etc_passwd"},
		{"r-1-2", "", "r-1-2-file"},
		{"r-1-3", "a\x1bb.", "r-1-3-a_b"},
		{"r-1-4", strings.Repeat("ä", 100) + ".jpeg", "r-1-4-" + strings.Repeat("ä", 12) + ".jpeg"},
		{"r-1-5", strings.Repeat("x", 100), "r-1-5-" + strings.Repeat("x", 30)},
		{long, "a.png", "r-ac57ca25bd4d1595-a.png"},
	} {
		file := toolset.File{Name: test.name, MediaType: "image/png", Bytes: []byte("\x89PNG\x00")}
		for range 2 {
			a := newArtifacts(conn, runOf(t, conn, test.path))
			got, err := a.storeFile(t.Context(), file)
			if err != nil || got.Name != test.want || got.MediaType != "image/png" {
				t.Errorf("%q: got %+v, %v, want %q", test.name, got, err, test.want)
			}
			if !slices.Equal(a.kept, []run.Artifact{got}) {
				t.Errorf("%q: the run keeps %+v, want %+v", test.name, a.kept, got)
			}
			if err := run.CheckArtifactName(got.Name); err != nil {
				t.Errorf("%q: the artifact's name is refused: %v", test.name, err)
			}
		}
	}
}

// TestCutMiddle: the two ends and the number of bytes that are cut add up to
// the whole text. The ends are within the limit, and no character is split.
func TestCutMiddle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runes := rapid.SampledFrom([]rune("ab äö€😀\n"))
		whole := rapid.StringOfN(runes, 10, 1000, -1).Draw(t, "text")
		limit := rapid.IntRange(10, 1000).Draw(t, "limit")
		if len(whole) <= limit {
			t.Skip("nothing is cut")
		}
		e := cutMiddle(whole, limit)
		if !utf8.ValidString(e.head) || !utf8.ValidString(e.tail) || len(e.head)+len(e.tail) > limit {
			t.Fatalf("the ends are %q and %q, want valid UTF-8 of at most %d bytes together", e.head, e.tail, limit)
		}
		if !strings.HasPrefix(whole, e.head) || !strings.HasSuffix(whole, e.tail) ||
			e.cut != len(whole)-len(e.head)-len(e.tail) {
			t.Fatalf("got %q, %d bytes that are cut, and %q; want the ends of %q and the bytes between them",
				e.head, e.cut, e.tail, whole)
		}
	})
}
