package subjects

import (
	"fmt"
	"strconv"
	"time"
)

// Names of the headers of a message. Routing and limits are headers, so that a
// server, a proxy or a person with the nats CLI reads them without the body.
const (
	HeaderTree        = "Axe-Tree"
	HeaderPath        = "Axe-Path"
	HeaderParent      = "Axe-Parent"
	HeaderDepth       = "Axe-Depth"
	HeaderMaxDepth    = "Axe-Max-Depth"
	HeaderDeadline    = "Axe-Deadline"
	HeaderReply       = "Axe-Reply"
	HeaderLimits      = "Axe-Limits"
	HeaderSchema      = "Axe-Schema"
	HeaderTraceparent = "traceparent"
)

// Schema is the version of the messages that this version writes.
const Schema = "1"

// MaxDepth is the deepest that a tree may ever get.
const MaxDepth = 5

// Header is what a call says in its headers.
type Header struct {
	Tree   Tree
	Path   Path
	Parent Agent // zero for a root
	Depth  int   // 0 for a root
	// what the ancestors allow, 0 to MaxDepth
	MaxDepth int
	// absolute; RFC 3339 with fraction on the wire
	Deadline time.Time
	Reply    string // where the outcome goes
	// bounds on the work of runs above and of this one, the outermost first
	Scopes      []Scope
	Traceparent string // W3C trace context, passed on untouched
}

// Pairs lists the header's names and values, in a fixed order.
func (h Header) Pairs() [][2]string {
	pairs := [][2]string{
		{HeaderSchema, Schema},
		{HeaderTree, h.Tree.s},
		{HeaderPath, h.Path.s},
		{HeaderDepth, strconv.Itoa(h.Depth)},
		{HeaderMaxDepth, strconv.Itoa(h.MaxDepth)},
		{HeaderDeadline, FormatDeadline(h.Deadline)},
		{HeaderReply, h.Reply},
	}
	if !h.Parent.IsZero() {
		pairs = append(pairs, [2]string{HeaderParent, h.Parent.s})
	}
	if len(h.Scopes) > 0 {
		pairs = append(pairs, [2]string{HeaderLimits, FormatScopes(h.Scopes)})
	}
	if h.Traceparent != "" {
		pairs = append(pairs, [2]string{HeaderTraceparent, h.Traceparent})
	}
	return pairs
}

// FormatDeadline writes a deadline as it stands in a header.
func FormatDeadline(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ParseDeadline reads a deadline of a header.
func ParseDeadline(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if year := t.UTC().Year(); err != nil || year < 2000 || year > 9999 {
		return time.Time{}, fmt.Errorf(
			"%s %s: %w: want RFC 3339, for example 2026-01-02T15:04:05.678Z",
			HeaderDeadline,
			quote(s),
			ErrToken,
		)
	}
	return t, nil
}

// ParseCall reads and checks the header of a call to a run. Nothing is believed
// because it parsed: tree and path have to be the subject's, depth has to be
// the path's, and the reply has to be the slot that the path names (for a root:
// the result, or an inbox).
func ParseCall(r Run, get func(name string) string) (Header, error) {
	h := Header{
		Tree:        r.Tree,
		Path:        r.Path,
		Depth:       r.Path.Depth(),
		Reply:       get(HeaderReply),
		Traceparent: get(HeaderTraceparent),
	}
	bad := func(name, why string) (Header, error) {
		return h, fmt.Errorf("%s %s: %w: %s", name, quote(get(name)), ErrToken, why)
	}
	if s := get(HeaderSchema); s != Schema {
		return bad(HeaderSchema, "this worker reads schema "+Schema)
	}
	if get(HeaderTree) != r.Tree.s {
		return bad(HeaderTree, "differs from the subject")
	}
	if get(HeaderPath) != r.Path.s {
		return bad(HeaderPath, "differs from the subject")
	}
	if get(HeaderDepth) != strconv.Itoa(h.Depth) {
		return bad(HeaderDepth, "differs from the path")
	}
	limit, err := number(get(HeaderMaxDepth))
	if err != nil || limit > MaxDepth {
		return bad(HeaderMaxDepth, "want 0 to "+strconv.Itoa(MaxDepth))
	}
	if h.Depth > limit {
		return bad(HeaderDepth, "is deeper than allowed")
	}
	h.MaxDepth = limit
	if h.Deadline, err = ParseDeadline(get(HeaderDeadline)); err != nil {
		return h, err
	}
	if h.Scopes, err = ParseScopes(get(HeaderLimits), r.Path); err != nil {
		return h, err
	}
	if err := r.Space.CheckReply(h.Reply); err != nil {
		return h, err
	}
	parent, turn, index, below := r.Path.Parent()
	if !below {
		if h.Reply != r.Space.Result(r.Agent, r.Tree) && !inbox(h.Reply) {
			return bad(HeaderReply, "is neither the result of this tree nor an inbox")
		}
		return h, nil
	}
	if h.Parent, err = ParseAgent(get(HeaderParent)); err != nil {
		return h, fmt.Errorf("%s: %w", HeaderParent, err)
	}
	if h.Reply != r.Space.Run(h.Parent, r.Tree, parent).Reply(turn, index) {
		return bad(HeaderReply, "is not the slot of this path")
	}
	return h, nil
}
