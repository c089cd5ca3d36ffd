package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/archive"
	"github.com/axebus/axe/subjects"
)

// Exported says what an export of a tree lacks.
type Exported struct {
	// AtWork is true for a tree without a result. The export has it as it
	// is now, and Import refuses it.
	AtWork bool
	// Gone are the objects that messages name and that are no longer
	// stored.
	Gone []string
}

// Export writes a tree and all that belongs to it, except timers and the memory
// of its agents. The tree stays as it is. The error is ErrUnknownTree, or
// ErrNotStarted for a task that no worker has taken.
func Export(ctx context.Context, c *Client, w *archive.Writer, tree subjects.Tree) (Exported, error) {
	var e Exported
	f, err := c.find(ctx, tree)
	if err != nil {
		return e, err
	}
	ms, err := bus.ReadTree(ctx, c.conn, tree)
	if err != nil {
		return e, err
	}
	x := exporter{c: c, w: w, tree: tree, e: &e}
	space, written := c.conn.Space(), 0
	e.AtWork = true
	for _, m := range ms {
		if m.Subject == space.Result(f.root.Agent, tree) {
			e.AtWork = false
		}
		if _, _, err := space.ParseTimer(m.Subject); err == nil {
			continue
		}
		if err := x.message(ctx, m); err != nil {
			return e, err
		}
		written++
	}
	if written == 0 {
		return e, fmt.Errorf("tree %s: %w", tree, ErrNotStarted)
	}
	if err := x.artifacts(ctx); err != nil {
		return e, err
	}
	return e, w.End(tree)
}

// exporter writes one tree.
type exporter struct {
	c    *Client
	w    *archive.Writer
	tree subjects.Tree
	e    *Exported

	origins bus.Origins
}

func (x *exporter) message(ctx context.Context, m bus.Stored) error {
	space := x.c.conn.Space()
	subject, _ := space.Relative(m.Subject)
	if _, err := subjects.Absolute(space, x.tree, subject); err != nil {
		return nil //nolint:nilerr // another program's: no bus could take it
	}
	if err := x.origins.LookAhead(ctx, x.c.conn, m); err != nil {
		return err
	}
	origin := x.origins.Of(space, m)
	out := archive.Message{Subject: subject, Seq: origin.Seq, Time: origin.Time.UTC(), Object: m.LargeBody()}
	if origin.Fenced {
		out.Fence = &origin.Fence
	}
	for _, kv := range m.OwnHeader() {
		if out.Header == nil {
			out.Header = map[string][]string{}
		}
		out.Header[kv[0]] = append(out.Header[kv[0]], archive.Relative(space, kv[0], kv[1]))
	}
	out.SetBody(m.Body)
	if out.Object != "" {
		if err := x.object(ctx, out.Object); err != nil {
			return err
		}
	}
	x.w.Message(x.tree, out)
	return nil
}

func (x *exporter) object(ctx context.Context, name string) error {
	objects := bus.ArtifactsOf(x.c.conn, x.tree)
	o, err := objects.FindObject(ctx, name)
	var data bytes.Buffer
	if err == nil {
		err = objects.Copy(ctx, &data, o.Artifact)
	}
	if errors.Is(err, bus.ErrNoArtifact) {
		x.e.Gone = append(x.e.Gone, name)
		return nil
	}
	if err != nil {
		return fmt.Errorf("tree %s: %w", x.tree, err)
	}
	x.w.Object(x.tree, archive.Object{
		Name: name, Type: o.MediaType, Path: o.Path, SHA256: o.Digest, Data: data.Bytes(),
	})
	return nil
}

// artifacts adds the artifacts, those too that no outcome names.
func (x *exporter) artifacts(ctx context.Context) error {
	names, err := bus.ObjectNames(ctx, x.c.conn, func(name string) bool {
		return strings.HasPrefix(name, bus.ArtifactObject(x.tree, ""))
	})
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := x.object(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
