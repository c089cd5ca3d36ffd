package bus

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// DefaultGroupFrom is the default of Config.GroupFrom. A server needs as
	// long for a group of some ten messages as it needs to sync each of them.
	DefaultGroupFrom = 16
	// mostGrouped is the largest number of messages of a group. A server
	// takes at most 1,000.
	mostGrouped = 256
	// mostGroupedBytes is the size of bodies from which on a group is full.
	mostGroupedBytes = 1 << 20
	// regroupDelay is the time without groups after the server has refused
	// one.
	regroupDelay = 100 * time.Millisecond
	// farServer is the round trip from which on no write waits for others.
	// It would wait for the round trip of a group before its own.
	farServer = 20 * time.Millisecond
)

// groupCommit stores writes of one stream together, if several of them wait at
// the same time. A server that syncs each write syncs one after the other. It
// syncs a group once. The format of a group is that of the server's atomic
// batches (ADR-50 of nats-io): the server stores all of its messages or none.
type groupCommit struct {
	conn *Conn

	mu sync.Mutex
	// alone is the number of writes under way that are in no group.
	alone int
	// storing says that a group is under way.
	storing bool
	// waiting are the writes that are not under way, the oldest first.
	waiting []*groupedWrite
	// refused is the time of the last group that the server refused.
	refused time.Time
}

// groupedWrite is a write that waits until it is told how it goes on.
type groupedWrite struct {
	msg *nats.Msg
	// turn receives one value, unless the write has left.
	turn chan writeTurn
	// left says that the write has ended without waiting for its turn. The
	// lock of the groupCommit guards it.
	left bool
}

// writeTurn tells a write that it is under way alone, or the result of its
// group.
type writeTurn struct {
	alone bool
	ack   jetstream.PubAck
	err   error
}

// store stores a message, alone or in a group. Like Conn.once, it tries once.
func (g *groupCommit) store(ctx context.Context, msg *nats.Msg) (jetstream.PubAck, error) {
	began := time.Now()
	turn, err := g.wait(ctx, msg)
	if err == nil && turn.alone {
		defer g.ended(ctx)
		return g.conn.once(ctx, msg)
	}
	err = cmp.Or(err, turn.err)
	g.conn.cfg.observe(OpWrite, msg.Subject, began, err)
	return turn.ack, err
}

