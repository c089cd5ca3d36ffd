package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Provision says what the streams are to be like where they do not exist yet. An existing stream
// keeps what an operator has made of it; only what the rules depend on is put right.
type Provision struct {
	Replicas int           // 0: 1
	MaxAge   time.Duration // of all messages; 0: 7 days
}

// DefaultMaxAge is how long messages are kept unless configured otherwise.
const DefaultMaxAge = 7 * 24 * time.Hour

// dedupe is the window within which a second outcome with the same Nats-Msg-Id is not stored. It only
// makes doubles rare; what makes them harmless is that the first in stream order counts.
const dedupe = 30 * time.Second

// maxConsumers is the bound on agents that a stream takes: two consumers each. Without one the server
// allows 1,000.
const maxConsumers = 100_000

// Provision creates the streams, the bucket of agents and the object store where they are missing. The stream
// of runs comes last: who finds it (Provisioned) finds all of them.
func (c *Conn) Provision(ctx context.Context, p Provision) error {
	p.Replicas = cmp.Or(p.Replicas, 1)
	p.MaxAge = cmp.Or(p.MaxAge, DefaultMaxAge)
	sp := c.cfg.Space
	runs := jetstream.StreamConfig{
		Name:              sp.Name("RUNS"),
		Description:       "Every run of every tree; state is folded from it",
		Subjects:          []string{sp.Runs(), sp.Results(), sp.Timers(), sp.Tallies(), sp.Dead()},
		MaxAge:            p.MaxAge,
		Duplicates:        min(dedupe, p.MaxAge),
		Replicas:          p.Replicas,
		MaxConsumers:      maxConsumers,
		AllowDirect:       true,
		AllowMsgSchedules: true,
		RePublish:         &jetstream.RePublish{Source: sp.All(), Destination: sp.LiveAll()},
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
	if err := c.ensureStream(ctx, runs); err != nil {
		return err
	}
	return c.learn(ctx)
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
			Bucket: sp.Name("OBJECTS"), Description: "Bodies beyond the server's largest payload", TTL: p.MaxAge, Replicas: p.Replicas,
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

// ErrForgets is wrapped by the error of a stream that drops messages for another reason than their age: a run
// at work would lose its history, and nobody would be told.
var ErrForgets = errors.New("it drops messages of runs at work")

// keeps refuses a stream that somebody has bounded. One that refuses what is too much drops nothing.
func keeps(have jetstream.StreamConfig) error {
	if have.Discard == jetstream.DiscardNew {
		return nil
	}
	for _, bound := range []struct {
		flag  string
		value int64
	}{{"max-bytes", have.MaxBytes}, {"max-msgs", have.MaxMsgs}, {"max-msgs-per-subject", have.MaxMsgsPerSubject}} {
		if bound.value > 0 {
			return fmt.Errorf("%w when they are more than %s=%d: nats stream edit %s --%s=-1", ErrForgets, bound.flag, bound.value, have.Name, bound.flag)
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

// Provisioned reports whether the stream of runs exists; the error is ErrNoStream if it does not.
func (c *Conn) Provisioned(ctx context.Context) error {
	return c.learn(ctx)
}

// Replicas is the number of replicas of the stream of runs, 0 before it is known.
func (c *Conn) Replicas() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replicas
}

// MaxAge is how long the stream of runs keeps a message, 0 for ever (or not known yet).
func (c *Conn) MaxAge() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.maxAge
}

func (c *Conn) provisioned() bool { return c.Replicas() > 0 }

// learn notes what the stream of runs is like.
func (c *Conn) learn(ctx context.Context) error {
	s, err := ask(ctx, c, func(ctx context.Context) (jetstream.Stream, error) { return c.js.Stream(ctx, c.stream()) })
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return ErrNoStream
	}
	if err != nil {
		return wrapStream(c.stream(), err)
	}
	cfg := s.CachedInfo().Config
	n := max(1, cfg.Replicas)
	c.mu.Lock()
	c.replicas, c.maxAge = n, cfg.MaxAge
	c.mu.Unlock()
	return nil
}
