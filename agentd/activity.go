package agentd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// A worker that serves more than Config.ActiveAgents agents pulls for the
// active ones alone: those with a record in the bucket AXE_ACTIVE that says so.
// The record of a source, and nothing else, decides. Two rules hold:
//
//   - A worker acknowledges a trigger to the consumer "activations" only if it
//     has found the record active, or has made it active. It has done so after
//     it received the trigger, or less than confirmedFor before.
//   - A record becomes dormant only leaveDelay after it became leaving, and
//     only if every trigger that was stored until then was found acknowledged.
//
// leaveDelay is longer than confirmedFor, so the second rule covers every
// trigger that the first one lets go. A source with a trigger to handle is
// active or becomes active, whichever worker dies. Its consumers follow from
// the record: a worker makes a missing one of an active source again.

// activeState is the state of a source.
type activeState string

const (
	active activeState = "active"
	// leaving: a worker checks whether the source is without work. No
	// worker pulls.
	leaving activeState = "leaving"
	dormant activeState = "dormant"
)

// activityRecord is the record of a source.
type activityRecord struct {
	State activeState `json:"state"`
	// After is a sequence of the stream. All triggers of the source up to
	// it have been handled.
	After uint64 `json:"after"`
	// Worker is the name of the worker that wrote the record.
	Worker string `json:"worker"`

	// rev is the revision of the record, 0 if the source has none.
	rev uint64
}

// activeKey is the key of a source's record.
func activeKey(s source) string { return strconv.Itoa(s.partition) + "." + s.agent.String() }

// sourceOf returns the source of a key. It returns false for any other key.
func sourceOf(key string) (source, bool) {
	partition, name, _ := strings.Cut(key, ".")
	p, err := strconv.Atoi(partition)
	agent, failed := subjects.ParseAgent(name)
	return source{agent, p}, err == nil && failed == nil
}

// activity is a worker's copy of the records of the sources that are not
// dormant.
type activity struct {
	bucket *bus.Activity
	worker string
	// changed holds a token after a change of the copy.
	changed chan struct{}
	// noticed holds a token after a notice that the bucket has changed.
	noticed chan struct{}

	// read is the revision up to which the bucket was read.
	read atomic.Uint64

	mu      sync.Mutex
	on      bool
	records map[source]activityRecord
	local   map[source]*localActivity
	// waiting has the deliveries of "activations" that wait for a read of
	// their source's record. A source has an element, maybe empty, while a
	// goroutine makes it active.
	waiting map[source][]*bus.Delivery
}

// localActivity is a worker's own knowledge of a source that is not dormant.
type localActivity struct {
	// confirmed is the beginning of the last request that found the source
	// active, or made it active.
	confirmed time.Time
	// used is the time at which this worker last saw work of the source. At
	// first it is the time at which the record became known.
	used time.Time
	// noted is the time at which this worker took over the record.
	noted time.Time
	// poll is ready when a call may be there.
	poll chan struct{}
}

func newActivity(b *bus.Activity, worker string) *activity {
	return &activity{
		bucket: b, worker: worker, changed: make(chan struct{}, 1), noticed: make(chan struct{}, 1),
		records: map[source]activityRecord{}, local: map[source]*localActivity{},
		waiting: map[source][]*bus.Delivery{},
	}
}

// isOn reports whether the worker pulls for active agents alone.
func (a *activity) isOn() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.on
}

// turn sets whether the worker pulls for active agents alone.
func (a *activity) turn(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.on = on
}

// note takes over a record, unless a newer one is known.
func (a *activity) note(s source, r activityRecord) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known, ok := a.records[s]; !ok || known.rev < r.rev {
		a.replace(s, r)
	}
}

// replace takes over a record. The caller holds the lock.
func (a *activity) replace(s source, r activityRecord) {
	if r.State == dormant {
		delete(a.records, s)
		delete(a.local, s)
	} else {
		a.records[s] = r
		a.localOf(s).noted = time.Now()
	}
	pause.Notify(a.changed)
}

