package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/archive"
	"github.com/axebus/axe/subjects"
)

var (
	// ErrExists is returned for a tree that is to be imported and is there.
	ErrExists = errors.New("the tree is there already")
	// ErrNotEnded is returned for a tree that is to be imported and has no
	// result.
	ErrNotEnded = errors.New("the tree was exported at work: it has no result")
)

// Import stores the trees of an export, each in the order of its messages. It
// reads the file twice: nothing is stored if the file is not whole, or if one
// of its trees is there or has not ended. An import that was cut off is
// completed by the next one, which passes over the trees that the first one has
// stored. Workers ignore the messages. They are kept as long as other messages
// of now. Done is called after each tree.
//
// The error wraps archive.ErrMalformed, ErrExists, ErrNotEnded, or
// bus.ErrNoRoom for streams in which no new tree begins.
func Import(ctx context.Context, c *Client, file io.ReadSeeker, done func(subjects.Tree)) error {
	if err := c.conn.Provisioned(ctx); err != nil {
		return err
	}
	trees, err := survey(file)
	if err != nil {
		return err
	}
	stored := map[subjects.Tree][]bus.Stored{}
	var whole []subjects.Tree
	for _, t := range trees {
		if stored[t.id], err = resumed(ctx, c, t); err != nil {
			return fmt.Errorf("tree %s: %w", t.id, err)
		}
		if len(stored[t.id]) == len(t.places) {
			whole = append(whole, t.id)
		}
	}
	if len(trees) > 0 && len(whole) == len(trees) {
		return fmt.Errorf("tree %s: %w", trees[0].id, ErrExists)
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	i := &importer{c: c, stored: stored}
	for l, err := range archive.Read(file) {
		if err == nil {
			err = i.line(ctx, l)
		}
		if err != nil {
			return err
		}
		if l.End != nil && !slices.Contains(whole, l.Tree) {
			done(l.Tree)
		}
	}
	return nil
}

// spot is where a message of an export was stored first.
type spot struct {
	subject string
	seq     uint64
}

// surveyed is a tree of a file.
type surveyed struct {
	id     subjects.Tree
	places []spot
}

// survey reads a whole file.
func survey(file io.Reader) (all []surveyed, _ error) {
	var t surveyed
	ended := false
	for l, err := range archive.Read(file) {
		switch {
		case err != nil:
			return nil, err
		case l.Message != nil:
			t.places = append(t.places, spot{l.Message.Subject, l.Message.Seq})
			subject, err := subjects.Absolute(subjects.Space{}, l.Tree, l.Message.Subject)
			if at, malformed := (subjects.Space{}).Parse(subject); err == nil && malformed == nil {
				ended = ended || at.Kind == subjects.Result
			}
		case l.End != nil:
			if !ended {
				return nil, fmt.Errorf("tree %s: %w", l.Tree, ErrNotEnded)
			}
			t.id = l.Tree
			all = append(all, t)
			t, ended = surveyed{}, false
		}
	}
	return all, nil
}

// resumed returns the messages of a tree that an import which was cut off has
// stored. The error is ErrExists for any other tree that is there.
func resumed(ctx context.Context, c *Client, t surveyed) ([]bus.Stored, error) {
	space := c.conn.Space()
	_, queued, err := c.conn.QueuedSubmission(ctx, space.SubmissionOf(t.id)...)
	if err != nil {
		return nil, err
	}
	ms, err := bus.ReadTree(ctx, c.conn, t.id)
	if err != nil {
		return nil, err
	}
	if queued || len(ms) > len(t.places) {
		return nil, ErrExists
	}
	for i, m := range ms {
		subject, _ := space.Relative(m.Subject)
		if !m.IsImported() || t.places[i] != (spot{subject, m.Origin().Seq}) {
			return nil, ErrExists
		}
	}
	return ms, nil
}

// importer stores the lines of a file.
type importer struct {
	c *Client
	// stored are the messages of each tree that are there.
	stored map[subjects.Tree][]bus.Stored
	// tree is the tree at hand, n the number of its messages so far, and
	// last the sequence of the last message of each of its subjects.
	tree subjects.Tree
	n    int
	last map[string]uint64
}

// line stores the message or the object of a line.
func (i *importer) line(ctx context.Context, l archive.Line) error {
	if l.Tree != i.tree && !l.Tree.IsZero() {
		i.tree, i.n, i.last = l.Tree, 0, map[string]uint64{}
		if err := i.c.conn.Health.Room(ctx); err != nil {
			return fmt.Errorf("tree %s: %w", l.Tree, err)
		}
	}
	var err error
	switch {
	case l.Message != nil:
		err = i.message(ctx, *l.Message)
	case l.Object != nil:
		err = i.object(ctx, *l.Object)
	}
	if err != nil {
		return fmt.Errorf("tree %s: %w", l.Tree, err)
	}
	return nil
}

func (i *importer) message(ctx context.Context, m archive.Message) error {
	space := i.c.conn.Space()
	subject, err := subjects.Absolute(space, i.tree, m.Subject)
	if err != nil {
		return err
	}
	i.n++
	if before := i.stored[i.tree]; i.n <= len(before) {
		i.last[subject] = before[i.n-1].Seq
		return nil
	}
	out := bus.Message{
		Subject: subject, Body: m.Content(), Fence: bus.After(subject, i.last[subject]), Patience: importPatience,
	}
	for name, values := range m.Header {
		for _, v := range values {
			out.Header = append(out.Header, [2]string{name, archive.Absolute(space, i.tree, name, v)})
		}
	}
	from := bus.Origin{Seq: m.Seq, Time: m.Time, Fenced: m.Fence != nil}
	if m.Fence != nil {
		from.Fence = *m.Fence
	}
	seq, err := bus.WriteImported(ctx, i.c.conn, out, from)
	if _, taken := errors.AsType[*bus.ConflictError](err); taken {
		return ErrExists
	}
	i.last[subject] = seq
	return err
}

func (i *importer) object(ctx context.Context, o archive.Object) error {
	_, err := bus.ArtifactsOf(i.c.conn, i.tree).StoreObject(ctx, bus.Object{
		Name: o.Name, Artifact: bus.Artifact{MediaType: o.Type, Path: o.Path},
	}, o.Data)
	return err
}

// importPatience is the time for which a full server is asked again.
const importPatience = 2 * time.Second
