package trace_test

import (
	"testing"

	"github.com/axebus/axe/internal/trace"
	"github.com/axebus/axe/subjects"
)

// TestIDs: the ids follow from the tree, the path and the turn. They are part of
// the protocol: another version makes the same.
func TestIDs(t *testing.T) {
	tree, err := subjects.ParseTree("T1")
	if err != nil {
		t.Fatal(err)
	}
	own := trace.Of(tree, "")
	child := subjects.Root.Child(1, 0)
	for name, test := range map[string]struct{ got, want string }{
		"own trace": {
			own.Header(trace.Chat(child, 2)),
			"00-61411e223b3801ddad5542a13e9d117e-9e64bd03180d602c-01",
		},
		"trace of a submitter": {
			trace.Of(tree, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01").Header(trace.Run(child)),
			"00-0af7651916cd43dd8448eb211c80319c-57e2b2ede9e530ee-01",
		},
		"trace that is not recorded": {
			trace.Of(tree, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00").Header(trace.Tool(child)),
			"00-0af7651916cd43dd8448eb211c80319c-9dc29cc210859967-00",
		},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %s, want %s", name, test.got, test.want)
		}
	}
	seen := map[trace.SpanID]bool{}
	for _, path := range []subjects.Path{subjects.Root, child, child.Child(1, 0)} {
		for _, id := range []trace.SpanID{
			trace.Run(path), trace.Tool(path), trace.Chat(path, 1), trace.Chat(path, 2), trace.Chat(path, 11),
		} {
			if seen[id] {
				t.Errorf("two spans have the id %x", id)
			}
			seen[id] = true
		}
	}
}

// TestMalformedTraceparent: a malformed traceparent counts as none.
func TestMalformedTraceparent(t *testing.T) {
	tree, err := subjects.ParseTree("T1")
	if err != nil {
		t.Fatal(err)
	}
	own := trace.Of(tree, "")
	for _, header := range []string{
		"x", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
		"00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
		"00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
	} {
		if got := trace.Of(tree, header); got != own {
			t.Errorf("%q makes the trace %x", header, got.Trace)
		}
	}
	later := trace.Of(tree, "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more")
	if later == own || later.Off {
		t.Error("a traceparent of a later version is not read")
	}
}
