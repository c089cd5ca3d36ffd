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

// streams describes the streams of runs, as far as a connection knows them.
type streams struct {
	space    subjects.Space // spread as the streams are
	names    []string       // by partition
	replicas int            // 0: not known yet
	// clocks has the clocks of the streams, by partition. They are read many
	// times for each message.
	clocks []*Clock
	// commits store writes together, by partition, and submits does so for
	// the stream of submissions. They are nil if the streams take each write
	// by itself.
	commits []*groupCommit
	submits *groupCommit
}

// setStreams makes the streams known to the connection.
func (c *Conn) setStreams(s *streams) {
	for _, name := range s.names {
		s.clocks = append(s.clocks, c.Clocks.clock(name))
	}
	c.streams.Store(s)
}

func newStreams(space subjects.Space) *streams {
	s := &streams{space: space}
	for p := range space.Partitions() {
		s.names = append(s.names, space.Stream(p).Name)
	}
	return s
}

// Space is the subjects that the connection works under. Once the streams are
// known (Provision, Provisioned), it is spread over their partitions.
func (c *Conn) Space() subjects.Space { return c.streams.Load().space }

// Replicas is the number of replicas of the streams of runs, 0 before it is
// known.
func (c *Conn) Replicas() int { return c.streams.Load().replicas }

// MaxAge is the time for which the streams of runs keep a message. It is 0 if
// they keep messages for ever, and before it is known.
func (c *Conn) MaxAge() time.Duration {
	age, _ := c.Health.maxAge()
	return age
}

// maxAge returns the age of the first stream of runs, 0 for one that keeps
// messages for ever; ok is false if it is not known.
func (h *Health) maxAge() (age time.Duration, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if info := h.of(h.conn.cfg.Space.Stream(0).Name).info; info != nil {
		return info.Config.MaxAge, true
	}
	return 0, false
}

// ageOfNew returns the age of a new stream: that of the first stream of runs, or
// DefaultMaxAge if there is none.
func (h *Health) ageOfNew() time.Duration {
	if age, ok := h.maxAge(); ok {
		return age
	}
	return DefaultMaxAge
}

func (c *Conn) provisioned() bool { return c.Replicas() > 0 }

// Provisioned learns the number, the replicas and the age of the streams of
// runs. The error is ErrNoStream if there are none.
func (c *Conn) Provisioned(ctx context.Context) error {
	first, err := c.firstStream(ctx, true)
	if err != nil {
		return err
	}
	n, err := partitions(first)
	if err != nil {
		return err
	}
	s := newStreams(c.cfg.Space.Spread(n))
	s.replicas = max(1, first.Replicas)
	if first.AllowAtomicPublish {
		s.groupAs(ctx, c, c.streams.Load())
	}
	c.setStreams(s)
	return nil
}

// groupAs sets what stores writes together. Writes may be waiting in that of
// the streams as they were known before, so it stays if it is there.
func (s *streams) groupAs(ctx context.Context, c *Conn, before *streams) {
	if before.submits != nil && len(before.commits) == len(s.names) {
		s.submits, s.commits = before.submits, before.commits
		return
	}
	rtt := roundTrip(ctx, c)
	s.submits = newGroupCommit(c, rtt)
	for range s.names {
		s.commits = append(s.commits, newGroupCommit(c, rtt))
	}
}

// roundTrip measures the round trip to the server. Without an answer it returns
// farServer: the readings of the clock then decide whether the server is far.
func roundTrip(ctx context.Context, c *Conn) time.Duration {
	ctx, r := c.inflight.begin(ctx, "")
	defer r.done()
	began := time.Now()
	if c.nc.FlushWithContext(ctx) != nil {
		return farServer
	}
	return time.Since(began)
}

// firstStream returns the configuration of the first stream of runs, which says
// how many there are. With mayRestrict a user without the right to ask for it
// asks the workers, and reads through them from then on.
func (c *Conn) firstStream(ctx context.Context, mayRestrict bool) (jetstream.StreamConfig, error) {
	name := c.cfg.Space.Stream(0).Name
	var sent reading
	s, err := ask(ctx, c, func(ctx context.Context) (jetstream.Stream, error) {
		sent = c.Clocks.begin()
		if Restricted(c) {
			return restrict(ctx, c, nil)
		}
		return c.js.Stream(ctx, name)
	})
	if mayRestrict && Forbidden(err) {
		s, err = restrict(ctx, c, err)
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return jetstream.StreamConfig{}, ErrNoStream
	}
	info, err := c.Health.saw(name, s, err)
	if err != nil {
		return jetstream.StreamConfig{}, err
	}
	c.Clocks.clock(name).read(sent, info)
	return info.Config, nil
}

// metaPartitions is the key of the first stream's metadata that holds the
// number of partitions.
const metaPartitions = "axe-partitions"

// MostPartitions is the largest number of partitions.
const MostPartitions = 64

// partitions is the number of streams of runs.
func partitions(first jetstream.StreamConfig) (int, error) {
	text, ok := first.Metadata[metaPartitions]
	if !ok {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MostPartitions {
		return 0, fmt.Errorf("stream %s: metadata %s must be 1 to %d, got %q",
			first.Name, metaPartitions, MostPartitions, text)
	}
	return n, nil
}

// streamOf returns the stream that holds the messages of a filter. A filter for
// all partitions is an error: only a scan reads several streams.
func (s *streams) streamOf(filter string) (string, error) {
	p, ok := s.space.PartitionIn(filter)
	if !ok {
		return "", fmt.Errorf("filter %s must be of one partition", filter)
	}
	return s.names[p], nil
}

// commitOf returns what stores a subject of a run or a submission together with
// others, nil if its stream takes each write by itself.
func (s *streams) commitOf(subject string) *groupCommit {
	if s.submits == nil {
		return nil
	}
	at, err := s.space.Parse(subject)
	if err != nil {
		return nil
	}
	if at.Kind == subjects.Submission {
		return s.submits
	}
	if p, ok := s.space.PartitionIn(subject); ok {
		return s.commits[p]
	}
	return nil
}

// streamsOf returns all streams that hold messages of a filter.
func (s *streams) streamsOf(filter string) []string {
	if p, ok := s.space.PartitionIn(filter); ok {
		return s.names[p : p+1]
	}
	return s.names
}

// Bounds are the first and the last sequence of a stream of runs. Messages
// before the first one have been removed.
type Bounds struct {
	First, Last uint64
	// Aged is the time before which the stream may have dropped messages
	// for their age; zero if it has dropped none for it.
	Aged time.Time
}

// Bounds returns the bounds of the streams of runs, by partition.
func (c *Conn) Bounds(ctx context.Context) (all []Bounds, err error) {
	for _, name := range c.streams.Load().names {
		info, err := c.Health.info(ctx, name)
		if err != nil {
			return nil, err
		}
		all = append(all, Bounds{info.State.FirstSeq, info.State.LastSeq, aged(info)})
	}
	return all, nil
}
