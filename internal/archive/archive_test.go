package archive_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/axebus/axe/internal/archive"
	"github.com/axebus/axe/subjects"
)

// rewrite reads a file and writes it again. It returns the lines.
func rewrite(file []byte) (lines []archive.Line, again []byte, _ error) {
	var b bytes.Buffer
	var w *archive.Writer
	for l, err := range archive.Read(bytes.NewReader(file)) {
		switch {
		case err != nil:
			return nil, nil, err
		case l.Message != nil:
			w.Message(l.Tree, *l.Message)
		case l.Object != nil:
			w.Object(l.Tree, *l.Object)
		case l.End != nil:
			if err := w.End(l.Tree); err != nil {
				return nil, nil, err
			}
		default:
			w = archive.NewWriter(&b, l.Exported)
		}
		lines = append(lines, l)
	}
	return lines, b.Bytes(), nil
}

// FuzzRead: a file is refused, or has the same lines after it was written again.
func FuzzRead(f *testing.F) {
	tree, err := subjects.ParseTree("T1")
	if err != nil {
		f.Fatal(err)
	}
	var b bytes.Buffer
	w := archive.NewWriter(&b, time.Unix(1, 0))
	m := archive.Message{Subject: "run.a.T1.r.call", Seq: 3, Fence: new(uint64)}
	m.Header = map[string][]string{"A": {"b"}}
	m.SetBody([]byte("text"))
	w.Message(tree, m)
	m = archive.Message{Subject: "result.a.T1", Seq: 4}
	m.SetBody([]byte("\xff"))
	w.Object(tree, archive.Object{
		Name: "T1/x", SHA256: "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae", Data: []byte("foo"),
	})
	w.Message(tree, m)
	if err := w.End(tree); err != nil {
		f.Fatal(err)
	}
	lines, _, err := rewrite(b.Bytes())
	if err != nil || len(lines) != 5 || string(lines[3].Message.Content()) != "\xff" {
		f.Fatalf("%d lines, %v; want 5", len(lines), err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"format":"axe-trees","version":1}` + "\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		lines, again, err := rewrite(file)
		if err != nil || len(lines) == 1 {
			return
		}
		same, _, err := rewrite(again)
		if diff := cmp.Diff(lines, same, cmp.Comparer(sameTree), cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("%v, lines (-want +got):\n%s", err, diff)
		}
	})
}

func sameTree(a, b subjects.Tree) bool { return a == b }
