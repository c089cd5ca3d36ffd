package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// Usage is what the streams of a bus hold at one moment, and their limits.
type Usage struct {
	// Time is the server's time.
	Time time.Time
	// Streams are those of trees, then those of the buckets.
	Streams []StreamUsage
	// Limits are the bounds of bytes that are set.
	Limits []Limit
	// Timers is the number of timers that have not fired.
	Timers int
	// Consumers are the durable consumers, of all streams of trees.
	Consumers []ConsumerUsage
}

// StreamUsage is the size of one stream.
type StreamUsage struct {
	Name string
	// OfTrees says that the stream holds what belongs to trees.
	OfTrees bool
	// Messages and Bytes are the number and the size of the messages. Last
	// is the sequence of the last one.
	Messages, Bytes, Last uint64
	// Oldest is the time of the first message, zero without one.
	Oldest time.Time
	// Keep is the age at which messages go, 0 for never.
	Keep      time.Duration
	Consumers int
}

// Limit is a bound of bytes.
type Limit struct {
	// Name says which: "keep-bytes", the name of a stream, or "account".
	Name string
	// Used and Most are bytes.
	Used, Most uint64
}

// ConsumerUsage is the work that a consumer has before it.
type ConsumerUsage struct {
	Stream, Name string
	// Waiting is the number of messages that were not delivered yet,
	// InHand that of those that workers have, and Again that of those among
	// them that were delivered more than once.
	Waiting uint64
	InHand  int
	Again   int
}

// MeasureUsage asks for the sizes of all streams and consumers. It reads no
// message. Its cost depends on the number of consumers and of timers.
func MeasureUsage(ctx context.Context, c *Conn) (Usage, error) {
	if err := c.Provisioned(ctx); err != nil {
		return Usage{}, err
	}
	u := Usage{Time: c.Clocks.Now()}
	err := c.inflight.several(ctx, func(ctx context.Context) error {
		ofTrees := treeStreams(c.Space())
		buckets := []string{"KV_" + c.cfg.Space.Name("AGENTS")}
		for _, name := range []string{"WORKERS", "ACTIVE", "LIMITS", "MEMORY"} {
			buckets = append(buckets, "KV_"+c.cfg.Space.Name(name))
		}
		for i, name := range append(ofTrees, buckets...) {
			if err := u.stream(ctx, c, name, i); err != nil {
				return wrapStream(name, err)
			}
		}
		return u.account(ctx, c)
	})
	if most := c.Health.maxBytes(); most > 0 {
		u.Limits = append([]Limit{{"keep-bytes", u.ofTrees(), uint64(most)}}, u.Limits...)
	}
	return u, err
}

// ofTrees is the size of the streams of trees.
func (u *Usage) ofTrees() (bytes uint64) {
	for _, s := range u.Streams {
		if s.OfTrees {
			bytes += s.Bytes
		}
	}
	return bytes
}

// stream adds the i-th stream. One that does not exist is left out.
func (u *Usage) stream(ctx context.Context, c *Conn, name string, i int) error {
	sp := c.Space()
	ofTrees, isRuns := i < len(treeStreams(sp)), i < sp.Partitions()
	s, err := c.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	info := s.CachedInfo()
	if i == 0 {
		if _, err := c.Health.saw(name, s, nil); err != nil {
			return err
		}
	}
	size := StreamUsage{
		Name: name, OfTrees: ofTrees, Messages: info.State.Msgs, Bytes: info.State.Bytes, Last: info.State.LastSeq,
		Keep: info.Config.MaxAge, Consumers: info.State.Consumers,
	}
	if size.Messages > 0 {
		size.Oldest = info.State.FirstTime
	}
	u.Streams = append(u.Streams, size)
	if most := info.Config.MaxBytes; most > 0 {
		u.Limits = append(u.Limits, Limit{name, size.Bytes, uint64(most)})
	}
	if isRuns {
		timers, err := s.Info(ctx, jetstream.WithSubjectFilter(sp.Stream(i).Timers))
		if err != nil {
			return err
		}
		u.Timers += len(timers.State.Subjects)
	}
	if !ofTrees || size.Consumers == 0 {
		return nil
	}
	all := s.ListConsumers(ctx)
	for info := range all.Info() {
		if info.Config.Durable != "" {
			u.Consumers = append(u.Consumers, ConsumerUsage{
				name, info.Name, info.NumPending, info.NumAckPending, info.NumRedelivered,
			})
		}
	}
	return all.Err()
}

// account adds the limits of the account.
func (u *Usage) account(ctx context.Context, c *Conn) error {
	info, err := c.js.AccountInfo(ctx)
	if err != nil {
		return err
	}
	tiers := map[string]jetstream.Tier{"account": info.Tier}
	for name, t := range info.Tiers {
		tiers["account "+name] = t
	}
	for _, name := range slices.Sorted(maps.Keys(tiers)) {
		t := tiers[name]
		if t.Limits.MaxStore > 0 {
			u.Limits = append(u.Limits, Limit{name, t.Store, uint64(t.Limits.MaxStore)})
		}
	}
	return nil
}

// OldestTree returns a tree of the oldest message of all streams of runs, and
// the time of the message; ok is false if there is none.
func OldestTree(ctx context.Context, c *Conn) (tree subjects.Tree, at time.Time, ok bool, _ error) {
	sp := c.Space()
	for p := range sp.Partitions() {
		st := sp.Stream(p)
		ms, err := c.reader.ask(ctx, st.Name, directGet{NextFor: st.All, Seq: 1, Batch: 1})
		if err != nil {
			return tree, at, ok, fmt.Errorf("oldest message of %s: %w", st.Name, err)
		}
		for _, m := range ms {
			if of, is := sp.TreeIn(m.Subject); is && (!ok || m.Time.Before(at)) {
				tree, at, ok = of, m.Time, true
			}
		}
	}
	return tree, at, ok, nil
}
