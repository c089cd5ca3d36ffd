package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// DeadLetter is the copy of a message that could not be carried out.
type DeadLetter struct {
	// ID is unique over all partitions.
	ID uint64
	// Time is the time at which a worker gave the message up.
	Time time.Time
	// Reason says why the message was given up.
	Reason string
	// Subject is the subject of the original message.
	Subject string
	// Seq is the original message's sequence in its stream.
	Seq uint64
	// Body is the body of the original message.
	Body []byte
	// Run is the run of the message. It is zero for a submission without a
	// valid agent name or id.
	Run subjects.Run
}

// DeadLetters lists the dead letters, the oldest first.
func (c *Client) DeadLetters(ctx context.Context) ([]DeadLetter, error) {
	if err := c.conn.Provisioned(ctx); err != nil {
		return nil, err
	}
	ms, err := c.conn.ReadByScan(ctx, c.conn.Space().Dead(), 0)
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	ms = slices.DeleteFunc(ms, bus.Stored.IsAnswer)
	letters := make([]DeadLetter, len(ms))
	for i, m := range ms {
		if letters[i], err = c.decodeDeadLetter(ctx, m); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(letters, func(a, b DeadLetter) int { return a.Time.Compare(b.Time) })
	return letters, nil
}

// DeadLetter reads the dead letter with an id. The error is
// ErrUnknownDeadLetter if there is none.
func (c *Client) DeadLetter(ctx context.Context, id uint64) (DeadLetter, error) {
	all, err := c.DeadLetters(ctx)
	if err != nil {
		return DeadLetter{}, err
	}
	for _, l := range all {
		if l.ID == id {
			return l, nil
		}
	}
	return DeadLetter{}, fmt.Errorf("%w: %d", ErrUnknownDeadLetter, id)
}

func (c *Client) decodeDeadLetter(ctx context.Context, m bus.Stored) (DeadLetter, error) {
	space := c.conn.Space()
	p, _ := space.PartitionIn(m.Subject)
	l := DeadLetter{
		ID: m.Seq*uint64(space.Partitions()) + uint64(p), Time: m.Time, Reason: m.Header.Get("Axe-Reason"),
		Subject: m.Header.Get("Axe-Subject"),
	}
	l.Seq, _ = strconv.ParseUint(m.Header.Get("Axe-Sequence"), 10, 64)
	if at, err := space.Parse(l.Subject); err == nil {
		l.Run = at.Run
	}
	body, err := c.conn.Load(ctx, m)
	if errors.Is(err, bus.ErrObjectGone) || errors.Is(err, bus.ErrTooLarge) {
		// Any submitter can write such a reference. It must not hide
		// the other dead letters.
		body, err = m.Body, nil
	}
	if err != nil {
		return DeadLetter{}, fmt.Errorf("dead letter %d: %w", l.ID, err)
	}
	l.Body = body
	return l, nil
}

// OriginalCall returns the input and the budget of a dead letter's run, as its
// call says. Ok is false if the call is gone or cannot be read.
func (c *Client) OriginalCall(
	ctx context.Context, l DeadLetter,
) (in run.Input, budget subjects.Budget, ok bool, err error) {
	if l.Run.Agent.IsZero() {
		return in, budget, false, nil
	}
	m, call, ok, err := c.readCall(ctx, l.Run)
	if err != nil {
		return in, budget, false, fmt.Errorf("dead letter %d: %w", l.ID, err)
	}
	scopes, _ := subjects.ParseScopes(m.Header.Get(subjects.HeaderLimits), l.Run.Path)
	return call.Input, subjects.Narrowest(scopes), ok && call.Malformed == nil, nil
}

// RetryTree returns the id of the tree that retries the dead letter's task. It
// is always the same id, so that several retries make one tree.
func (l DeadLetter) RetryTree() subjects.Tree {
	return TreeID(fmt.Sprintf("dead letter %d of %s", l.ID, l.Time.UTC().Format(time.RFC3339Nano)))
}

// Retried reports whether the task of a dead letter was submitted again.
func (c *Client) Retried(ctx context.Context, l DeadLetter) (bool, error) {
	f, err := c.lookup(ctx, l.RetryTree())
	return !f.root.Agent.IsZero(), err
}
