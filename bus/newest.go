package bus

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
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
	// newestSparse is the number of sequences without a full batch after
	// which the filter counts as sparse: its messages are then read by
	// subject, which does not depend on the length of the stream.
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
// brings is narrowed. So the cost depends on the messages that the caller takes,
// and on those between them.
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
	// width is the width of the next window, and passed the number of
	// sequences in the windows so far.
	width, passed uint64
	// after is the number of messages from to on, when they were counted.
	after int
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
			w.passed = 0
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
	w.width = newestWindow
	if w.before.IsZero() {
		return nil
	}
	if err := w.seek(ctx); err != nil {
		return err
	}
	ms, err := w.reader.ask(ctx, w.stream, directGet{NextFor: w.filter, Seq: w.to, Batch: 1})
	w.after = pendingFrom(ms)
	return err
}

// seek moves the end of the walk to the first message that was stored at the
// time before or later. It searches by halves: the server's own search by time
// can pass over messages next to removed ones.
func (w *walk) seek(ctx context.Context) error {
	for low := w.first; low < w.to; {
		middle := low + (w.to-low)/2
		ms, err := w.reader.ask(ctx, w.stream, directGet{NextFor: ">", Seq: middle, Batch: 1})
		if err != nil {
			return err
		}
		if len(ms) > 0 && ms[0].Time.Before(w.before) {
			low = ms[0].Seq + 1
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
	from := w.first
	if w.to-w.first > w.width {
		from = w.to - w.width
	}
	ms, err := w.reader.ask(ctx, w.stream,
		directGet{NextFor: w.filter, Seq: from, Batch: newestBatch, MaxBytes: newestBytes})
	if err != nil {
		return err
	}
	pending := pendingFrom(ms)
	last, more := pageEnd(ms)
	if more && last < w.to-1 && w.to-from > 1 {
		inside := uint64(max(1, pending-w.after))
		w.width = max(1, min((w.to-from)/2, (w.to-from)*newestBatch/inside/2))
		return nil
	}
	w.read = slices.DeleteFunc(ms, func(m Stored) bool { return m.Seq >= w.to })
	w.passed += w.to - from
	w.to, w.after = from, pending
	if len(w.read) < newestBatch/newestGrowth {
		w.width *= newestGrowth
	}
	return nil
}

// bySubject reads all messages of the walk that were not read yet.
func (w *walk) bySubject(ctx context.Context) ([]Stored, error) {
	ms, err := w.reader.ask(ctx, w.stream, directGet{MultiLast: []string{w.filter}})
	return slices.DeleteFunc(InOrder(ms), func(m Stored) bool { return m.Seq >= w.to }), err
}

// pendingFrom returns the number of messages from the first one of a batch on.
func pendingFrom(batch []Stored) int {
	if len(batch) == 0 {
		return 0
	}
	left, _ := strconv.Atoi(batch[0].Header.Get(headerNumPending))
	return left + 1
}