// localOf returns the knowledge of a source. The caller holds the lock.
func (a *activity) localOf(s source) *localActivity {
	l := a.local[s]
	if l == nil {
		l = &localActivity{used: time.Now(), poll: make(chan struct{}, 1)}
		a.local[s] = l
	}
	return l
}

// use notes that a source has work: this worker has received a message of it,
// or has found that it must not become dormant.
func (a *activity) use(s source) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.local[s]; l != nil {
		l.used = time.Now()
	}
}

// polls returns the channel that is ready when a source may have a call. It
// returns nil for a dormant source, and while the worker pulls for all its
// agents.
func (a *activity) polls(s source) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.local[s]; a.on && l != nil {
		return l.poll
	}
	return nil
}

// activeSources returns the sources that workers pull for.
func (a *activity) activeSources() []source {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []source
	for s, r := range a.records {
		if r.State == active {
			all = append(all, s)
		}
	}
	return all
}

// len returns the number of sources that are not dormant.
func (a *activity) len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.records)
}

// unused returns at most n active sources that this worker has not used since a
// time, the longest unused first. It returns only sources for which served is
// true.
func (a *activity) unused(since time.Time, n int, served func(source) bool) []source {
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []source
	for s, r := range a.records {
		if r.State == active && a.local[s].used.Before(since) && served(s) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(x, y source) int { return a.local[x].used.Compare(a.local[y].used) })
	return all[:min(n, len(all))]
}

// abandoned returns the sources that have been leaving for more than three
// times leaveDelay. The worker that checks them seems to have died.
func (a *activity) abandoned(now time.Time) (all []source) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for s, r := range a.records {
		if r.State == leaving && now.Sub(a.local[s].noted) > 3*leaveDelay {
			all = append(all, s)
		}
	}
	return all
}

// follow keeps the copy current until ctx ends, and calls load at intervals. It
// passes each error to failed and goes on.
func (a *activity) follow(ctx context.Context, load func(context.Context) error, failed func(error)) {
	notices := func() error { return a.bucket.Notices(ctx, func() { pause.Notify(a.noticed) }) }
	pause.Retry(ctx, busRetryDelay, notices, failed)
	for complete := time.Now(); ctx.Err() == nil; {
		sync := a.sync
		if time.Since(complete) > completeInterval {
			complete = time.Now()
			sync = load
		}
		if err := sync(ctx); err != nil && ctx.Err() == nil {
			failed(err)
		}
		// A notice may be lost, and a replica may lag behind it.
		_ = pause.AtMost(ctx, syncInterval, a.noticed)
	}
}

const (
	// syncInterval is the time after which the bucket is read without a
	// notice.
	syncInterval = time.Second
	// completeInterval is the time after which the whole bucket is read: a
	// person may have removed it.
	completeInterval = time.Minute
)

// sync reads what is new in the bucket.
func (a *activity) sync(ctx context.Context) error {
	news, err := a.bucket.Since(ctx, a.read.Load())
	for _, n := range news {
		if s, ok := sourceOf(n.Key); ok {
			a.note(s, decodeActivity(n))
		}
		a.read.Store(n.Rev)
	}
	return err
}

// load reads the whole bucket, and makes the copy equal to it. What this worker
// has noted since the read began is newer.
func (a *activity) load(ctx context.Context) error {
	began := time.Now()
	all, err := a.bucket.Since(ctx, 0)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read.Store(0)
	stored := map[source]bool{}
	for _, n := range all {
		a.read.Store(n.Rev)
		s, ok := sourceOf(n.Key)
		if !ok {
			continue
		}
		stored[s] = true
		r := decodeActivity(n)
		if _, known := a.records[s]; !known && r.State == dormant {
			continue
		}
		if known, ok := a.records[s]; !ok || known.rev != r.rev && a.local[s].noted.Before(began) {
			a.replace(s, r)
		}
	}
	for s := range a.records {
		if !stored[s] && a.local[s].noted.Before(began) {
			a.replace(s, activityRecord{State: dormant})
		}
	}
	return nil
}

