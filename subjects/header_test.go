package subjects

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// opaque lets cmp compare tokens and spaces.
var opaque = cmp.AllowUnexported(Agent{}, Tree{}, Path{}, Space{})

// pairs returns the headers by name.
func pairs(h Header) map[string]string {
	m := map[string]string{}
	for _, p := range h.Pairs() {
		m[p[0]] = p[1]
	}
	return m
}

// getter returns the function that reads headers from a map.
func getter(m map[string]string) func(string) string {
	return func(name string) string { return m[name] }
}

// TestHeaderRoundTrip: the worker of a run reads the header that the worker of
// its parent, or of its submission, wrote.
func TestHeaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, _ := drawPath(t)
		r := Space{}.Run(drawAgent(t), drawTree(t), p)
		traces := []string{"", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
		h := Header{
			Tree: r.Tree, Path: p, Depth: p.Depth(), MaxDepth: rapid.IntRange(p.Depth(), MaxDepth).Draw(t, "max depth"),
			Deadline: time.Unix(
				rapid.Int64Range(1e9, 2e11).Draw(t, "seconds"),
				rapid.Int64Range(0, 1e9-1).Draw(t, "nanoseconds"),
			).UTC(),
			Reply:       r.Space.Result(r.Agent, r.Tree),
			Traceparent: rapid.SampledFrom(traces).Draw(t, "traceparent"),
		}
		if up, turn, index, below := p.Parent(); below {
			h.Parent = drawAgent(t)
			h.Reply = r.Space.Run(h.Parent, r.Tree, up).Reply(turn, index)
		}
		got, err := ParseCall(r, getter(pairs(h)))
		if err != nil {
			t.Fatalf("the headers %v: error %v, want none", h.Pairs(), err)
		}
		if diff := cmp.Diff(h, got, opaque); diff != "" {
			t.Fatalf("header (-written +read):\n%s", diff)
		}
	})
}

// TestParseCallRefuses changes one header of a good call at a time. The error
// names the header.
func TestParseCallRefuses(t *testing.T) {
	var s Space
	lead, child, id := must(t, ParseAgent, "lead"), must(t, ParseAgent, "child"), must(t, ParseTree, "T1")
	deadline := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	r := s.Run(child, id, Root.Child(2, 1))
	below := Header{
		Tree:     id,
		Path:     r.Path,
		Parent:   lead,
		Depth:    1,
		MaxDepth: 3,
		Deadline: deadline,
		Reply:    "axe.run.lead.T1.r.in.2.1",
	}
	root := Header{Tree: id, Path: Root, MaxDepth: 3, Deadline: deadline, Reply: "axe.result.lead.T1"}
	tests := []struct {
		name    string
		run     Run
		header  Header
		refused []string
	}{
		{HeaderSchema, r, below, []string{"", "0", "2", "01", "1.0"}},
		{HeaderTree, r, below, []string{"", "T2", "t1", "*"}},
		{HeaderPath, r, below, []string{"", "r", "r-2-2", "r-2-1-1-0"}},
		{HeaderDepth, r, below, []string{"", "0", "2", "01", "-1", "one"}},
		{HeaderMaxDepth, r, below, []string{"", "0", "6", "-1", "03", "1e1", "9999999999"}},
		{HeaderDeadline, r, below, []string{
			"", "soon", "0", "2026-01-02", "2026-01-02 03:04:05Z", "2026-01-02T03:04:05",
			"1999-12-31T23:59:59Z", "2000-01-01T00:30:00+01:00",
			"9999-12-31T23:30:00-01:00", "10000-01-01T00:00:00Z",
		}},
		{HeaderParent, r, below, []string{"", "Lead", "child", "lead.x", "*"}},
		{HeaderReply, r, below, []string{
			"", "axe.run.lead.T1.r.in.2.0", "axe.run.lead.T1.r.in.1.1", "axe.run.lead.T2.r.in.2.1",
			"axe.run.other.T1.r.in.2.1", "axe.run.lead.T1.r-2-1.in.2.1",
			"axe.result.lead.T1", "_INBOX.x", "axe.run.lead.T1.r.cancel", "$JS.API.STREAM.DELETE.AXE_RUNS",
		}},
		{HeaderReply, s.Run(lead, id, Root), root, []string{
			"", "axe.result.child.T1", "axe.result.lead.T2", "axe.run.lead.T1.r.in.1.0",
			"axe.run.other.T9.r.in.1.0", "_INBOX.*", "axe.live.result.lead.T1",
		}},
		{HeaderDepth, s.Run(lead, id, Root), root, []string{"1", ""}},
	}
	for _, test := range tests {
		good := pairs(test.header)
		if _, err := ParseCall(test.run, getter(good)); err != nil {
			t.Fatalf("the good headers %v: error %v, want none", good, err)
		}
		for _, value := range test.refused {
			changed := maps.Clone(good)
			changed[test.name] = value
			if _, err := ParseCall(test.run, getter(changed)); !errors.Is(err, ErrToken) ||
				!strings.Contains(strings.ToLower(err.Error()), reason(test.name)) {
				t.Errorf("%s %q of %s: error %v, want one that wraps ErrToken and has %q",
					test.name, value, test.run, err, reason(test.name))
			}
		}
	}
}

