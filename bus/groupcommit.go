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
	// sendAfter is the longest time for which a write waits to be sent. A
	// server that is well has stored a group long before. One that has just
	// lost the lead of a stream does not answer the group.
	sendAfter = 500 * time.Millisecond
)

// groupCommit stores writes of one stream together, if several of them wait at
// the same time. A server that syncs each write syncs one after the other. It
// syncs a group once. The format of a group is that of the server's atomic
// batches (ADR-50 of nats-io): the server refuses all of its messages or none.
// If the server fails while it stores them, it may store some and not answer.
type groupCommit struct {
	conn *Conn
	// rtt is the round trip to the server, in which it stored nothing.
	rtt time.Duration
	// sendAfter is sendAfter, and another time in tests.
	sendAfter time.Duration

	mu sync.Mutex
	// alone is the number of writes under way that are in no group.
	alone int
	// storing is the time at which the group under way began; zero: none is.
	storing time.Time
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
		if !g.conn.Health.isConfirmed() {
			return jetstream.PubAck{}, errUnconfirmed
		}
		return g.conn.once(ctx, msg)
	}
	err = cmp.Or(err, turn.err)
	g.conn.cfg.observe(OpWrite, msg.Subject, began, err)
	return turn.ack, err
}

// newGroupCommit makes a group commit for a stream at a round trip from here.
func newGroupCommit(c *Conn, rtt time.Duration) *groupCommit {
	return &groupCommit{conn: c, rtt: rtt, sendAfter: sendAfter}
}

// wait waits until a write is told how it goes on, and sends it alone if that
// takes too long. Meanwhile the write is a request without an answer, and ends
// as one.
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
	overdue := time.NewTimer(g.sendAfter)
	defer overdue.Stop()
	for {
		select {
		case turn := <-w.turn:
			return turn, nil
		case <-overdue.C:
			g.send(ctx, w)
		case <-ctx.Done():
			g.leave(ctx, w)
			return writeTurn{}, r.reason(ctx.Err())
		}
	}
}

// send lets a write that still waits go on, with others or alone.
func (g *groupCommit) send(ctx context.Context, w *groupedWrite) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next(ctx)
	if i := slices.Index(g.waiting, w); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
		g.alone++
		w.turn <- writeTurn{alone: true}
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
// While a group is under way they wait for the next one, unless the group takes
// too long. The caller holds the lock.
func (g *groupCommit) next(ctx context.Context) {
	if time.Since(g.storing) < g.sendAfter {
		return
	}
	from, pays := g.conn.cfg.GroupFrom, g.pays()
	if pays && len(g.waiting) >= max(2, from) {
		n := fitting(messages(g.waiting))
		group := slices.Clone(g.waiting[:n])
		g.waiting = slices.Delete(g.waiting, 0, n)
		g.storing = time.Now()
		go g.storeGroup(context.WithoutCancel(ctx), group, g.storing)
		return
	}
	for len(g.waiting) > 0 && (!pays || g.alone < from) {
		g.alone++
		g.waiting[0].turn <- writeTurn{alone: true}
		g.waiting = slices.Delete(g.waiting, 0, 1)
	}
}

// pays reports whether writes are to wait for each other. A server that syncs
// answers late to a reading of its clock, so the round trip may be that of the
// first request. The caller holds the lock.
func (g *groupCommit) pays() bool {
	_, half := g.conn.Clocks.Offset()
	return min(g.rtt, 2*half) < farServer && time.Since(g.refused) >= regroupDelay
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

// storeGroup stores a group and tells its writes the results. If the group is
// refused, which may be due to one of them, each goes on alone.
func (g *groupCommit) storeGroup(ctx context.Context, group []*groupedWrite, began time.Time) {
	last, err := uint64(0), errUnconfirmed
	if g.conn.Health.isConfirmed() {
		last, err = storeBatch(ctx, g.conn, messages(group))
	}
	refused := isRefused(err)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.storing.Equal(began) {
		g.storing = time.Time{}
	}
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

// isRefused reports whether the error of a group says that one of its messages
// cannot be stored with the others.
func isRefused(err error) bool {
	_, answered := errors.AsType[*jetstream.APIError](err)
	return answered || unsendable(err)
}

// storeBatch stores messages of one stream in an atomic batch, and returns the
// sequence of the last one. Those of the others come before it, one after the
// other. It tries once. The server does not answer if the last message is
// forbidden, and refuses the batch if another one is.
func storeBatch(ctx context.Context, c *Conn, ms []*nats.Msg) (last uint64, _ error) {
	ctx, r := c.inflight.begin(ctx, ms[len(ms)-1].Subject)
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
	if g == nil || slices.Contains(ms, nil) {
		return 0
	}
	for rest := ms; len(rest) >= max(2, g.conn.cfg.GroupFrom); rest = ms[stored:] {
		if !g.conn.Health.isConfirmed() {
			return stored
		}
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
