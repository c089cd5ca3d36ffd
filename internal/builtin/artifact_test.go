package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/axebus/axe/agentd/run"
)

// artifactTexts has the texts of artifacts by name. It copies them in pieces of
// 1,000 bytes.
type artifactTexts map[string]string

func (s artifactTexts) Copy(_ context.Context, w io.Writer, name string) (run.Artifact, error) {
	text, ok := s[name]
	if !ok {
		return run.Artifact{}, errors.New("no such artifact")
	}
	found := run.Artifact{Name: name, Size: int64(len(text)), MediaType: "image/png"}
	for text != "" {
		n := min(len(text), 1000)
		if _, err := w.Write([]byte(text[:n])); err != nil {
			return found, err
		}
		text = text[n:]
	}
	return found, nil
}

func (s artifactTexts) Write(_ context.Context, name string, b []byte) error {
	if old, ok := s[name]; ok && !bytes.Equal([]byte(old), b) {
		return errors.New("another content")
	}
	s[name] = string(b)
	return nil
}

// TestReadArtifact: read_artifact returns numbered lines of an artifact, as
// read_file does of a file. A result keeps to MaxResult, and says at which line
// the next call goes on. So all calls together read the whole artifact.
func TestReadArtifact(t *testing.T) {
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, "line %d\n", i+1)
	}
	c := Call{MaxResult: 1024, Artifacts: artifactTexts{
		"three": "one\ntwo\nthree", "ended": "one\ntwo\n", "empty": "", "many": many.String(),
		"long": strings.Repeat("äx", 2000) + "\nnext", "png": "\x89PNG\x00", "blank": "\n\n",
	}}
	for _, tt := range []toolCall{
		{"whole", args{"name": "three"}, "1: one\n2: two\n3: three", ""},
		{"ended by a newline", args{"name": "ended"}, "1: one\n2: two", ""},
		{"empty", args{"name": "empty"}, "", ""},
		{"blank lines", args{"name": "blank"}, "1: \n2: ", ""},
		{"a part", args{"name": "three", "offset": "2", "limit": "1"}, "2: two", ""},
		{"far", args{"name": "many", "offset": "4999", "limit": "9"}, "4999: line 4999\n5000: line 5000", ""},
		{"beyond", args{"name": "three", "offset": "4"}, "", "offset 4 exceeds artifact length of 3 lines"},
		{"beyond an end", args{"name": "ended", "offset": "3"}, "", "offset 3 exceeds artifact length of 2 lines"},
		{"binary", args{"name": "png"}, "", `binary artifact: 5 bytes of the type "image/png"`},
		{"unknown", args{"name": "other"}, "", "no such artifact"},
		{"a path", args{"name": "../three"}, "", "is a file name"},
		{"no name", args{}, "", "name is required"},
		{"a bad offset", args{"name": "three", "offset": "0"}, "", "offset must be >= 1"},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.check(t, readArtifact(), c) })
	}
	// Each piece says where the next one begins.
	var all strings.Builder
	next := 1
	for pieces := 0; next <= 5000; pieces++ {
		c.Arguments = args{"name": "many", "offset": strconv.Itoa(next)}
		got, err := use(t.Context(), readArtifact(), c)
		if err != nil || len(got) > c.MaxResult || pieces > 5000 {
			t.Fatalf("from line %d: %d bytes, error %v; want at most %d bytes", next, len(got), err, c.MaxResult)
		}
		lines, note, cut := strings.Cut(got, "\n... [")
		for line := range strings.SplitSeq(lines, "\n") {
			_, text, _ := strings.Cut(line, ": ")
			all.WriteString(text + "\n")
		}
		if next = 5001; cut {
			if _, err := fmt.Sscanf(note, "cut here: go on with offset %d]", &next); err != nil {
				t.Fatalf("the note %q has no offset: %v", note, err)
			}
		}
	}
	if all.String() != many.String() {
		t.Error("the pieces together are not the artifact")
	}
	c.Arguments = args{"name": "long"}
	got, err := use(t.Context(), readArtifact(), c)
	if err != nil || !strings.HasSuffix(got, "x\n... [the rest of this line is left out: the next one has offset 2]") &&
		!strings.HasSuffix(got, "ä\n... [the rest of this line is left out: the next one has offset 2]") {
		t.Errorf("a long line: ends in %q, error %v; want a note with the offset 2", got[max(0, len(got)-90):], err)
	}
}

// TestWriteArtifact: write_artifact stores a text under a file name. The same
// text may be stored again, and another one is refused.
func TestWriteArtifact(t *testing.T) {
	c := Call{Artifacts: artifactTexts{"there": "one"}}
	for _, tt := range []toolCall{
		{"new", args{"name": "a.md", "content": "äb"}, "wrote 3 bytes to artifact a.md", ""},
		{"empty", args{"name": "b.md", "content": ""}, "wrote 0 bytes to artifact b.md", ""},
		{"the same", args{"name": "there", "content": "one"}, "wrote 3 bytes to artifact there", ""},
		{"another content", args{"name": "there", "content": "two"}, "", "another content"},
		{"a hidden file", args{"name": ".bashrc", "content": "x"}, "", "no dot and no space at its ends"},
		{"no content", args{"name": "c.md"}, "", "content is required"},
	} {
		t.Run(tt.name, func(t *testing.T) { tt.check(t, writeArtifact(), c) })
	}
	if got := c.Artifacts.(artifactTexts)["a.md"]; got != "äb" {
		t.Errorf("stored %q, want äb", got)
	}
}
