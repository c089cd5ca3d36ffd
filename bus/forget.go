package bus

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// Forget removes all that a tree has stored: its messages, timers, tallies and
// dead letters, its submission, large bodies and artifacts. The caller knows
// that the tree has ended. The result goes last, so a Forget that was cut off
// can be made again. It removes nothing of a tree that is not there.
//
// Forget notes on the stream up to which message it may have removed some: that
// the beginning of the stream is gone is no loss then.
func Forget(ctx context.Context, c *Conn, tree subjects.Tree) error {
	sp := c.Space()
	stream := c.streams.Load().names[sp.PartitionOf(tree)]
	bodies, last, err := bodiesOf(ctx, c, tree)
	if err != nil {
		return err
	}
	err = c.inflight.several(ctx, func(ctx context.Context) error { return noteForgotten(ctx, c, stream, last) })
	if err != nil {
		return err
	}
	if err := forgetObjects(ctx, c, tree, bodies); err != nil {
		return err
	}
	for _, filter := range sp.SubmissionOf(tree) {
		if err := purge(ctx, c, sp.Name("SUBMIT"), filter); err != nil {
			return err
		}
	}
	for _, filter := range sp.PartsOfTree(tree) {
		if err := purge(ctx, c, stream, filter); err != nil {
			return err
		}
	}
	return nil
}

// bodiesOf returns the names of the objects that messages of a tree refer to,
// and the sequence of the tree's last message.
func bodiesOf(ctx context.Context, c *Conn, tree subjects.Tree) (names map[string]bool, last uint64, _ error) {
	ms, err := ReadTree(ctx, c, tree)
	if err != nil {
		return nil, 0, err
	}
	if len(ms) > 0 {
		last = ms[len(ms)-1].Seq
	}
	for _, filter := range c.Space().SubmissionOf(tree) {
		queued, _, err := c.QueuedSubmission(ctx, filter)
		if err != nil {
			return nil, 0, err
		}
		ms = append(ms, queued)
	}
	names = map[string]bool{}
	for _, m := range ms {
		if name := m.LargeBody(); name != "" {
			names[name] = true
		}
	}
	return names, last, nil
}

// noteForgotten notes on a stream that messages up to a sequence are forgotten.
func noteForgotten(ctx context.Context, c *Conn, stream string, last uint64) error {
	return amend(ctx, c, stream, func(was *jetstream.StreamInfo, now *jetstream.StreamConfig) {
		if last > forgotten(was) {
			now.Metadata[metaForgotten] = strconv.FormatUint(last, 10)
		}
	})
}

// forgotten is the last sequence of a stream that Forget may have removed, 0
// for none.
func forgotten(info *jetstream.StreamInfo) uint64 {
	seq, _ := strconv.ParseUint(info.Config.Metadata[metaForgotten], 10, 64)
	return seq
}

// forgetObjects removes the objects with some names, and the artifacts of a
// tree, those too that no outcome names. The metadata of an object go after its
// bytes.
func forgetObjects(ctx context.Context, c *Conn, tree subjects.Tree, names map[string]bool) error {
	sp := c.cfg.Space
	stream := objectStream(sp)
	found, err := objectsWith(ctx, c, func(name string) bool {
		return names[name] || strings.HasPrefix(name, ArtifactObject(tree, ""))
	})
	if err != nil {
		return err
	}
	for _, info := range found {
		if info.NUID != "" {
			if err := purge(ctx, c, stream, objectSubject(sp, "C", info.NUID)); err != nil {
				return err
			}
		}
		if err := purge(ctx, c, stream, metaSubject(sp, info.Name)); err != nil {
			return err
		}
	}
	return nil
}

// ObjectNames lists the objects of the object store with a name that counts, in
// the order in which they were stored.
func ObjectNames(ctx context.Context, c *Conn, counts func(name string) bool) (names []string, _ error) {
	found, err := objectsWith(ctx, c, counts)
	for _, info := range found {
		if !info.Deleted {
			names = append(names, info.Name)
		}
	}
	return names, err
}

// objectsWith returns the metadata of the objects with a name that counts. It
// reads the metadata of all objects, since the store finds none by the
// beginning of its name.
func objectsWith(ctx context.Context, c *Conn, counts func(name string) bool) (found []jetstream.ObjectInfo, _ error) {
	sp := c.cfg.Space
	for page, err := range c.reader.pages(ctx, objectStream(sp), objectSubject(sp, "M", "*"), 0) {
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			var info jetstream.ObjectInfo
			if err := json.Unmarshal(m.Body, &info); err != nil {
				continue // no client of object stores wrote it
			}
			if counts(info.Name) {
				found = append(found, info)
			}
		}
	}
	return found, nil
}

// purge removes the messages of a stream that a filter matches.
func purge(ctx context.Context, c *Conn, stream, filter string) error {
	if err := c.intercept(Point{"purge", filter, false}); err != nil {
		return err
	}
	_, err := ask(ctx, c, func(ctx context.Context) (none struct{}, err error) {
		return none, c.leaders.PurgeStream(stream, &nats.StreamPurgeRequest{Subject: filter}, nats.Context(ctx))
	})
	if err != nil && !errors.Is(err, nats.ErrStreamNotFound) {
		return wrapStream(stream, err)
	}
	return c.intercept(Point{"purge", filter, true})
}
