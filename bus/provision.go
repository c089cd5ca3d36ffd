package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// Provision says what the streams are to be like where they do not exist yet.
// An existing stream keeps what an operator has made of it; only what the rules
// depend on is put right.
type Provision struct {
	Replicas int           // 0: 1
	MaxAge   time.Duration // of all messages; 0: 7 days
	// streams that the trees are spread over; 0: as many as there are, or 1
	Partitions int
}

// ErrPartitions is wrapped by the error of a bus whose trees are spread over
// another number of streams than was asked for: nobody would find those that
// are there.
var ErrPartitions = errors.New("the number of partitions cannot be changed")

// DefaultMaxAge is how long messages are kept unless configured otherwise.
const DefaultMaxAge = 7 * 24 * time.Hour

// dedupe is the window within which a second outcome with the same Nats-Msg-Id
// is not stored. It only makes doubles rare; what makes them harmless is that
// the first in stream order counts.
const dedupe = 30 * time.Second

// maxConsumers is the bound on agents that a stream takes: two consumers each.
// Without one the server allows 1,000.
const maxConsumers = 100_000

// Provision creates the streams, the bucket of agents and the object store
// where they are missing. The first stream of runs comes last: who finds it
// (Provisioned) finds all of them. The error is ErrPartitions for another
// number of streams of runs than there is.
func (c *Conn) Provision(ctx context.Context, p Provision) error {
	p.Replicas = cmp.Or(p.Replicas, 1)
	p.MaxAge = cmp.Or(p.MaxAge, DefaultMaxAge)
	sp := c.cfg.Space
	var err error
	if p.Partitions, err = c.spread(ctx, p.Partitions); err != nil {
		return err
	}
	submit := jetstream.StreamConfig{
		Name:        sp.Name("SUBMIT"),
		Description: "Tasks from outside, until a worker has made them runs",
		Subjects:    []string{sp.Submissions()},
		Retention:   jetstream.WorkQueuePolicy,
		MaxAge:      p.MaxAge,
		Duplicates:  min(dedupe, p.MaxAge),
		Replicas:    p.Replicas,
	}
	if err := c.ensureStream(ctx, submit); err != nil {
		return err
	}
	if err := c.ensureBuckets(ctx, p); err != nil {
		return err
	}
	sp = sp.Spread(p.Partitions)
	for part := p.Partitions - 1; part >= 0; part-- {
		if err := c.ensureStream(ctx, runsStream(sp, part, p)); err != nil {
			return err
		}
	}
	return c.Provisioned(ctx)
}

// spread is how many streams of runs there are to be.
func (c *Conn) spread(ctx context.Context, want int) (int, error) {
	if want < 0 || want > MostPartitions {
		return 0, fmt.Errorf("%d partitions: want 1 to %d", want, MostPartitions)
	}
	first, err := c.firstStream(ctx)
	if errors.Is(err, ErrNoStream) {
		return max(1, want), nil
	}
	if err != nil {
		return 0, err
	}
	have, err := partitions(first)
	if err == nil && want > 0 && want != have {
		err = fmt.Errorf("%w: there are %d, not %d; under another prefix there may be", ErrPartitions, have, want)
	}
	return have, err
}

// runsStream is what the stream of a partition is to be.
func runsStream(sp subjects.Space, part int, p Provision) jetstream.StreamConfig {
	st := sp.Stream(part)
	runs := jetstream.StreamConfig{
		Name:              st.Name,
		Description:       "Every run of every tree; state is folded from it",
		Subjects:          st.Subjects,
		MaxAge:            p.MaxAge,
		Duplicates:        min(dedupe, p.MaxAge),
		Replicas:          p.Replicas,
		MaxConsumers:      maxConsumers,
		AllowDirect:       true,
		AllowMsgSchedules: true,
		RePublish:         &jetstream.RePublish{Source: st.All, Destination: sp.LiveAll()},
	}
	if n := sp.Partitions(); n > 1 {
		runs.Description = fmt.Sprintf(
			"The runs of the trees of partition %d of %d; state is folded from it",
			part,
			n,
		)
		runs.Metadata = map[string]string{metaPartitions: strconv.Itoa(n)}
	}
	return runs
}

func (c *Conn) ensureBuckets(ctx context.Context, p Provision) error {
	sp := c.cfg.Space
	if _, err := c.js.KeyValue(ctx, sp.Name("AGENTS")); errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err := c.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: sp.Name("AGENTS"), Description: "Agents that workers serve or served", Replicas: p.Replicas,
		})
		if err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
			return fmt.Errorf("bucket %s: %w", sp.Name("AGENTS"), err)
		}
	} else if err != nil {
		return fmt.Errorf("bucket %s: %w", sp.Name("AGENTS"), err)
	}
	if _, err := c.js.ObjectStore(ctx, sp.Name("OBJECTS")); errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err := c.js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: sp.Name(
				"OBJECTS",
			), Description: "Bodies beyond the server's largest payload", TTL: p.MaxAge, Replicas: p.Replicas,
		})
		if err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
			return fmt.Errorf("object store %s: %w", sp.Name("OBJECTS"), err)
		}
	} else if err != nil {
		return fmt.Errorf("object store %s: %w", sp.Name("OBJECTS"), err)
	}
	return nil
}

func (c *Conn) ensureStream(ctx context.Context, want jetstream.StreamConfig) error {
	s, err := c.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if _, err = c.js.CreateStream(ctx, want); err == nil || !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return wrapStream(want.Name, err)
		}
		s, err = c.js.Stream(ctx, want.Name) // another worker was quicker
	}
	if err != nil {
		return wrapStream(want.Name, err)
	}
	have := s.CachedInfo().Config
	if err := keeps(have); err != nil {
		return wrapStream(want.Name, err)
	}
	fixed := have
	fixed.Subjects = want.Subjects
	fixed.AllowDirect = want.AllowDirect
	fixed.AllowMsgSchedules = want.AllowMsgSchedules
	fixed.RePublish = want.RePublish
	if have.AllowDirect == fixed.AllowDirect && have.AllowMsgSchedules == fixed.AllowMsgSchedules &&
		slices.Equal(have.Subjects, fixed.Subjects) && samePublish(have.RePublish, fixed.RePublish) {
		return nil
	}
	_, err = c.js.UpdateStream(ctx, fixed)
	return wrapStream(want.Name, err)
}

// ErrDropsMessages is wrapped by the error of a stream that drops messages for
// another reason than their age: a run at work would lose its history, and
// nobody would be told.
var ErrDropsMessages = errors.New("it drops messages of runs at work")

// keeps refuses a stream that somebody has bounded. One that refuses what is
// too much drops nothing.
func keeps(have jetstream.StreamConfig) error {
	if have.Discard == jetstream.DiscardNew {
		return nil
	}
	for _, bound := range []struct {
		flag  string
		value int64
	}{{"max-bytes", have.MaxBytes}, {"max-msgs", have.MaxMsgs}, {"max-msgs-per-subject", have.MaxMsgsPerSubject}} {
		if bound.value > 0 {
			return fmt.Errorf(
				"%w when they are more than %s=%d: nats stream edit %s --%s=-1",
				ErrDropsMessages,
				bound.flag,
				bound.value,
				have.Name,
				bound.flag,
			)
		}
	}
	return nil
}

func samePublish(a, b *jetstream.RePublish) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}

func wrapStream(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("stream %s: %w", name, err)
}
