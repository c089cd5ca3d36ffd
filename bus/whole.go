package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/internal/pause"
)

const (
	// maxSubjects is the number of subjects that one read of ReadWhole or
	// LastOfMany names. A server reads at most 1,024.
	maxSubjects = 1000
	// wholeReads is the number of reads of ReadWhole that are in flight.
	wholeReads = 8
)

// ReadWhole reads every message that the filter matches, in stream order,
// whatever their number, as of one moment. Its cost depends on the matching
// messages alone, as that of ReadBySubject.
func ReadWhole(ctx context.Context, c *Conn, filter string) ([]Stored, error) {
	ms, err := c.ReadBySubject(ctx, filter, 0)
	if !errors.Is(err, ErrTooMany) {
		return ms, err
	}
	counted, err := count(ctx, c, filter)
	if err != nil {
		return nil, err
	}
	w := &wholeRead{conn: c, counted: counted}
	return w.read(ctx, slices.Sorted(maps.Keys(counted.subjects)))
}

// readLatest reads as ReadWhole does, with everything that the stream's leader
// had stored before. A replica that lags is asked again.
func readLatest(ctx context.Context, c *Conn, filter string) ([]Stored, error) {
	for range maxLagPolls {
		var last uint64
		var err error
		// Each time, since the last message may be removed meanwhile.
		if c.Replicas() > 1 {
			if last, err = c.LastSeq(ctx, filter); err != nil {
				return nil, err
			}
		}
		ms, err := ReadWhole(ctx, c, filter)
		if err != nil || last == 0 || len(ms) > 0 && ms[len(ms)-1].Seq >= last {
			return ms, err
		}
		if err := pause.For(ctx, lagPoll); err != nil {
			return nil, fmt.Errorf("read %s up to %d: %w", filter, last, err)
		}
	}
	return nil, fmt.Errorf("read %s: the stream's replicas lag behind its leader", filter)
}

// wholeRead reads all messages of many subjects that were stored when they were
// counted. Later messages are left out: the parts are read one after the other,
// and another part may lack an earlier message.
type wholeRead struct {
	conn    *Conn
	counted counts
}

// read reads the subjects, many at a time. A part whose messages are too large
// for one read is divided.
func (w *wholeRead) read(ctx context.Context, subjects []string) ([]Stored, error) {
	parts := slices.Collect(slices.Chunk(subjects, maxSubjects))
	found := make([][]Stored, len(parts))
	all, reading := errgroup.WithContext(ctx)
	all.SetLimit(wholeReads)
	for i, part := range parts {
		all.Go(func() (err error) {
			found[i], err = w.part(reading, part)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	ms := InOrder(slices.Concat(found...))
	return slices.DeleteFunc(ms, func(m Stored) bool { return m.Seq > w.counted.last }), nil
}

// part reads the subjects of one read.
func (w *wholeRead) part(ctx context.Context, subjects []string) ([]Stored, error) {
	last, err := w.last(ctx, subjects)
	if half := len(subjects) / 2; errors.Is(err, ErrTooMany) && half > 0 {
		first, err := w.part(ctx, subjects[:half])
		if err != nil {
			return nil, err
		}
		rest, err := w.part(ctx, subjects[half:])
		return append(first, rest...), err
	}
	if err != nil {
		return nil, err
	}
	// The last message of a subject hides the earlier ones. A later one may
	// hide the only one that was counted.
	hidden := make([][]Stored, len(last))
	all, reading := errgroup.WithContext(ctx)
	all.SetLimit(wholeReads)
	for i, m := range last {
		if w.counted.subjects[m.Subject] > 1 || m.Seq > w.counted.last {
			all.Go(func() (err error) {
				hidden[i], err = w.conn.ScanUntil(reading, m.Subject, 0, m.Seq)
				return err
			})
		}
	}
	err = all.Wait()
	return append(last, slices.Concat(hidden...)...), err
}

// last reads the last message of each subject. A replica may lag behind the
// leader, which has counted the subjects: it is asked again.
func (w *wholeRead) last(ctx context.Context, subjects []string) (ms []Stored, err error) {
	for range maxLagPolls {
		ms, err = w.conn.LastPerSubject(ctx, subjects...)
		if err != nil || len(ms) >= len(subjects) || w.conn.Replicas() <= 1 {
			return ms, err
		}
		if err := pause.For(ctx, lagPoll); err != nil {
			return nil, fmt.Errorf("read %d subjects: %w", len(subjects), err)
		}
	}
	return ms, nil
}

// LastOfMany reads the last message of every subject that the filter matches,
// whatever their number, in stream order. Messages that are removed meanwhile
// may be missing.
func LastOfMany(ctx context.Context, c *Conn, filter string) ([]Stored, error) {
	ms, err := c.LastPerSubject(ctx, filter)
	if !errors.Is(err, ErrTooMany) {
		return ms, err
	}
	counted, err := count(ctx, c, filter)
	if err != nil {
		return nil, err
	}
	for part := range slices.Chunk(slices.Sorted(maps.Keys(counted.subjects)), maxSubjects) {
		some, err := c.LastPerSubject(ctx, part...)
		if err != nil {
			return nil, err
		}
		ms = append(ms, some...)
	}
	return InOrder(ms), nil
}
