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

	// due is the deadline of the tree, by the root's call or by the
	// submission. Clock is that of the message's stream.
	due   due
	clock *bus.Clock
}

// due is the deadline that a message names, a time of the message's stream.
type due struct {
	// from is the message without its body.
	from bus.Stored
	// at is zero if the deadline is not known.
	at time.Time
}

// newDue makes a due of a message and the deadline that it names.
func newDue(from bus.Stored, deadline time.Time) due {
	from.Body = nil
	return due{from, deadline}
}

// end is the time at which a wait ends, on the present clock of the stream.
func (d due) end(clock *bus.Clock) time.Time { return d.at.Add(clock.Shift(d.from) + deadlineGrace) }

// passed reports whether the end of a wait has passed. It asks for the end a
// second time when it has learned the steps of the clock.
func passed(ctx context.Context, c *Client, clock *bus.Clock, end func() time.Time) (bool, error) {
	if passed, err := clock.Passed(ctx, end()); err != nil || !passed {
		return false, err
	}
	// The server's clock may have been set before this process began.
	_ = presence.LearnClockSteps(ctx, c.conn) // without workers there is nothing to learn
	return !clock.Now().Before(end()), nil
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
		m.due, m.clock = newDue(call, deadline), conn.Clocks.Of(m.root)
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
				m.due, m.clock = newDue(submission, submission.Time.Add(timeout)), conn.Clocks.Submissions()
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

// overdue returns ErrOverdue for a tree that has no outcome deadlineGrace after
// its deadline.
func (m *missing) overdue(ctx context.Context) error {
	if m.due.at.IsZero() {
		return nil
	}
	over, err := passed(ctx, m.c, m.clock, func() time.Time { return m.due.end(m.clock) })
	if err != nil || !over {
		return err
	}
	return fmt.Errorf("%w: %s", ErrOverdue, m.root.Tree)
}
