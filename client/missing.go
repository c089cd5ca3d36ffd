package client

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

// maxLookInterval is the longest time between two looks for the root of a tree
// that a client waits for.
const maxLookInterval = 30 * time.Second

// missing finds out that a tree that a client waits for gets no outcome: its
// messages were removed, or it is past its deadline. It looks for the root's
// call at growing intervals, since the call may hold a long task.
type missing struct {
	c    *Client
	root subjects.Run
	// begun says that the root's call was seen, stored or live.
	begun atomic.Bool
	// next is the time of the next look, and interval the time from that
	// look to the one after it.
	next     time.Time
	interval time.Duration

	// from is the message that gives the tree its deadline: the root's call,
	// or the submission. The deadline is a time of the clock of that
	// message's stream. It is zero if it is not known.
	from     bus.Stored
	clock    *bus.Clock
	deadline time.Time
}

// newMissing makes a missing for a wait that lasts until ctx ends.
func newMissing(ctx context.Context, c *Client, f found) (*missing, error) {
	m := &missing{c: c, root: f.root, interval: pollInterval}
	if f.call != 0 {
		m.begun.Store(true)
		m.next = time.Now().Add(pollInterval)
		return m, nil
	}
	// Between two looks a worker may take the task, and a person remove it.
	return m, c.conn.Watch(ctx, f.root.Space.Live(f.root.Call()), func(bus.Stored) { m.begun.Store(true) })
}

// check returns ErrRemoved, ErrNeverTaken or ErrOverdue for a tree that gets no
// outcome. The caller has found no outcome just now.
func (m *missing) check(ctx context.Context) error {
	if !time.Now().Before(m.next) {
		if err := m.look(ctx); err != nil {
			return err
		}
		m.next = time.Now().Add(m.interval)
		m.interval = min(2*m.interval, maxLookInterval)
	}
	return m.overdue(ctx)
}

// look reads the root's call or, before a worker has taken the task, the
// submission.
func (m *missing) look(ctx context.Context) error {
	conn := m.c.conn
	space := conn.Space()
	call, ok, err := bus.FirstMessage(ctx, conn, m.root.Call())
	if err != nil {
		return err
	}
	if ok {
		m.begun.Store(true)
		deadline, _ := subjects.ParseDeadline(call.Header.Get(subjects.HeaderDeadline))
		m.dated(call, conn.Clocks.Of(m.root), deadline)
		return nil
	}
	if !m.begun.Load() {
		submission, ok, err := conn.QueuedSubmission(ctx, m.root.AnySubmit()...)
		if err != nil && !errors.Is(err, bus.ErrNoStream) {
			return err
		}
		if ok {
			timeout, err := subjects.ParseTimeout(submission.Header.Get(subjects.HeaderTimeout))
			if err == nil {
				m.dated(submission, conn.Clocks.Submissions(), submission.Time.Add(timeout))
			}
			return nil
		}
	}
	// The server that has read may lag behind the leader. A worker stores the
	// call before it removes the submission.
	for _, subject := range []string{m.root.Call(), space.Result(m.root.Agent, m.root.Tree)} {
		if seq, err := conn.LastSeq(ctx, subject); err != nil || seq > 0 {
			return err
		}
	}
	if m.begun.Load() {
		return fmt.Errorf("%w: %s", ErrRemoved, m.root.Tree)
	}
	return fmt.Errorf("%w: %s", ErrNeverTaken, m.root.Tree)
}

// dated notes a deadline that a message names.
func (m *missing) dated(from bus.Stored, clock *bus.Clock, deadline time.Time) {
	m.from, m.from.Body = from, nil
	m.clock, m.deadline = clock, deadline
}

// overdue returns ErrOverdue for a tree that has no outcome deadlineGrace after
// its deadline.
func (m *missing) overdue(ctx context.Context) error {
	if m.deadline.IsZero() {
		return nil
	}
	if passed, err := m.clock.Passed(ctx, m.end()); err != nil || !passed {
		return err
	}
	// The server's clock may have been set before this process began.
	_ = presence.LearnClockSteps(ctx, m.c.conn) // without workers there is nothing to learn
	if m.clock.Now().Before(m.end()) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrOverdue, m.root.Tree)
}

// end is the time at which the wait ends, on the present clock.
func (m *missing) end() time.Time { return m.deadline.Add(m.clock.Shift(m.from) + deadlineGrace) }
