package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// Provision is the configuration of streams that do not exist yet. An existing
// stream keeps an operator's changes, except for settings that the bus depends
// on, and for MaxAge and MaxBytes where they are set.
type Provision struct {
	// Replicas of each stream; 0: 1.
	Replicas int
	// MaxAge is the time for which messages, large bodies and artifacts are
	// kept, those of existing streams too. 0 keeps the age of existing
	// streams. A new stream gets the age of the first stream of runs then.
	// If there is no such stream, it gets DefaultMaxAge, 7 days.
	MaxAge time.Duration
	// MaxBytes is the size of the streams of all trees together from which
	// on no new tree begins; see Health.Room. Running trees go on. 0 keeps
	// the size that the streams have, or none. A negative one removes it.
	MaxBytes int64
	// Partitions is the number of streams that trees are spread over; 0:
	// the existing number, or 1.
	Partitions int
	// Sync says when the server syncs its writes to its disk.
	Sync Sync
	// Longest is the longest time that a tree may take. A stream of runs
	// with an age below AgeFor is refused, and none is made with one. 0
	// refuses none for its age.
	Longest time.Duration
}

// Sync says when a server syncs its writes to its disk.
type Sync int

const (
	// SyncUnknown leaves the streams as they are.
	SyncUnknown Sync = iota
	// SyncAlways is for a server that syncs each write before it answers.
	// Connections then store writes of the same moment together, and the
	// server syncs once for them.
	SyncAlways
	// SyncInterval is for a server that syncs at an interval.
	SyncInterval
)

// ErrPartitions is wrapped by the error of a Provision with another number of
// partitions than there is. With another number no worker would find the
// existing trees.
var ErrPartitions = errors.New("number of partitions cannot be changed")

// DefaultMaxAge is the default of Provision.MaxAge.
const DefaultMaxAge = 7 * 24 * time.Hour

// dedupe is the deduplication window of a stream: within it, a second outcome
// with the same Nats-Msg-Id is not stored. It only makes duplicates rare. They
// are harmless, because the first one in stream order counts.
const dedupe = 30 * time.Second

// dedupeWithin returns the deduplication window of a stream that keeps messages
// for an age, 0 for ever. The server allows no window that is longer.
func dedupeWithin(age time.Duration) time.Duration {
	if age == 0 {
		return dedupe
	}
	return min(dedupe, age)
}

// maxConsumers is the largest number of consumers of a stream. Each active
// agent has two. The server's default is 1,000.
const maxConsumers = 100_000

// Provision creates the streams, the bucket of agents and the object store
// where they are missing, and corrects the settings of existing streams. The
// first stream of runs comes last, so that a process that finds it
// (Provisioned) finds all of them. The error wraps ErrPartitions if there is
// another number of streams of runs. A stream that drops messages that workers
// need is an error.
func (c *Conn) Provision(ctx context.Context, p Provision) error {
	if err := checkAge(p.MaxAge, p.Longest); err != nil {
		return err
	}
	p.Replicas = cmp.Or(p.Replicas, 1)
	sp := c.cfg.Space
	var err error
	if p.Partitions, err = c.spread(ctx, p.Partitions); err != nil {
		return err
	}
	err = c.inflight.several(ctx, func(ctx context.Context) error { return retain(ctx, c, p) })
	if err != nil {
		return err
	}
	p.MaxBytes = cmp.Or(p.MaxBytes, c.Health.maxBytes())
	if p.MaxAge == 0 {
		p.MaxAge = c.Health.ageOfNew()
	}
	err = c.inflight.several(ctx, func(ctx context.Context) error {
		submit := p
		submit.Longest = 0
		if err := ensureGrouped(ctx, c.js, submitStream(sp, p), submit); err != nil {
			return err
		}
		return ensureBuckets(ctx, c.js, sp, p)
	})
	if err != nil {
		return err
	}
	sp = sp.Spread(p.Partitions)
	for part := p.Partitions - 1; part >= 0; part-- {
		err := c.inflight.several(ctx, func(ctx context.Context) error {
			return ensureGrouped(ctx, c.js, runsStream(sp, part, p), p)
		})
		if err != nil {
			return err
		}
	}
	c.Health.forget()
	return c.Provisioned(ctx)
}

// checkAge returns an error if messages of an age are removed too early for
// trees that may take a time: see AgeFor. Messages of the age 0 are kept for
// ever.
func checkAge(age, longest time.Duration) error {
	if least := AgeFor(longest); age > 0 && age < least {
		const text = "messages must be kept for at least %s, since a tree may take %s, got %s"
		return fmt.Errorf(text, least, longest, age)
	}
	return nil
}

// submitStream returns the configuration of the stream of submissions. Workers
// remove the acknowledged ones together: a stream that removed each with its
// acknowledgement would write to its disk for each. Earlier versions made such
// a stream, a work queue, which serves as well.
func submitStream(sp subjects.Space, p Provision) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        sp.Name("SUBMIT"),
		Description: "Tasks from outside, until a worker has made them runs",
		Subjects:    []string{sp.Submissions()},
		MaxAge:      p.MaxAge,
		Duplicates:  dedupeWithin(p.MaxAge),
		Replicas:    p.Replicas,
	}
}

// bucketStreams returns the names of the streams behind the bucket of agents
// and the object store.
func bucketStreams(sp subjects.Space) []string {
	return []string{"KV_" + sp.Name("AGENTS"), objectStream(sp)}
}

