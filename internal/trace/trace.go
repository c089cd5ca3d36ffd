// Package trace derives the ids of traces and spans from trees, runs and turns.
// It keeps one invariant: an id follows from the place of a span in its tree
// alone. So every process makes the same ids, and the second export of a span
// is the same span.
//
//	c := trace.Of(tree, header.Traceparent)
//	fmt.Println(c.Header(trace.Chat(path, 2)))
package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/axebus/axe/subjects"
)

// ID is the id of a trace.
type ID [16]byte

// SpanID is the id of a span.
type SpanID [8]byte

// Context is the trace of a tree.
type Context struct {
	Trace ID
	// Parent is the span of the submitter, zero if it named none.
	Parent SpanID
	// Off says that the submitter does not record the trace.
	Off bool
}

// Of returns the trace of a tree: that of the traceparent with which it was
// submitted, or its own. A malformed traceparent counts as none.
func Of(tree subjects.Tree, traceparent string) Context {
	if c, ok := parse(traceparent); ok {
		return c
	}
	var c Context
	sum := sha256.Sum256([]byte("axe trace " + tree.String()))
	copy(c.Trace[:], sum[:])
	return c
}

// maxLength bounds a traceparent. This version of it has 55 bytes.
const maxLength = 256

// Valid returns a traceparent as it goes on to other runs, "" for a malformed
// one: its writer may be hostile.
func Valid(traceparent string) string {
	if _, ok := parse(traceparent); !ok {
		return ""
	}
	return traceparent
}

// parse reads a traceparent of W3C Trace Context. One of a later version may
// have more fields.
func parse(traceparent string) (c Context, ok bool) {
	if len(traceparent) > maxLength {
		return c, false
	}
	parts := strings.Split(traceparent, "-")
	if len(parts) < 4 || len(parts[0]) != 2 || parts[0] == "ff" || parts[0] == "00" && len(parts) != 4 {
		return c, false
	}
	if traceparent != strings.ToLower(traceparent) {
		return c, false
	}
	var version, flags [1]byte
	for i, into := range [][]byte{version[:], c.Trace[:], c.Parent[:], flags[:]} {
		if len(parts[i]) != 2*len(into) {
			return Context{}, false
		}
		if _, err := hex.Decode(into, []byte(parts[i])); err != nil {
			return Context{}, false
		}
	}
	if c.Trace == (ID{}) || c.Parent == (SpanID{}) {
		return Context{}, false
	}
	c.Off = flags[0]&1 == 0
	return c, true
}

// Header returns the traceparent of requests that are made in a span.
func (c Context) Header(in SpanID) string {
	flags := "01"
	if c.Off {
		flags = "00"
	}
	return "00-" + hex.EncodeToString(c.Trace[:]) + "-" + hex.EncodeToString(in[:]) + "-" + flags
}

// Run returns the span of a run.
func Run(p subjects.Path) SpanID { return span("run", p, 0) }

// Tool returns the span of the call that made a run.
func Tool(p subjects.Path) SpanID { return span("tool", p, 0) }

// Chat returns the span of a turn of a run, from 1.
func Chat(p subjects.Path, turn int) SpanID { return span("chat", p, turn) }

func span(kind string, p subjects.Path, turn int) (id SpanID) {
	sum := sha256.Sum256([]byte(strings.Join([]string{"axe span", kind, p.String(), strconv.Itoa(turn)}, " ")))
	copy(id[:], sum[:])
	return id
}
