// Package archive is the form of exported trees: a file of JSON lines. The
// first line says what the file is. Each tree is a block of lines: its messages
// in the order of their stream, the objects that belong to it, and a last line
// with their numbers. A large body stands before the message that names it. So
// a reader needs no more memory than the largest object, and notices a file
// that was cut off.
//
// Subjects stand without the prefix and the partition of their bus, so that
// another bus can take the trees.
//
//	w := archive.NewWriter(os.Stdout, time.Now())
//	w.Message(tree, archive.Message{Subject: "result.lead.T1", Seq: 7, Body: body})
//	w.End()
package archive

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/axebus/axe/subjects"
)

const (
	// Format is the name of the form, in the first line.
	Format = "axe-trees"
	// Version is the version of the form.
	Version = 1
)

// Line is a line of the file. It is the first one, which has the format, or has
// exactly one of Message, Object and End.
type Line struct {
	Format   string    `json:"format,omitzero"`
	Version  int       `json:"version,omitzero"`
	Exported time.Time `json:"exported,omitzero"`

	Tree    subjects.Tree `json:"tree,omitzero"`
	Message *Message      `json:"message,omitempty"`
	Object  *Object       `json:"object,omitempty"`
	End     *End          `json:"end,omitempty"`
}

// Message is a stored message.
type Message struct {
	// Subject stands without prefix and partition.
	Subject string `json:"subject"`
	// Seq and Time are its place on the stream that its writer wrote it to.
	Seq  uint64    `json:"seq"`
	Time time.Time `json:"time"`
	// Fence is the sequence that the writer expected. It is nil for a
	// message without a fence.
	Fence  *uint64             `json:"fence,omitempty"`
	Header map[string][]string `json:"header,omitempty"`
	// Body is the body, and Bytes in place of it a body that is no UTF-8.
	Body  string `json:"body,omitzero"`
	Bytes []byte `json:"bytes,omitempty"`
	// Object names the object that has the body. It is empty for a body
	// in the message.
	Object string `json:"object,omitzero"`
}

// SetBody sets Body or Bytes.
func (m *Message) SetBody(b []byte) {
	if utf8.Valid(b) {
		m.Body = string(b)
	} else {
		m.Bytes = b
	}
}

// Content returns the body.
func (m *Message) Content() []byte {
	if m.Bytes != nil {
		return m.Bytes
	}
	return []byte(m.Body)
}

// Get returns the first value of a header, "" if there is none.
func (m *Message) Get(name string) string {
	for _, v := range m.Header[name] {
		return v
	}
	return ""
}

// Object is an artifact, or the large body of a message.
type Object struct {
	// Name is the name in the object store.
	Name string `json:"name"`
	// Type is the media type of an artifact, and Path the path of the tool
	// run that stored it.
	Type string `json:"type,omitzero"`
	Path string `json:"path,omitzero"`
	// SHA256 is the digest of the data, in hex.
	SHA256 string `json:"sha256"`
	Data   []byte `json:"data"`
}

// Artifact returns the name of the artifact that an object of a tree is; ok is
// false for a large body.
func (o Object) Artifact(t subjects.Tree) (name string, ok bool) {
	return strings.CutPrefix(o.Name, t.String()+"/")
}

// End ends the block of a tree.
type End struct {
	Messages int `json:"messages"`
	Objects  int `json:"objects"`
}

// Writer writes a file. It is for one goroutine.
type Writer struct {
	to   *bufio.Writer
	into *json.Encoder
	end  End
	err  error
}

// NewWriter writes the first line. The time is that of the export.
func NewWriter(w io.Writer, at time.Time) *Writer {
	to := bufio.NewWriter(w)
	a := &Writer{to: to, into: json.NewEncoder(to)}
	a.into.SetEscapeHTML(false)
	a.put(Line{Format: Format, Version: Version, Exported: at.UTC()})
	return a
}

func (a *Writer) put(l Line) {
	if a.err == nil {
		a.err = a.into.Encode(l)
	}
}

// Message adds a message of the tree whose block is being written.
func (a *Writer) Message(t subjects.Tree, m Message) {
	a.end.Messages++
	a.put(Line{Tree: t, Message: &m})
}

// Object adds an object of the tree.
func (a *Writer) Object(t subjects.Tree, o Object) {
	a.end.Objects++
	a.put(Line{Tree: t, Object: &o})
}

// End ends the block of a tree. It returns the first error of all writes.
func (a *Writer) End(t subjects.Tree) error {
	a.put(Line{Tree: t, End: &a.end})
	a.end = End{}
	if a.err == nil {
		a.err = a.to.Flush()
	}
	return a.err
}