// spread returns the number of streams of runs. Want is 0 for the existing
// number, or 1.
func (c *Conn) spread(ctx context.Context, want int) (int, error) {
	if want < 0 || want > MostPartitions {
		return 0, fmt.Errorf("partitions must be 1 to %d, got %d", MostPartitions, want)
	}
	first, err := c.firstStream(ctx, false)
	if errors.Is(err, ErrNoStream) {
		return max(1, want), nil
	}
	if err != nil {
		return 0, err
	}
	have, err := partitions(first)
	if err == nil && want > 0 && want != have {
		err = fmt.Errorf("%w: there are %d, got %d; use another prefix for another number", ErrPartitions, have, want)
	}
	return have, err
}

// runsStream returns the configuration of the stream of a partition.
func runsStream(sp subjects.Space, part int, p Provision) jetstream.StreamConfig {
	st := sp.Stream(part)
	runs := jetstream.StreamConfig{
		Name:              st.Name,
		Description:       "Every run of every tree; state is folded from it",
		Subjects:          st.Subjects,
		MaxAge:            p.MaxAge,
		Duplicates:        dedupeWithin(p.MaxAge),
		Replicas:          p.Replicas,
		MaxConsumers:      maxConsumers,
		AllowDirect:       true,
		AllowMsgSchedules: true,
		RePublish:         &jetstream.RePublish{Source: st.All, Destination: sp.LiveAll()},
		Metadata:          map[string]string{},
	}
	if n := sp.Partitions(); n > 1 {
		runs.Description = fmt.Sprintf("The runs of the trees of partition %d of %d; state is folded from it", part, n)
		runs.Metadata[metaPartitions] = strconv.Itoa(n)
	}
	if part == 0 && p.MaxBytes > 0 {
		runs.Metadata[metaMaxBytes] = strconv.FormatInt(p.MaxBytes, 10)
	}
	return runs
}

// ensureBuckets creates the bucket of agents and the object store, unless they
// exist. It lets the bucket of agents accept atomic batches.
func ensureBuckets(ctx context.Context, js jetstream.JetStream, sp subjects.Space, p Provision) error {
	agents := jetstream.KeyValueConfig{
		Bucket: sp.Name("AGENTS"), Description: "Agents that workers serve or served", Replicas: p.Replicas,
	}
	_, err := js.KeyValue(ctx, agents.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateKeyValue(ctx, agents)
	}
	if err == nil || errors.Is(err, jetstream.ErrBucketExists) {
		err = allowBatches(ctx, js, "KV_"+agents.Bucket, true)
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", agents.Bucket, err)
	}
	objects := jetstream.ObjectStoreConfig{
		Bucket: sp.Name("OBJECTS"), Description: "Bodies beyond the server's largest payload",
		TTL: p.MaxAge, Replicas: p.Replicas,
	}
	_, err = js.ObjectStore(ctx, objects.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		_, err = js.CreateObjectStore(ctx, objects)
	}
	if err != nil && !errors.Is(err, jetstream.ErrBucketExists) {
		return fmt.Errorf("object store %s: %w", objects.Bucket, err)
	}
	return nil
}

// allowBatches makes a stream accept or refuse atomic batches. The client
// library sets that for no bucket.
func allowBatches(ctx context.Context, js jetstream.JetStream, name string, allow bool) error {
	s, err := existing(ctx, js, name)
	if err != nil {
		return err
	}
	cfg := s.CachedInfo().Config
	if cfg.AllowAtomicPublish == allow {
		return nil
	}
	cfg.AllowAtomicPublish = allow
	_, err = js.UpdateStream(ctx, cfg)
	return err
}

// existing returns a stream that another worker may be creating. The servers of
// a cluster refuse to create it again before they can find it.
func existing(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
	for range int(answerTimeout / existingPoll) {
		s, err := js.Stream(ctx, name)
		if !errors.Is(err, jetstream.ErrStreamNotFound) {
			return s, err
		}
		if err := pause.For(ctx, existingPoll); err != nil {
			return nil, err
		}
	}
	return js.Stream(ctx, name)
}

// existingPoll is the time between two requests for a stream that another
// worker may be creating.
const existingPoll = 50 * time.Millisecond

// ensureGrouped is ensureStream for a stream whose writes are stored together
// if the server syncs each of them.
func ensureGrouped(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, p Provision) error {
	want.AllowAtomicPublish = p.Sync == SyncAlways
	if err := ensureStream(ctx, js, want, p.Longest); err != nil || p.Sync == SyncUnknown {
		return err
	}
	return wrapStream(want.Name, allowBatches(ctx, js, want.Name, want.AllowAtomicPublish))
}

// ensureStream creates a stream, or changes the settings of an existing one
// that axe depends on. It refuses a stream with a fault of drops, and creates
// none. Longest is the longest time that a tree may take, 0 for a stream
// without runs.
func ensureStream(
	ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, longest time.Duration,
) error {
	s, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := checkAge(want.MaxAge, longest); err != nil {
			return wrapStream(want.Name, err)
		}
		if _, err = js.CreateStream(ctx, want); err == nil || !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return wrapStream(want.Name, err)
		}
		s, err = existing(ctx, js, want.Name)
	}
	if err != nil {
		return wrapStream(want.Name, err)
	}
	have := s.CachedInfo().Config
	for _, f := range drops(have, longest) {
		return errors.New(f.String())
	}
	return correctSettings(ctx, js, have, want)
}

// correctSettings changes the settings of a stream that axe depends on, where
// they are wrong.
func correctSettings(ctx context.Context, js jetstream.JetStream, have, want jetstream.StreamConfig) error {
	if _, wrong := settings(have, want); !wrong {
		return nil
	}
	fixed := have
	fixed.Subjects = want.Subjects
	fixed.AllowDirect = want.AllowDirect
	fixed.AllowMsgSchedules = want.AllowMsgSchedules
	fixed.RePublish = want.RePublish
	_, err := js.UpdateStream(ctx, fixed)
	return wrapStream(want.Name, err)
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
