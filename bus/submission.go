package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// RemoveAcknowledged removes the messages from the stream of a consumer that
// are acknowledged, up to the first one that is not. It makes one attempt. The
// next one removes the messages that it leaves.
func (c Consumers) RemoveAcknowledged(ctx context.Context, cfg ConsumerConfig) error {
	stream, _ := c.consumerConfig(cfg)
	_, err := askOnce(ctx, c.Conn, func(ctx context.Context) (none struct{}, err error) {
		there, err := c.js.Consumer(ctx, stream, cfg.Name)
		if err != nil {
			return none, err
		}
		floor := there.CachedInfo().AckFloor.Stream
		if floor == 0 {
			return none, nil
		}
		up := &nats.StreamPurgeRequest{Sequence: floor + 1}
		return none, c.leaders.PurgeStream(stream, up, nats.Context(ctx))
	})
	if err != nil {
		return fmt.Errorf("acknowledged messages of consumer %s: %w", cfg.Name, err)
	}
	return nil
}

// QueuedSubmission reads the last submission that each of the filters matches,
// and returns the oldest of them. Workers remove submissions some time after
// they have made them calls, so the caller looks for the root's call first. ok
// is false if there is none. The error is ErrNoStream if there is no stream of
// submissions.
func (c *Conn) QueuedSubmission(ctx context.Context, filters ...string) (m Stored, ok bool, err error) {
	for _, filter := range filters {
		last, found, err := c.last(ctx, c.cfg.Space.Name("SUBMIT"), filter)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return Stored{}, false, ErrNoStream
		}
		if err != nil {
			return Stored{}, false, fmt.Errorf("submission %s: %w", filter, err)
		}
		if found && (!ok || last.Seq < m.Seq) {
			m, ok = last, true
		}
	}
	return m, ok, nil
}

// QueuedSubmissions reads the newest submissions on their stream, at most n,
// the newest first. Total is the number of all. A worker may have taken one of
// them: its tree has a root then. The error is ErrNoStream if there is no
// stream of submissions.
func QueuedSubmissions(ctx context.Context, c *Conn, n int) (ms []Stored, total uint64, err error) {
	s, err := ask(ctx, c, func(ctx context.Context) (jetstream.Stream, error) {
		return c.js.Stream(ctx, c.cfg.Space.Name("SUBMIT"))
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, 0, ErrNoStream
	}
	if err != nil {
		return nil, 0, fmt.Errorf("submissions: %w", err)
	}
	state := s.CachedInfo().State
	want := min(uint64(max(0, n)), state.Msgs)
	// Submissions that were taken leave holes. Each message takes a request.
	to := state.LastSeq + 1
	for width := 2 * want; uint64(len(ms)) < want && to > state.FirstSeq; width *= 2 {
		from := to - min(width, to-state.FirstSeq)
		window, err := submissionsIn(ctx, c, from, to)
		if err != nil {
			return nil, 0, fmt.Errorf("submissions: %w", err)
		}
		ms = append(ms, window...)
		to = from
	}
	return ms[:min(uint64(len(ms)), want)], state.Msgs, nil
}

// submissionsIn reads the submissions with sequences of a range, the newest
// first.
func submissionsIn(ctx context.Context, c *Conn, from, to uint64) (ms []Stored, _ error) {
	stream, filter := c.cfg.Space.Name("SUBMIT"), c.cfg.Space.Submissions()
	for from < to {
		m, ok, err := fromLeader(ctx, c, c.reader.api, stream, directGet{Seq: from, NextFor: filter})
		if err != nil {
			return nil, err
		}
		if !ok || m.Seq >= to {
			break
		}
		m.Time = c.Clocks.stamp(m.Time)
		ms = append(ms, m)
		from = m.Seq + 1
	}
	slices.Reverse(ms)
	return ms, nil
}