// decodeActivity returns the record in the bucket. One that cannot be read, for
// example one that a person deleted, is dormant, with everything to be handled.
func decodeActivity(b bus.Record) activityRecord {
	r := activityRecord{State: dormant}
	if json.Unmarshal(b.Value, &r) != nil {
		r = activityRecord{State: dormant}
	}
	r.rev = b.Rev
	return r
}

// look reads the record of a source as the bucket's leader has it, and takes it
// over into the copy. A source without a record is dormant.
func (a *activity) look(ctx context.Context, s source) (activityRecord, error) {
	began := time.Now()
	b, ok, err := a.bucket.Get(ctx, activeKey(s))
	if err != nil || !ok {
		return activityRecord{State: dormant}, err
	}
	r := decodeActivity(b)
	a.note(s, r)
	if r.State == active {
		a.confirm(s, began)
	}
	return r, nil
}

func (a *activity) confirm(s source, began time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.local[s]; l != nil && l.confirmed.Before(began) {
		l.confirmed = began
	}
}

// change replaces the record was by the record now, and returns the new record.
// It returns false, and no error, if the bucket has another record than was.
// After a lost acknowledgement that may be now itself.
func (a *activity) change(ctx context.Context, s source, was, now activityRecord) (activityRecord, bool, error) {
	now.Worker = a.worker
	body, err := json.Marshal(now)
	if err != nil {
		return now, false, err
	}
	now.rev, err = a.bucket.Swap(ctx, activeKey(s), was.rev, body)
	if _, refused := errors.AsType[*bus.ConflictError](err); refused {
		return now, false, nil
	}
	if err != nil {
		return now, false, err
	}
	a.note(s, now)
	return now, true, nil
}

// activate makes a source active that has a trigger with the given sequence.
func (a *activity) activate(ctx context.Context, s source, seq uint64) error {
	for {
		r, err := a.look(ctx, s)
		if err != nil {
			return err
		}
		if r.State == active && r.After < seq {
			return nil
		}
		// A stream that was made again begins with 1 again.
		now := activityRecord{State: active, After: min(r.After, seq-1)}
		began := time.Now()
		if _, done, err := a.change(ctx, s, r, now); done {
			a.confirm(s, began)
		} else if err != nil {
			return err
		}
	}
}

// take takes a delivery of the consumer "activations". Certain says that the
// delivery may be acknowledged: the record was active less than confirmedFor
// ago, so any check that makes the source dormant comes later and sees the
// trigger. Otherwise the delivery waits for a read of the record. First says
// that no goroutine handles the waiting deliveries of the source. The caller
// then sees to it (activateWaiting).
func (a *activity) take(s source, d *bus.Delivery, now time.Time) (certain, first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if l := a.local[s]; l != nil {
		l.used = now
		pause.Notify(l.poll)
		if r := a.records[s]; r.After < d.Seq && pause.Elapsed(l.confirmed, now) < confirmedFor {
			return true, false
		}
	}
	all, others := a.waiting[s]
	a.waiting[s] = append(all, d)
	return false, !others
}

// confirmedFor is the time after a read of an active record for which a worker
// acknowledges activations without another read. It has to be shorter than
// leaveDelay.
const confirmedFor = leaveDelay / 2

// takeWaiting returns the deliveries that wait for a source's record. After it
// has returned none, the next delivery that has to wait is the first again.
func (a *activity) takeWaiting(s source) []*bus.Delivery {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.waiting[s]
	if len(all) == 0 {
		delete(a.waiting, s)
	} else {
		a.waiting[s] = nil
	}
	return all
}

// maxActivations is the largest number of sources that a worker makes active at
// a time.
const maxActivations = 64

// activationsPerRequest is the number of messages that a request for
// activations asks for.
const activationsPerRequest = 256