// wait waits until a write is told how it goes on. Meanwhile the write is a
// request without an answer, and ends as one.
func (g *groupCommit) wait(ctx context.Context, msg *nats.Msg) (writeTurn, error) {
	w := &groupedWrite{msg: msg, turn: make(chan writeTurn, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	g.next(ctx)
	g.mu.Unlock()
	select {
	case turn := <-w.turn:
		return turn, nil
	default:
	}
	ctx, r := g.conn.inflight.begin(ctx, msg.Subject)
	defer r.done()
	select {
	case turn := <-w.turn:
		return turn, nil
	case <-ctx.Done():
		g.leave(ctx, w)
		return writeTurn{}, r.reason(ctx.Err())
	}
}

// leave ends the wait of a write.
func (g *groupCommit) leave(ctx context.Context, w *groupedWrite) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.left = true
	g.waiting = slices.DeleteFunc(g.waiting, func(other *groupedWrite) bool { return other == w })
	select {
	case turn := <-w.turn:
		if turn.alone {
			g.alone--
			g.next(ctx)
		}
	default:
	}
}

// ended ends a write that was under way alone.
func (g *groupCommit) ended(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.alone--
	g.next(ctx)
}

// next lets the waiting writes go on, as a group if there are enough of them.
// While a group is under way they wait for the next one. The caller holds the
// lock.
func (g *groupCommit) next(ctx context.Context) {
	if g.storing {
		return
	}
	from, pays := g.conn.cfg.GroupFrom, g.pays()
	if pays && len(g.waiting) >= max(2, from) {
		n := fitting(messages(g.waiting))
		group := slices.Clone(g.waiting[:n])
		g.waiting = slices.Delete(g.waiting, 0, n)
		g.storing = true
		go g.storeGroup(context.WithoutCancel(ctx), group)
		return
	}
	for len(g.waiting) > 0 && (!pays || g.alone < from) {
		g.alone++
		g.waiting[0].turn <- writeTurn{alone: true}
		g.waiting = slices.Delete(g.waiting, 0, 1)
	}
}

// pays reports whether writes are to wait for each other. The caller holds the
// lock.
func (g *groupCommit) pays() bool {
	_, half := g.conn.Clocks.Offset()
	return 2*half < farServer && time.Since(g.refused) >= regroupDelay
}

// messages returns the messages of the first writes, as many as a group may
// have.
func messages(writes []*groupedWrite) (all []*nats.Msg) {
	for _, w := range writes[:min(len(writes), mostGrouped)] {
		all = append(all, w.msg)
	}
	return all
}

// fitting returns how many of the first messages fit into a group.
func fitting(ms []*nats.Msg) int {
	bytes := 0
	for n, m := range ms[:min(len(ms), mostGrouped)] {
		if bytes += len(m.Data); bytes > mostGroupedBytes && n >= 2 {
			return n
		}
	}
	return min(len(ms), mostGrouped)
}

// storeGroup stores a group and tells its writes the results. If the server
// refuses the group, which may be due to one of them, each goes on alone.
func (g *groupCommit) storeGroup(ctx context.Context, group []*groupedWrite) {
	last, err := storeBatch(ctx, g.conn, messages(group))
	_, refused := errors.AsType[*jetstream.APIError](err)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.storing = false
	if refused {
		g.refused = time.Now()
	}
	for i, w := range group {
		if w.left {
			continue
		}
		if refused {
			g.alone++
		}
		w.turn <- writeTurn{
			alone: refused, err: err,
			ack: jetstream.PubAck{Sequence: last - uint64(len(group)-1-i)},
		}
	}
	g.next(ctx)
}

// storeBatch stores messages of one stream in an atomic batch, and returns the
// sequence of the last one. Those of the others come before it, one after the
// other. It tries once.
func storeBatch(ctx context.Context, c *Conn, ms []*nats.Msg) (last uint64, _ error) {
	ctx, r := c.inflight.begin(ctx, ms[0].Subject)
	defer r.done()
	id := NewID()
	for i, m := range ms[:len(ms)-1] {
		if err := c.nc.PublishMsg(inBatch(m, id, i+1)); err != nil {
			return 0, err
		}
	}
	m := inBatch(ms[len(ms)-1], id, len(ms))
	m.Header.Set("Nats-Batch-Commit", "1")
	answer, err := c.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, r.reason(err)
	}
	ack, err := readAck(answer.Data)
	return ack.Sequence, err
}

// inBatch returns a copy of a message as the n-th one of an atomic batch.
func inBatch(m *nats.Msg, id string, n int) *nats.Msg {
	in := nats.NewMsg(m.Subject)
	in.Data = m.Data
	maps.Copy(in.Header, m.Header)
	in.Header.Set("Nats-Batch-Id", id)
	in.Header.Set("Nats-Batch-Sequence", strconv.Itoa(n))
	return in
}

// groupFor returns the group commit that stores messages in groups of their
// own, nil if they are too few for a group or not of one stream.
func groupFor(c *Conn, ms []Message) *groupCommit {
	if len(ms) < max(2, c.cfg.GroupFrom) {
		return nil
	}
	streams := c.streams.Load()
	g := streams.commitOf(ms[0].Subject)
	if g == nil || slices.ContainsFunc(ms, func(m Message) bool { return streams.commitOf(m.Subject) != g }) {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.pays() {
		return nil
	}
	return g
}

// storeAll stores messages in groups of their own, as far as the server takes
// the groups. It returns the number of messages that are stored, which are the
// first ones. It stores none if one is missing, and with a nil receiver.
func (g *groupCommit) storeAll(ctx context.Context, ms []*nats.Msg) (stored int) {
	if g == nil || slices.Contains(ms, nil) || !g.conn.Health.isConfirmed() {
		return 0
	}
	for rest := ms; len(rest) >= max(2, g.conn.cfg.GroupFrom); rest = ms[stored:] {
		group := rest[:fitting(rest)]
		began := time.Now()
		if _, err := storeBatch(ctx, g.conn, group); err != nil {
			return stored
		}
		for _, m := range group {
			g.conn.cfg.observe(OpWrite, m.Subject, began, nil)
			g.conn.Health.stored(m.Subject)
		}
		stored += len(group)
	}
	return stored
}
