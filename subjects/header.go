package subjects

import (
	"fmt"
	"strconv"
	"time"
)

// Names of the headers of a message. Routing and budgets are headers, so that a
// server, a proxy or a person with the nats CLI reads them without the body.
const (
	HeaderTree        = "Axe-Tree"
	HeaderPath        = "Axe-Path"
	HeaderParent      = "Axe-Parent"
	HeaderDepth       = "Axe-Depth"
	HeaderMaxDepth    = "Axe-Max-Depth"
	HeaderDeadline    = "Axe-Deadline"
	HeaderTimeout     = "Axe-Timeout"
	HeaderReply       = "Axe-Reply"
	HeaderLimits      = "Axe-Limits"
	HeaderSchema      = "Axe-Schema"
	HeaderTraceparent = "traceparent"
	// HeaderSignature is the writer's signature of an outcome.
	HeaderSignature = "Axe-Signature"
)

// Schema is the version of the message format that this program writes.
const Schema = "1"

// MaxDepth is the largest depth of a run with a model. The root has depth 0. A
// tool run may be one level deeper.
const MaxDepth = 5

// Header holds the headers of a call.
type Header struct {
	Tree Tree
	Path Path
	// Parent is the parent's agent, zero for a root.
	Parent Agent
	// Depth of the run, 0 for a root.
	Depth int
	// MaxDepth is the largest depth that the runs above allow, 0 to
	// MaxDepth.
	MaxDepth int
	// Deadline is absolute. On the wire it is RFC 3339 in UTC, with a
	// fraction of a second unless that is 0.
	Deadline time.Time
	// Reply is the subject of the outcome.
	Reply string
	// Scopes are the budgets of the runs above and of this one, the
	// outermost first.
	Scopes []Scope
	// Traceparent is the W3C trace context as it was received. Its writer
	// may have made it up.
	Traceparent string
}

// Pairs lists the names and values of the headers in a fixed order.
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

// FormatDeadline formats a deadline for a header.
func FormatDeadline(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// ParseDeadline parses the deadline of a header. Its year must be 2000 to 9999.
func ParseDeadline(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if year := t.UTC().Year(); err != nil || year < 2000 || year > 9999 {
		return time.Time{}, fmt.Errorf("%s %s: %w: want RFC 3339, for example 2026-01-02T15:04:05.678Z",
			HeaderDeadline, quote(s), ErrToken)
	}
	return t, nil
}

// FormatTimeout formats a timeout for a header.
func FormatTimeout(d time.Duration) string { return d.String() }

// ParseTimeout parses the timeout of a header: seconds, such as 90 or 1.5, or a
// duration such as 2m30s. It must be positive, and at most MaxTimeout.
func ParseTimeout(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if n, wrong := strconv.ParseFloat(s, 64); wrong == nil && n > 0 && n <= MaxTimeout.Seconds() {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d <= 0 || d > MaxTimeout {
		return 0, fmt.Errorf("%s %s: %w: want seconds, for example 120, or a duration like 2m30s, at most %v",
			HeaderTimeout, quote(s), ErrToken, MaxTimeout)
	}
	return d, nil
}

// MaxTimeout is the longest time that a submission may ask for: ten years.
// Workers refuse a submission with a longer time or a later deadline: its units
// are probably wrong.
const MaxTimeout = 10 * 365 * 24 * time.Hour

// ParseCall parses and checks the headers of a call to a run. It compares them
// with the subject: tree and path must be the same, and the depth must be that
// of the path. The reply must be the reply subject of the path, or for a root
// its result or an inbox.
func ParseCall(r Run, get func(name string) string) (Header, error) { return parseCall(r, 0, get) }

// ParseToolCall parses and checks the headers of the call of a tool run. It may
// be one level deeper than the runs above allow.
func ParseToolCall(r Run, get func(name string) string) (Header, error) { return parseCall(r, 1, get) }

func parseCall(r Run, below int, get func(name string) string) (Header, error) {
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
	for _, fixed := range []struct{ name, value, why string }{
		{HeaderSchema, Schema, "this worker reads schema " + Schema},
		{HeaderTree, r.Tree.s, "differs from the subject"},
		{HeaderPath, r.Path.s, "differs from the subject"},
		{HeaderDepth, strconv.Itoa(h.Depth), "differs from the path"},
	} {
		if get(fixed.name) != fixed.value {
			return bad(fixed.name, fixed.why)
		}
	}
	limit, err := number(get(HeaderMaxDepth))
	if err != nil || limit > MaxDepth {
		return bad(HeaderMaxDepth, "want 0 to "+strconv.Itoa(MaxDepth))
	}
	if h.Depth > limit+below {
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
	parent, turn, index, hasParent := r.Path.Parent()
	if !hasParent {
		if h.Reply != r.Space.Result(r.Agent, r.Tree) && !IsInbox(h.Reply) {
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
