package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// layout is what a connection knows of the streams of runs.
type layout struct {
	space    subjects.Space // spread as the streams are
	streams  []string       // by partition
	replicas int            // 0: not known yet
	maxAge   time.Duration
}

func newLayout(space subjects.Space) *layout {
	l := &layout{space: space}
	for p := range space.Partitions() {
		l.streams = append(l.streams, space.Stream(p).Name)
	}
	return l
}

// Space is the subjects that the connection works under: spread over the
// partitions that there are, as far as they are known (Provision, Provisioned).
func (c *Conn) Space() subjects.Space { return c.known.Load().space }

// Replicas is the number of replicas of the streams of runs, 0 before it is
// known.
func (c *Conn) Replicas() int { return c.known.Load().replicas }

// MaxAge is how long the streams of runs keep a message, 0 for ever (or not
// known yet).
func (c *Conn) MaxAge() time.Duration { return c.known.Load().maxAge }

func (c *Conn) provisioned() bool { return c.Replicas() > 0 }

// Provisioned reports whether the streams of runs exist, and learns how many
// there are; the error is ErrNoStream if they do not.
func (c *Conn) Provisioned(ctx context.Context) error {
	have, err := c.first(ctx)
	if err != nil {
		return err
	}
	return c.learn(have)
}

// first is the configuration of the first stream of runs, which says how many
// there are.
func (c *Conn) first(ctx context.Context) (jetstream.StreamConfig, error) {
	name := c.cfg.Space.Stream(0).Name
	s, err := ask(ctx, c, func(ctx context.Context) (jetstream.Stream, error) { return c.js.Stream(ctx, name) })
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return jetstream.StreamConfig{}, ErrNoStream
	}
	if err != nil {
		return jetstream.StreamConfig{}, wrapStream(name, err)
	}
	return s.CachedInfo().Config, nil
}

// learn notes what the streams of runs are like.
func (c *Conn) learn(first jetstream.StreamConfig) error {
	n, err := partitions(first)
	if err != nil {
		return err
	}
	l := newLayout(c.cfg.Space.Spread(n))
	l.replicas, l.maxAge = max(1, first.Replicas), first.MaxAge
	c.known.Store(l)
	return nil
}

// metaPartitions is where the first stream says over how many its space is
// spread.
const metaPartitions = "axe-partitions"

// MostPartitions is how many there may be.
const MostPartitions = 64

// partitions is how many streams of runs there are.
func partitions(first jetstream.StreamConfig) (int, error) {
	text, ok := first.Metadata[metaPartitions]
	if !ok {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MostPartitions {
		return 0, fmt.Errorf(
			"stream %s: its metadata say %s=%q: want 1 to %d",
			first.Name,
			metaPartitions,
			text,
			MostPartitions,
		)
	}
	return n, nil
}

// streamOf is the stream that has what a filter matches. One that has no single
// partition is for Scan.
func (l *layout) streamOf(filter string) (string, error) {
	p, ok := l.space.PartitionIn(filter)
	if !ok {
		return "", fmt.Errorf("%s: it is of no single partition", filter)
	}
	return l.streams[p], nil
}

// streamsOf are all streams that have something of what a filter matches.
func (l *layout) streamsOf(filter string) []string {
	if p, ok := l.space.PartitionIn(filter); ok {
		return l.streams[p : p+1]
	}
	return l.streams
}
