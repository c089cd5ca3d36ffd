package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// Task is a request to an agent. Only Agent is required.
type Task struct {
	Agent subjects.Agent
	// ID is the id of the tree to make. Zero: Submit makes a new id.
	ID   subjects.Tree
	Text string
	// Timeout bounds the whole tree. Zero: the workers' own bound holds,
	// which also caps longer timeouts.
	Timeout time.Duration
	// Budget bounds the whole tree, in addition to the agent's own budget.
	Budget subjects.Budget
}

// TreeID returns the tree id for a key: the key itself if it is a valid id,
// otherwise an id derived from it. The same key always gives the same id.
func TreeID(key string) subjects.Tree {
	if t, err := subjects.ParseTree(key); err == nil {
		return t
	}
	sum := sha256.Sum256([]byte(key))
	// 32 hex digits always parse
	t, _ := subjects.ParseTree(hex.EncodeToString(sum[:16]))
	return t
}

// Submit publishes a task and returns the id of its tree once the task is
// stored. A second submission with the same id changes nothing: the tree and
// its outcome are those of the first. The error is ErrIDTaken if the id belongs
// to a tree of another agent whose root was called, and ErrIDReused if it was
// submitted with another text or another budget. The timeout does not count:
// the deadline of the first submission stays. The error is ErrKeptTooShort for
// a timeout beyond four fifths of the time for which the bus keeps messages. It
// wraps
// bus.ErrNoRoom if the server is full, or if the streams have the size beyond
// which no new tree begins. A tree that is there needs no room.
func (c *Client) Submit(ctx context.Context, t Task) (subjects.Tree, error) {
	if err := c.conn.Provisioned(ctx); err != nil {
		return subjects.Tree{}, err
	}
	called, err := checkID(ctx, c, &t)
	if err != nil {
		return t.ID, fmt.Errorf("tree %s: %w", t.ID, err)
	}
	if age, least := c.conn.MaxAge(), bus.AgeFor(t.Timeout); age > 0 && age < least {
		return t.ID, fmt.Errorf("tree %s: %w: it keeps them for %s, and a tree that may take %s needs %s",
			t.ID, ErrKeptTooShort, age, t.Timeout, least)
	}
	if err := c.conn.Health.Room(ctx); err != nil {
		if called && errors.Is(err, bus.ErrNoRoom) {
			return t.ID, nil
		}
		return t.ID, fmt.Errorf("submit: %w", err)
	}
	by := bus.By(c.conn)
	m := bus.Message{Subject: by.On(c.conn.Space().Submit(t.Agent, t.ID)), Body: []byte(t.Text)}
	if !by.IsZero() {
		m.Header = append(m.Header, [2]string{subjects.HeaderSchema, subjects.Schema})
	}
	if t.Timeout > 0 {
		// Workers of an earlier version know a deadline alone. It is a time
		// of the server's clock, whatever this machine's clock says.
		deadline := subjects.FormatDeadline(c.conn.Clocks.Now().Add(t.Timeout))
		m.Header = append(m.Header, [2]string{subjects.HeaderTimeout, subjects.FormatTimeout(t.Timeout)},
			[2]string{subjects.HeaderDeadline, deadline})
	}
	if limits := t.limits(); limits != "" {
		m.Header = append(m.Header, [2]string{subjects.HeaderLimits, limits})
	}
	m.Patience = submitPatience
	if _, err := c.conn.Write(ctx, m); err != nil {
		return t.ID, fmt.Errorf("submit: %w", err)
	}
	return t.ID, nil
}

// submitPatience is the time for which a full server may refuse a task. A
// person waits for the answer.
const submitPatience = time.Second

// limits returns the value of Axe-Limits, "" without a budget.
func (t Task) limits() string {
	if t.Budget == (subjects.Budget{}) {
		return ""
	}
	return subjects.FormatScopes([]subjects.Scope{{Path: subjects.Root, Budget: t.Budget}})
}

// checkID makes an id for a task without one. Of another task it reports
// whether the root of its tree was called. It refuses the id of another agent's
// tree, and that of another task. It accepts a tree of which neither the root's
// call nor the submission is stored any more. It does not see a submission to
// another agent that waits for a worker; the worker refuses the second one.
func checkID(ctx context.Context, c *Client, t *Task) (called bool, err error) {
	if t.ID.IsZero() {
		t.ID, err = subjects.ParseTree(bus.NewID())
		return false, err
	}
	f, err := c.lookupRoot(ctx, t.ID)
	called = f.call != 0
	switch {
	case err != nil:
		return called, err
	case called && f.root.Agent != t.Agent:
		return called, fmt.Errorf("%w: %s", ErrIDTaken, f.root.Agent)
	}
	m, text, ok, err := readTask(ctx, c, *t, f)
	if errors.Is(err, bus.ErrObjectGone) {
		return called, nil
	}
	if err != nil || !ok {
		return called, err
	}
	var what string
	switch {
	case text != t.Text:
		what = "with another text"
	case m.Header.Get(subjects.HeaderLimits) != t.limits():
		what = "with other limits"
	default:
		return called, nil
	}
	age := c.conn.Clocks.Now().Sub(m.Time).Round(time.Second)
	return called, fmt.Errorf("%w, %s ago, %s: wait for that tree, or take another id", ErrIDReused, age, what)
}

// readTask reads the text of a tree's task: from the root's call, or from the
// submission that waits for a worker.
func readTask(ctx context.Context, c *Client, t Task, f found) (m bus.Stored, text string, ok bool, err error) {
	if f.call != 0 {
		m, call, ok, err := c.readCall(ctx, f.root)
		return m, call.Task, ok && call.Malformed == nil, err
	}
	root := c.conn.Space().Run(t.Agent, t.ID, subjects.Root)
	m, ok, err = c.conn.QueuedSubmission(ctx, root.AnySubmit()...)
	if err != nil || !ok {
		return m, "", false, err
	}
	body, err := c.conn.Load(ctx, m)
	return m, string(body), true, err
}
