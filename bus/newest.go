package bus

import (
	"context"
	"errors"
	"iter"
	"slices"
	"time"
)

const (
	// newestBatch is the number of messages that one read of Newest asks
	// for.
	newestBatch = 64
	// newestBytes bounds a read of Newest.
	newestBytes = 4 << 20
	// newestWindow is the number of sequences that the first read covers.
	// Each window is newestGrowth times as wide as the one after it.
	newestWindow = 256
	newestGrowth = 4
	// newestSparse is the number of sequences with less than a batch of
	// messages after which the filter counts as sparse: its messages are
	// then read by subject, which does not depend on the length of the
	// stream.
	newestSparse = 1 << 16
)

// Newest yields the messages that a filter matches, the newest first, and reads
// little more than its caller takes. It needs at most one message on each
// subject of the filter: a read by subject sees the last message alone. It
// leaves out the messages that were stored at the time before or later; zero
// leaves out none. Messages of several partitions come in the order of their
// times. It ends after an error.
//
// A server reads a stream forwards only. So Newest reads windows of the stream,
// from its end to its beginning. A window with more messages than one read
// brings is narrowed. So the cost depends on the messages that the caller
// takes, and on those between them.
func Newest(ctx context.Context, c *Conn, filter string, before time.Time) iter.Seq2[Stored, error] {
	return newest(ctx, c, filter, walk{before: before})
}

// NewestOf is Newest for a filter that matches few messages of a long stream.
// It reads them by subject first.
func NewestOf(ctx context.Context, c *Conn, filter string, before time.Time) iter.Seq2[Stored, error] {
	return newest(ctx, c, filter, walk{before: before, sparse: true})
}

// newest merges the walks of all streams that hold messages of a filter.
func newest(ctx context.Context, c *Conn, filter string, like walk) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		var walks []*walk
		for _, stream := range c.streams.Load().streamsOf(filter) {
			w := like
			w.reader, w.stream, w.filter = c.reader, stream, filter
			walks = append(walks, &w)
		}
		for {
			var next *walk
			for _, w := range walks {
				if err := w.fill(ctx); err != nil {
					yield(Stored{}, err)
					return
				}
				if len(w.read) > 0 && (next == nil || w.last().Time.After(next.last().Time)) {
					next = w
				}
			}
			if next == nil || !yield(next.last(), nil) {
				return
			}
			next.read = next.read[:len(next.read)-1]
		}
	}
}

// walk reads one stream backwards.
type walk struct {
	reader         *reader
	stream, filter string
	before         time.Time
	sparse         bool

	begun, ended bool
	// first is the first sequence of the stream, and to the sequence before
	// which the next window ends.
	first, to uint64
	// middle is the end of the part of the stream in which messages are read
	// one by one.
	middle uint64
	// width is the width of the next window.
	width uint64
	// passed is the number of sequences in the last windows, and found the
	// number of messages in them. Both begin anew after a batch.
	passed uint64
	found  int
	// read has the messages that were not yielded yet, in stream order.
	read []Stored
}

func (w *walk) last() Stored { return w.read[len(w.read)-1] }

// fill reads the next messages if there are none. There are none at the end.
func (w *walk) fill(ctx context.Context) error {
	if !w.begun {
		if err := w.begin(ctx); err != nil {
			return err
		}
	}
	for len(w.read) == 0 && !w.ended {
		if w.sparse || w.passed > newestSparse {
			rest, err := w.bySubject(ctx)
			if err == nil {
				w.read, w.ended = rest, true
				return nil
			}
			if !errors.Is(err, ErrTooMany) {
				return err
			}
			w.sparse = false
			// It is asked again when the walk has gone as far again.
			w.passed, w.found = 0, 0
		}
		if err := w.window(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin finds the bounds of the walk.
func (w *walk) begin(ctx context.Context) error {
	w.begun = true
	info, err := w.reader.conn.Health.info(ctx, w.stream)
	if err != nil {
		return err
	}
	w.first, w.to = info.State.FirstSeq, info.State.LastSeq+1
	w.width, w.middle = newestWindow, w.first+(w.to-w.first)*3/5
	if w.before.IsZero() {
		return nil
	}
	return w.seek(ctx)
}

// seek moves the end of the walk to the first message that was stored at the
// time before or later. It searches by halves: the server's own search by time
// can pass over messages next to removed ones.
func (w *walk) seek(ctx context.Context) error {
	for low := w.first; low < w.to; {
		middle := low + (w.to-low)/2
		m, ok, err := w.next(ctx, ">", middle)
		if err != nil {
			return err
		}
		if ok && m.Time.Before(w.before) {
			low = m.Seq + 1
		} else {
			w.to = middle
		}
	}
	return nil
}

// window reads the next window. If one read does not bring all of it, the
// window is narrowed and stays to be read.
func (w *walk) window(ctx context.Context) error {
	if w.to <= w.first {
		w.ended = true
		return nil
	}
	from := w.to - min(w.width, w.to-w.first)
	ms, more, err := w.readFrom(ctx, from)
	if err != nil {
		return err
	}
	if more && w.to-from > 1 {
		// As many as there are before the last one are in a window of this
		// width.
		reached := ms[len(ms)-1].Seq - from + 1
		w.width = max(1, min((w.to-from)/2, reached))
		return nil
	}
	w.read = slices.DeleteFunc(ms, func(m Stored) bool { return m.Seq >= w.to })
	w.passed += w.to - from
	if w.found += len(w.read); w.found >= newestBatch {
		w.passed, w.found = 0, 0
	}
	w.to = from
	if len(w.read) < newestBatch/newestGrowth {
		w.width *= newestGrowth
	}
	return nil
}

// readFrom reads the messages from a sequence on, at most one batch. More is
// true if there may be more of them in the window.
//
// With a batch the server counts the messages that follow the batch. For a
// place in the first half of a stream it goes through all subjects for that:
// 100 ms with two million of them. So there each message is read by itself.
func (w *walk) readFrom(ctx context.Context, from uint64) (ms []Stored, more bool, err error) {
	if from > w.middle {
		g := directGet{NextFor: w.filter, Seq: from, Batch: newestBatch, MaxBytes: newestBytes}
		if ms, err = w.reader.ask(ctx, w.stream, g); err != nil {
			return nil, false, err
		}
		last, more := pageEnd(ms)
		return ms, more && last < w.to-1, nil
	}
	for seq := from; seq < w.to; {
		if len(ms) == newestBatch {
			return ms, true, nil
		}
		m, ok, err := w.next(ctx, w.filter, seq)
		if err != nil || !ok {
			return ms, false, err
		}
		ms = append(ms, m)
		seq = m.Seq + 1
	}
	return ms, false, nil
}

// next reads the first message from a sequence on that a filter matches; ok is
// false if there is none.
func (w *walk) next(ctx context.Context, filter string, seq uint64) (m Stored, ok bool, err error) {
	ms, err := w.reader.ask(ctx, w.stream, directGet{NextFor: filter, Seq: seq})
	if err != nil || len(ms) == 0 {
		return m, false, err
	}
	return ms[0], true, nil
}

// bySubject reads all messages of the walk that were not read yet.
func (w *walk) bySubject(ctx context.Context) ([]Stored, error) {
	ms, err := w.reader.ask(ctx, w.stream, directGet{MultiLast: []string{w.filter}})
	return slices.DeleteFunc(InOrder(ms), func(m Stored) bool { return m.Seq >= w.to }), err
}
