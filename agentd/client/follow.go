package client

import (
	"context"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// gather is how long hints are collected before the next read, so that a wide tree is read in few.
const gather = 20 * time.Millisecond

// Follow calls fn for everything that happened to a tree, from its beginning, and for what happens
// until it is concluded or ctx ends. Stored events come in stream order, each once, but that Concluded is
// the last; those told live only come between them, as they arrive, and may be lost. It is the caller's
// goroutine that calls fn. A message that cannot be read is left out.
func (c *Client) Follow(ctx context.Context, tree subjects.Tree, fn func(Event)) error {
	f, err := c.find(ctx, tree)
	if err != nil {
		return err
	}
	t := &tail{c: c, root: f.root, called: f.called, seq: max(f.seq, 1) - 1, hints: newHints(), parts: make(chan Event, 256), fn: fn}
	stop, err := t.watch()
	if err != nil {
		return err
	}
	defer stop()
	for {
		concluded, err := t.read(ctx)
		if err != nil || concluded {
			return err
		}
		if err := t.wait(ctx); err != nil {
			return err
		}
	}
}

// tail is a reader's place in a tree. Live messages only say that there is something to read.
type tail struct {
	c      *Client
	root   subjects.Run
	called bool
	seq    uint64 // everything up to here was given to fn
	hints  hints
	parts  chan Event
	fn     func(Event)
}

func (t *tail) watch() (stop func(), err error) {
	space := t.root.Space
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for _, w := range []struct {
		subject string
		take    func(bus.Stored)
	}{
		{space.Live(space.TreeOf(t.root.Tree)), t.hints.give},
		{space.Live(space.Result(t.root.Agent, t.root.Tree)), t.hints.give},
		{space.PartsOf(t.root.Tree), t.part},
	} {
		s, err := t.c.conn.Watch(w.subject, w.take)
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, s)
	}
	return stop, nil
}

// part hands on what a worker tells; who does not keep up misses some of it.
func (t *tail) part(m bus.Stored) {
	if e, ok := t.c.partEvent(m); ok {
		select {
		case t.parts <- e:
		default:
		}
	}
}

// read gives fn what is new. The result is looked for first, so that everything stored before it is
// told before it.
func (t *tail) read(ctx context.Context) (concluded bool, err error) {
	end, concluded, err := t.c.result(ctx, t.root)
	if err != nil {
		return false, err
	}
	if !t.called {
		call, ok, err := t.c.conn.First(ctx, t.root.Call())
		if err != nil {
			return false, err
		}
		if ok {
			t.called, t.seq = true, call.Seq-1
		}
	}
	var ms []bus.Stored
	if t.called {
		if ms, err = t.c.conn.Since(ctx, t.root.Space.TreeOf(t.root.Tree), t.seq); err != nil {
			return false, err
		}
	}
	if concluded {
		ms = append(ms, end)
	}
	for _, m := range ms {
		if e, ok, err := t.c.event(ctx, m); err == nil && ok {
			t.fn(e)
		}
		t.seq = max(t.seq, m.Seq)
	}
	return concluded, nil
}

// wait returns when there may be something to read; meanwhile it hands on what is told live.
func (t *tail) wait(ctx context.Context) error {
	silent := time.NewTimer(poll)
	defer silent.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case e := <-t.parts:
			t.fn(e)
		case <-t.hints:
			return bus.Pause(ctx, gather)
		case <-silent.C:
			return nil
		}
	}
}