// reason returns a part of the error about a wrong header, in lower case.
func reason(name string) string {
	switch name {
	case HeaderReply:
		return "reply"
	case HeaderParent, HeaderMaxDepth:
		// The error may be about another header: the reply is not that
		// parent's slot, or the depth is above that maximum.
		return "axe-"
	}
	return strings.ToLower(name)
}

// TestParseCallOfARoot: the outcome of a root may go to an inbox. The header of
// a parent is ignored, since any client may call a root.
func TestParseCallOfARoot(t *testing.T) {
	r := Space{}.Run(must(t, ParseAgent, "lead"), must(t, ParseTree, "T1"), Root)
	h := Header{
		Tree:     r.Tree,
		Path:     Root,
		MaxDepth: 5,
		Deadline: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Reply:    "_INBOX.abc.1",
	}
	m := pairs(h)
	m[HeaderParent] = "somebody"
	got, err := ParseCall(r, getter(m))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, got, opaque); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

func TestFormatDeadline(t *testing.T) {
	at := time.Date(2026, 1, 2, 4, 4, 5, 600_000_000, time.FixedZone("CET", 3600))
	if got, want := FormatDeadline(at), "2026-01-02T03:04:05.6Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzParseCall: a call that ParseCall accepts is within its maximum depth, and
// has a reply subject that a worker may write to. Its header is the same after
// it was written and read again.
func FuzzParseCall(f *testing.F) {
	f.Add("T1", "r", "0", "3", "2026-01-02T03:04:05.6Z", "axe.result.child.T1", "", "", "1")
	f.Add(
		"T1",
		"r-2-1",
		"1",
		"3",
		"2026-01-02T03:04:05.6+02:00",
		"axe.run.lead.T1.r.in.2.1",
		"lead",
		"00-a-b-01",
		"1",
	)
	f.Add("T1", "r", "0", "3", "9999-12-31T23:59:59-01:00", "_INBOX.x", "", "", "1")
	f.Add("T1", "r-1-0", "1", "5", "2026-01-02T03:04:05Z", "_INBOX.x", "lead", "", "1")
	f.Fuzz(func(t *testing.T, tree, path, depth, maxDepth, deadline, reply, parent, trace, schema string) {
		id, err := ParseTree(tree)
		if err != nil {
			return
		}
		p, err := ParsePath(path)
		if err != nil {
			return
		}
		r := Space{}.Run(Agent{"child"}, id, p)
		h, err := ParseCall(r, getter(map[string]string{
			HeaderTree: tree, HeaderPath: path, HeaderDepth: depth, HeaderMaxDepth: maxDepth, HeaderDeadline: deadline,
			HeaderReply: reply, HeaderParent: parent, HeaderTraceparent: trace, HeaderSchema: schema,
		}))
		if err != nil {
			if !errors.Is(err, ErrToken) {
				t.Fatalf("error %v, want one that wraps ErrToken", err)
			}
			return
		}
		if h.Depth != p.Depth() || h.Depth > h.MaxDepth || h.MaxDepth > MaxDepth ||
			r.Space.CheckReply(h.Reply) != nil ||
			!printable(h.Reply) {
			t.Fatalf("accepted %+v, want a depth within the maximum and a valid reply subject", h)
		}
		again, err := ParseCall(r, getter(pairs(h)))
		if err != nil {
			t.Fatalf("an accepted header is refused as %v: %v", h.Pairs(), err)
		}
		if diff := cmp.Diff(h, again, opaque); diff != "" {
			t.Fatalf("header (-first +again):\n%s", diff)
		}
	})
}
