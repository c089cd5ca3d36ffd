package bus

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/axebus/axe/subjects"
)

// headerImported is the header of a message that was imported. It has the
// Origin: sequence, time and, if there is one, the fence.
const headerImported = "Axe-Imported"

// Origin is the place of a message on the stream that its writer wrote it to.
// The sequences in bodies are those of that stream.
type Origin struct {
	Seq  uint64
	Time time.Time
	// Fence is the sequence that the fenced subject ended with. Fenced is
	// false for a message that was written without a fence.
	Fence  uint64
	Fenced bool
}

// IsImported reports whether the header says that the message was imported.
// Feeds of runs acknowledge such a message and drop it. On a submission the
// header has no effect.
func (m Stored) IsImported() bool { return m.Header.Get(headerImported) != "" }

// Origin is where the writer of the message wrote it: another stream for an
// imported message, and this one for any other. See Origins for messages that
// people may have written.
func (m Stored) Origin() Origin {
	if m.IsImported() {
		if o, err := parseOrigin(m.Header.Get(headerImported)); err == nil {
			return o
		}
	}
	return m.place()
}

func (m Stored) place() Origin {
	o := Origin{Seq: m.Seq, Time: m.Time}
	o.Fence, o.Fenced = m.Fence()
	return o
}

// Origins returns the Origin of messages that are read in stream order. The
// zero value is ready. Any writer of a message to a run can set the header of
// an imported message. Of believes it only if the call of the root has it too.
// Only workers, operators and archivists write calls. The header of a result, a
// tally or a dead letter is always believed.
type Origins struct {
	// imported says of a tree whether the call of its root has the header.
	// A tree without a known call is missing.
	imported map[subjects.Tree]bool
}

// LookAhead has to be called with each message before Of. It reads the call of
// the root, once for a tree, if a message of the root comes before it and has
// the header: the tree may have been cancelled before any worker took it.
func (o *Origins) LookAhead(ctx context.Context, c *Conn, m Stored) error {
	at, err := c.Space().Parse(m.Subject)
	if err != nil || !m.IsImported() || !at.Run.Path.IsRoot() || at.Kind == subjects.Result {
		return nil //nolint:nilerr // another program's message
	}
	if _, known := o.imported[at.Run.Tree]; known || at.Kind == subjects.Call {
		return nil
	}
	call, found, err := c.First(ctx, at.Run.Call())
	if err != nil {
		return fmt.Errorf("call of %s: %w", at.Run, err)
	}
	if found {
		o.note(at.Run.Tree, call.IsImported())
	}
	return nil
}

// note notes whether a tree was imported.
func (o *Origins) note(tree subjects.Tree, imported bool) {
	if o.imported == nil {
		o.imported = map[subjects.Tree]bool{}
	}
	o.imported[tree] = imported
}

// Of returns the Origin of the next message.
func (o *Origins) Of(s subjects.Space, m Stored) Origin {
	at, err := s.Parse(m.Subject)
	if err != nil || at.Kind == subjects.Result || !m.IsImported() {
		return m.Origin()
	}
	if at.Kind == subjects.Call && at.Run.Path.IsRoot() {
		o.note(at.Run.Tree, true)
	}
	if !o.imported[at.Run.Tree] {
		return m.place()
	}
	return m.Origin()
}

func (o Origin) format() string {
	text := strconv.FormatUint(o.Seq, 10) + " " + o.Time.UTC().Format(time.RFC3339Nano)
	if o.Fenced {
		text += " " + strconv.FormatUint(o.Fence, 10)
	}
	return text
}

func parseOrigin(text string) (o Origin, err error) {
	parts := strings.Fields(text)
	if len(parts) < 2 {
		return o, fmt.Errorf("header %s must be a sequence and a time, got %q", headerImported, text)
	}
	if o.Seq, err = strconv.ParseUint(parts[0], 10, 64); err != nil {
		return o, err
	}
	if o.Time, err = time.Parse(time.RFC3339Nano, parts[1]); err != nil || len(parts) == 2 {
		return o, err
	}
	o.Fenced = true
	o.Fence, err = strconv.ParseUint(parts[2], 10, 64)
	return o, err
}

// WriteImported stores a message of another stream. It is fenced as the caller
// says, and Message.ID must be empty. The error is that of Write.
func WriteImported(ctx context.Context, c *Conn, m Message, from Origin) (seq uint64, err error) {
	m.Header = append(slices.Clip(m.Header), [2]string{headerImported, from.format()})
	return c.Write(ctx, m)
}

// OwnHeader returns the headers of a message that belong to its content: those
// of axe and of its writer, without those that tell a server how to store it,
// and without the Origin. They are sorted by name, and by value where a name
// has several.
func (m Stored) OwnHeader() (own [][2]string) {
	for name, values := range m.Header {
		if strings.HasPrefix(name, "Nats-") || name == headerImported {
			continue
		}
		for _, v := range values {
			own = append(own, [2]string{name, v})
		}
	}
	slices.SortFunc(own, func(a, b [2]string) int { return strings.Compare(a[0]+"\x00"+a[1], b[0]+"\x00"+b[1]) })
	return own
}

// ReadTree reads all stored messages of a tree, in stream order. Its cost
// depends on them alone. The result and the dead letters are read before the
// runs, so that none is read without the messages that caused it. On replicas
// too each read has everything that the leader had stored before it.
func ReadTree(ctx context.Context, c *Conn, tree subjects.Tree) (all []Stored, _ error) {
	for _, filter := range slices.Backward(c.Space().PartsOfTree(tree)) {
		ms, err := readLatest(ctx, c, filter)
		if err != nil {
			return nil, fmt.Errorf("tree %s: %w", tree, err)
		}
		all = append(all, ms...)
	}
	return InOrder(all), nil
}

// Object is an object of the object store that belongs to a tree: an artifact,
// or the large body of a message.
type Object struct {
	// Name is the name in the object store.
	Name string
	Artifact
}

// LargeBody returns the name of the object that has the body of a message; ""
// if the message has it itself.
func (m Stored) LargeBody() string { return m.Header.Get(headerObject) }

// FindObject looks for the object of a tree with a name. The error wraps
// ErrNoArtifact if there is none.
func (as Artifacts) FindObject(ctx context.Context, name string) (Object, error) {
	a, err := as.at(ctx, name)
	if err == nil && a.chunks == "" {
		err = ErrNoArtifact
	}
	if err != nil {
		return Object{}, fmt.Errorf("object %s: %w", name, err)
	}
	return Object{name, a}, nil
}
