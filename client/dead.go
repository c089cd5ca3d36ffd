package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// DeadLetter is a dead letter: a copy of a message that could not be carried out.
type DeadLetter struct {
	// its sequence in its stream; with partitions, that times their number,
	// and its own
	ID      uint64
	Time    time.Time // when it was given up
	Reason  string    // why
	Subject string    // of the message
	// of the message, in its own stream
	Seq  uint64
	Body []byte // of the message
	// zero for a submission without a usable name or id
	Run subjects.Run
}

// ErrUnknownLetter says that there is no dead letter of an id.
var ErrUnknownLetter = errors.New("no such dead letter")

// Dead lists the dead letters, the oldest first.
func (c *Client) Dead(ctx context.Context) ([]DeadLetter, error) {
	if err := c.conn.Provisioned(ctx); err != nil {
		return nil, err
	}
	ms, err := c.conn.ReadByScan(ctx, c.conn.Space().Dead(), 0)
	if err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	letters := make([]DeadLetter, len(ms))
	for i, m := range ms {
		if letters[i], err = c.letter(ctx, m); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(letters, func(a, b DeadLetter) int { return a.Time.Compare(b.Time) })
	return letters, nil
}

// DeadLetter reads one; the error is ErrUnknownLetter if there is none.
func (c *Client) DeadLetter(ctx context.Context, id uint64) (DeadLetter, error) {
	all, err := c.Dead(ctx)
	if err != nil {
		return DeadLetter{}, err
	}
	for _, l := range all {
		if l.ID == id {
			return l, nil
		}
	}
	return DeadLetter{}, fmt.Errorf("%w: %d", ErrUnknownLetter, id)
}

func (c *Client) letter(ctx context.Context, m bus.Stored) (DeadLetter, error) {
	l := DeadLetter{
		ID:      c.letterID(m),
		Time:    m.Time,
		Reason:  m.Header.Get("Axe-Reason"),
		Subject: m.Header.Get("Axe-Subject"),
	}
	l.Seq, _ = strconv.ParseUint(m.Header.Get("Axe-Sequence"), 10, 64)
	if at, err := c.conn.Space().Parse(l.Subject); err == nil {
		l.Run = at.Run
	}
	var err error
	l.Body, err = c.conn.Load(ctx, m)
	// whoever may submit may say so
	if errors.Is(err, bus.ErrObjectGone) || errors.Is(err, bus.ErrTooLarge) {
		l.Body, err = m.Body, nil
	}
	if err != nil {
		return DeadLetter{}, fmt.Errorf("dead letter %d: %w", m.Seq, err)
	}
	return l, nil
}

// letterID tells the letters of all partitions apart.
func (c *Client) letterID(m bus.Stored) uint64 {
	space := c.conn.Space()
	p, _ := space.PartitionIn(m.Subject)
	return m.Seq*uint64(space.Partitions()) + uint64(p)
}

// Asked is what the run of a letter was asked, and the bounds that it was
// under, as its call has them; ok is false if there is no such call any more,
// or none that can be read.
func (c *Client) Asked(ctx context.Context, l DeadLetter) (in run.Input, limits subjects.Budget, ok bool, err error) {
	if l.Run.Agent.IsZero() {
		return run.Input{}, limits, false, nil
	}
	m, ok, err := c.conn.First(ctx, l.Run.Call())
	if err != nil || !ok {
		return run.Input{}, limits, false, err
	}
	body, err := c.conn.Load(ctx, m)
	if errors.Is(err, bus.ErrObjectGone) || errors.Is(err, bus.ErrTooLarge) {
		return run.Input{}, limits, false, nil
	}
	if err != nil {
		return run.Input{}, limits, false, fmt.Errorf("dead letter %d: %w", l.ID, err)
	}
	scopes, _ := subjects.ParseScopes(m.Header.Get(subjects.HeaderLimits), l.Run.Path)
	for _, s := range scopes {
		limits = limits.Within(s.Budget)
	}
	return in, limits, json.Unmarshal(body, &in) == nil, nil
}

// Again is the tree that a letter's task becomes when it is tried again: always
// the same one, so that it is tried once however often that is asked for.
func (l DeadLetter) Again() subjects.Tree {
	return Key(fmt.Sprintf("dead letter %d of %s", l.ID, l.Time.UTC().Format(time.RFC3339Nano)))
}

// Tried reports whether a letter's task was tried again.
func (c *Client) Tried(ctx context.Context, l DeadLetter) (bool, error) {
	f, err := c.look(ctx, l.Again())
	return !f.root.Agent.IsZero(), err
}