// serveActivations makes the sources of a partition active that have a trigger,
// those of other workers' agents too. The server delivers each trigger to one
// of the workers with many agents, without its body.
func (w activeAgents) serveActivations(ctx, work context.Context, partition int) {
	c := bus.ConsumerConfig{
		Stream: "RUNS", Partition: partition, Name: "activations", Filters: w.conn.Space().Triggers(),
		HeadersOnly: true,
	}
	w.withFeed(ctx, w.opens(c), func() int { return activationsPerRequest }, func(feed *bus.Feed) error {
		d, err := feed.Next(ctx)
		if d != nil {
			w.activation(ctx, work, d)
		}
		return err
	})
}

// activation handles a trigger that shows that its source has work.
func (w activeAgents) activation(ctx, work context.Context, d *bus.Delivery) {
	at, err := w.conn.Space().Parse(d.Subject)
	if err != nil {
		ack(work, w.Worker, d) // the source's own consumer drops it
		return
	}
	s := source{at.Run.Agent, at.Run.Partition()}
	certain, first := w.activity.take(s, d, time.Now())
	switch {
	case certain:
		ack(work, w.Worker, d)
	case first:
		select {
		case w.activating <- struct{}{}:
		case <-ctx.Done():
			// The deliveries go to another worker.
			w.releaseActivations(work, s)
			return
		}
		w.handlers.Go(func() {
			defer func() { <-w.activating }()
			w.activateWaiting(work, s)
		})
	}
}

// releaseActivations gives back the deliveries that wait for a source.
func (w activeAgents) releaseActivations(ctx context.Context, s source) {
	for all := w.activity.takeWaiting(s); len(all) > 0; all = w.activity.takeWaiting(s) {
		for _, d := range all {
			w.giveBack(ctx, d, 0)
		}
	}
}

// activateWaiting makes a source active, and acknowledges the deliveries that
// wait for that.
func (w activeAgents) activateWaiting(ctx context.Context, s source) {
	for batch := w.activity.takeWaiting(s); len(batch) > 0; batch = w.activity.takeWaiting(s) {
		least := slices.MinFunc(batch, func(x, y *bus.Delivery) int { return cmp.Compare(x.Seq, y.Seq) })
		err := w.activity.activate(ctx, s, least.Seq)
		if err != nil {
			w.log.WarnContext(ctx, "agent not made active", slog.String(keyAgent, s.agent.String()),
				slog.Any(keyError, err))
		}
		for _, d := range batch {
			if err == nil {
				ack(ctx, w.Worker, d)
			} else {
				w.giveBack(ctx, d, busRetryDelay)
			}
		}
	}
}

// loadActivity reads all records, and makes those sources active that have a
// consumer and no record: a person may have removed the bucket.
func (w activeAgents) loadActivity(ctx context.Context) error {
	if err := w.activity.load(ctx); err != nil {
		return err
	}
	for partition := range w.conn.Space().Partitions() {
		if err := w.adopt(ctx, partition); err != nil {
			return err
		}
	}
	return nil
}

// adopt makes the sources of this worker's agents active that have a consumer
// and no record. Their consumers were made by workers that pulled for all their
// agents, or before the bucket was removed. They may have work that was
// delivered to "activations" long ago.
func (w activeAgents) adopt(ctx context.Context, partition int) error {
	names, err := w.consumers().ConsumerNames(ctx, partition)
	if err != nil {
		return err
	}
	found := map[source]bool{}
	known := w.activity.activeSources()
	for _, name := range names {
		name, ok := strings.CutPrefix(name, "agent_")
		if !ok {
			continue
		}
		for _, name := range []string{name, strings.TrimSuffix(name, inboundSuffix)} {
			if agent, err := subjects.ParseAgent(name); err == nil {
				s := source{agent, partition}
				if served, _, _ := w.agents.status(agent); served && !slices.Contains(known, s) {
					found[s] = true
				}
			}
		}
	}
	return each(ctx, slices.Collect(maps.Keys(found)), func(ctx context.Context, s source) error {
		r, err := w.activity.look(ctx, s)
		if err != nil || r.rev > 0 {
			return err
		}
		_, _, err = w.activity.change(ctx, s, r, activityRecord{State: active})
		return err
	})
}