// ErrMalformed is wrapped by the error for a file that is no whole export.
var ErrMalformed = errors.New("no whole export of trees")

// Read yields the lines of a file, the first one included. The error wraps
// ErrMalformed for a file in another form, with trees that are mixed or not
// whole, or with an object of another digest. Read ends after an error.
func Read(r io.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		from := json.NewDecoder(bufio.NewReaderSize(r, 1<<16))
		c := &check{done: map[subjects.Tree]bool{}}
		for n := 1; ; n++ {
			var l Line
			err := from.Decode(&l)
			if errors.Is(err, io.EOF) && c.between() {
				return
			}
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			if err == nil {
				err = c.next(l)
			}
			if err != nil {
				err = fmt.Errorf("%w: line %d: %w", ErrMalformed, n, err)
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}

// check holds the lines of a file to its form.
type check struct {
	begun bool
	tree  subjects.Tree // zero between two blocks
	end   End
	seq   uint64
	done  map[subjects.Tree]bool
}

// between reports whether the file may end.
func (c *check) between() bool { return c.begun && c.tree.IsZero() }

// parts is the number of Message, Object and End that a line has.
func (l Line) parts() (n int) {
	for _, has := range []bool{l.Message != nil, l.Object != nil, l.End != nil} {
		if has {
			n++
		}
	}
	return n
}

func (c *check) next(l Line) error {
	if first := !c.begun; first != (l.parts() == 0) || l.parts() > 1 || !first && l.Format != "" {
		return errors.New("the line must have a message, an object or an end, and the first one the format")
	}
	if !c.begun {
		c.begun = true
		if l.Format != Format || l.Version != Version {
			return fmt.Errorf("the format must be %q of version %d, got %q of version %d",
				Format, Version, l.Format, l.Version)
		}
		return nil
	}
	if c.tree.IsZero() {
		c.tree, c.end, c.seq = l.Tree, End{}, 0
		if c.done[l.Tree] {
			return fmt.Errorf("tree %s comes twice", l.Tree)
		}
	}
	switch {
	case l.Tree.IsZero() || l.Tree != c.tree:
		return fmt.Errorf("the tree must be %s up to its end, got %s", c.tree, l.Tree)
	case l.Message != nil:
		c.end.Messages++
		return c.message(*l.Message)
	case l.Object != nil:
		c.end.Objects++
		return c.object(*l.Object)
	case *l.End != c.end:
		return fmt.Errorf("tree %s has %+v, and its end says %+v", c.tree, c.end, *l.End)
	}
	c.done[c.tree] = true
	c.tree = subjects.Tree{}
	return nil
}

func (c *check) message(m Message) error {
	if _, err := subjects.Absolute(subjects.Space{}, c.tree, m.Subject); err != nil {
		return err
	}
	if m.Seq <= c.seq {
		return fmt.Errorf("the sequence must be above %d, got %d", c.seq, m.Seq)
	}
	c.seq = m.Seq
	for name, values := range m.Header {
		// The server acts on its own headers.
		server := strings.HasPrefix(strings.ToLower(name), "nats-") || name == ImportedHeader
		if server || strings.ContainsAny(name+strings.Join(values, ""), "\r\n") || strings.ContainsAny(name, ": ") {
			return fmt.Errorf("a message must not have the header %q: %q", name, values)
		}
	}
	return nil
}

// ImportedHeader is the header of an imported message, which no exported one
// has.
const ImportedHeader = "Axe-Imported"

func (c *check) object(o Object) error {
	sum := sha256.Sum256(o.Data)
	if got := hex.EncodeToString(sum[:]); got != o.SHA256 {
		return fmt.Errorf("object %q has the digest %s, want %s", o.Name, got, o.SHA256)
	}
	name, isArtifact := o.Artifact(c.tree)
	if isArtifact && name == "" || !isArtifact && (o.Name == "" || strings.ContainsAny(o.Name, "/")) {
		return fmt.Errorf("object %q is no object of tree %s", o.Name, c.tree)
	}
	return nil
}

// relativeHeaders are the headers with a subject.
func relativeHeaders() []string { return []string{subjects.HeaderReply, "Axe-Subject"} }

// Relative makes the headers with a subject relative.
func Relative(s subjects.Space, name, value string) string {
	if slices.Contains(relativeHeaders(), name) {
		if rel, ok := s.Relative(value); ok {
			return rel
		}
	}
	return value
}

// Absolute inverts Relative for a message of a tree. A subject of no tree stays
// as it is.
func Absolute(s subjects.Space, t subjects.Tree, name, value string) string {
	if slices.Contains(relativeHeaders(), name) {
		if subject, err := subjects.Absolute(s, t, value); err == nil {
			return subject
		}
	}
	return value
}
