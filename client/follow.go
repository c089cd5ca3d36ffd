package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

const (
	// hintDelay collects hints before a read, so that one read covers the
	// messages of a wide tree.
	hintDelay = 20 * time.Millisecond
	// maxLive bounds the live events that wait for the caller. Beyond it
	// live events are dropped.
	maxLive = 256
)

// Follow calls fn for every event of a tree, from its beginning, until the tree
// has ended or ctx ends. The caller's goroutine calls fn.
//
// Events of stored messages come in stream order, each once, with the state of
// the run at that point of the stream. So it makes no difference when a program
// begins to follow a tree. TreeEnded is the last. Held, Approved and Denied
// follow the event that decides. Live events come between them as they arrive,
// and may be lost; they can be older than the state. Malformed mail, approvals,
// settlements and log entries have no event. The errors are those of Wait.
func (c *Client) Follow(ctx context.Context, tree subjects.Tree, fn func(Event)) error {
	return c.follow(ctx, tree, fn, func(t *tail) (bool, error) { return t.ended, nil })
}

// follow is Follow until done reports true. It calls done after each read.
func (c *Client) follow(
	ctx context.Context, tree subjects.Tree, fn func(Event), done func(*tail) (bool, error),
) error {
	f, err := c.find(ctx, tree)
	if err != nil {
		return err
	}
	t := &tail{
		c: c, root: f.root, hints: newHints(), live: make(chan Event, maxLive), fn: fn,
		stalls: newStalls(presence.New(c.conn)),
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := t.watch(ctx); err != nil {
		return err
	}
	if t.missing, err = newMissing(ctx, c, f); err != nil {
		return err
	}
	for {
		if err := t.read(ctx); err != nil {
			return err
		}
		if over, err := done(t); err != nil || over {
			return err
		}
		if !t.ended {
			if err := t.missing.check(ctx); err != nil {
				return err
			}
		}
		if err := t.wait(ctx); err != nil {
			return err
		}
	}
}

// tail is a follower's place in a tree.
type tail struct {
	c    *Client
	root subjects.Run
	fn   func(Event)
	// missing finds out that the tree gets no outcome.
	missing *missing

	// hints says that a message was stored.
	hints hints
	live  chan Event

	// called reports whether the root's call was found.
	called bool
	// seq is the sequence of the last message read.
	seq  uint64
	fold Fold
	// ended reports whether the root's outcome was read.
	ended  bool
	stalls stalls
}

// watch subscribes to the live copies of the tree's messages and to live
// events, until ctx ends.
func (t *tail) watch(ctx context.Context) error {
	space := t.root.Space
	conn := t.c.conn
	return errors.Join(
		conn.Watch(ctx, space.Live(space.TreeOf(t.root.Tree)), t.hints.add),
		conn.Watch(ctx, space.Live(space.Result(t.root.Agent, t.root.Tree)), t.hints.add),
		conn.Watch(ctx, space.PartsOf(t.root.Tree), t.addLive),
	)
}

// addLive queues a live event, or drops it if the caller is too slow.
func (t *tail) addLive(m bus.Stored) {
	if e, ok := decodeProgress(t.root.Space, m); ok {
		if !e.Progress.Next.IsZero() {
			e.Progress.Next = e.Progress.Next.Add(t.c.toLocalClock())
		}
		select {
		case t.live <- e:
		default:
		}
	}
}

// read passes the events of new messages to fn. It reads the root's outcome
// first, so that everything stored before the outcome comes before TreeEnded.
func (t *tail) read(ctx context.Context) error {
	var outcome []bus.Stored
	if !t.ended {
		m, ok, err := t.c.readResult(ctx, t.root)
		if err != nil {
			return err
		}
		if ok {
			t.ended = true
			outcome = append(outcome, m)
		}
	}
	ms, err := t.readNew(ctx)
	if err != nil {
		return err
	}
	ms = append(ms, outcome...)
	for i, m := range ms {
		if err := t.apply(ctx, m, ms[i+1:]); err != nil {
			return err
		}
	}
	return nil
}

// apply folds one message and passes its events to fn. Later are the messages
// after it, as far as they were read. It ignores a message that no worker can
// read either.
func (t *tail) apply(ctx context.Context, m bus.Stored, later []bus.Stored) error {
	at, err := t.root.Space.Parse(m.Subject)
	if err != nil {
		return nil //nolint:nilerr // not a message of a run
	}
	body, err := t.c.runs.Load(ctx, m)
	if err != nil {
		return fmt.Errorf("%s: %w", m.Subject, err)
	}
	origin := m.Origin()
	meta := run.Meta{
		Seq: origin.Seq, Time: origin.Time, Shift: t.c.toLocalClock(), Imported: m.IsImported(),
		Answer: m.IsAnswer(),
	}
	if !m.ProvesSender() {
		at.By = subjects.By{}
	}
	message, err := run.Decode(at, meta, body)
	if err != nil || message == nil {
		return nil //nolint:nilerr // malformed: it has no event
	}
	if message, err = t.c.runs.Judge(ctx, t.fold.State(at.Run.Path), message, m, later); err != nil {
		return err
	}
	delete(t.stalls.asking, at.Run.Path) // the request is over, or out of date
	for _, e := range t.fold.Apply(at, meta, message) {
		if e.Kind == Called {
			e.Traceparent = m.Header.Get(subjects.HeaderTraceparent)
			deadline, err := subjects.ParseDeadline(m.Header.Get(subjects.HeaderDeadline))
			if err == nil {
				e.Deadline = deadline.Add(meta.Shift)
			}
			e.due = newDue(m, deadline)
		}
		t.fn(e)
	}
	return nil
}

// clockTolerance is the difference between the clocks of the server and of this
// machine that a view does not correct.
const clockTolerance = time.Second

// toLocalClock is the duration by which a time of the server is moved to become
// a time of this machine's clock. A view shows how long ago something happened.
func (c *Client) toLocalClock() time.Duration {
	offset, bound := c.conn.Clocks.Offset()
	if offset.Abs() <= clockTolerance+bound {
		return 0
	}
	return -offset
}

// readNew reads the new messages of the tree. After the root's outcome it reads
// everything that the stream's leader has: the server that answers the next
// read may lag behind the server that had the outcome.
func (t *tail) readNew(ctx context.Context) (ms []bus.Stored, err error) {
	tree := t.root.Space.TreeOf(t.root.Tree)
	var minSeq uint64
	if t.ended && t.c.conn.Replicas() > 1 {
		if minSeq, err = t.c.conn.LastSeq(ctx, tree); err != nil {
			return nil, err
		}
	}
	if !t.called {
		if ms, err = t.begin(ctx); err != nil || !t.called && minSeq == 0 {
			return nil, err
		}
	}
	if t.fold.seq == 0 {
		// The tree may be old. A scan would go through all messages since.
		whole, err := bus.ReadWhole(ctx, t.c.conn, tree)
		if err != nil {
			return nil, err
		}
		ms = append(ms, slices.DeleteFunc(whole, func(m bus.Stored) bool { return m.Seq <= t.seq })...)
		for _, m := range ms {
			t.seq = max(t.seq, m.Seq)
		}
	}
	all, err := t.c.conn.ScanUntil(ctx, tree, t.seq, minSeq)
	for _, m := range all {
		t.seq = max(t.seq, m.Seq)
	}
	return append(ms, all...), err
}

// begin places the tail before the root's call, if there is one. It returns a
// cancel message that was stored before the call, and the records of its
// senders. No other message before the call belongs to the tree.
func (t *tail) begin(ctx context.Context) ([]bus.Stored, error) {
	call, called, err := bus.FirstMessage(ctx, t.c.conn, t.root.Call())
	if err != nil || !called {
		return nil, err
	}
	cancel, cancelled, err := bus.FirstMessage(ctx, t.c.conn, t.root.Cancel())
	if err != nil {
		return nil, err
	}
	t.called = true
	t.seq = call.Seq - 1
	if !cancelled || cancel.Seq >= call.Seq {
		return nil, nil
	}
	records, err := bus.MessagePerSubject(ctx, t.c.conn, t.root.CancelSenders())
	before := slices.DeleteFunc(append(records, cancel), func(m bus.Stored) bool { return m.Seq >= call.Seq })
	return bus.InOrder(before), err
}

// wait returns when there may be something to read. Meanwhile it passes live
// events to fn, and looks for runs without a worker.
func (t *tail) wait(ctx context.Context) error {
	silence := time.NewTimer(t.c.interval())
	defer silence.Stop()
	check := time.NewTimer(time.Until(t.stalls.next))
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e := <-t.live:
			e.State = t.fold.State(e.Run.Path)
			t.stalls.asking[e.Run.Path] = e.Worker
			t.fn(e)
		case <-check.C:
			t.checkStalls(ctx)
			check.Reset(time.Until(t.stalls.next))
		case <-t.hints:
			return pause.For(ctx, hintDelay)
		case <-silence.C:
			return nil
		}
	}
}
