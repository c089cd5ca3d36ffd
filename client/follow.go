package client

import (
	"context"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// gather is how long hints are collected before the next read, so that a wide
// tree is read in few.
const gather = 20 * time.Millisecond

// Follow calls fn for everything that happened to a tree, from its beginning,
// and for what happens until it is concluded or ctx ends. Stored events come in
// stream order, each once, but that Concluded is the last; what a message
// decides on a turn (Held, Approved, Denied) follows what it tells itself.
// Those told live only come between them, as they arrive, and may be lost. It
// is the caller's goroutine that calls fn. A message that cannot be read is
// left out.
func (c *Client) Follow(ctx context.Context, tree subjects.Tree, fn func(Event)) error {
	return c.follow(ctx, tree, fn, func(t *tail) bool { return t.concluded })
}

// WaitEnded calls fn like Follow, until a run and all runs that were called
// below it have outcomes, or cannot be waited for any longer: their time is
// over, and nobody serves them. It returns how many these are. A run that is
// cancelled answers at once and waits for nobody, so those below it may end
// after it.
func (c *Client) WaitEnded(
	ctx context.Context,
	tree subjects.Tree,
	top subjects.Path,
	fn func(Event),
) (left int, err error) {
	o := newOpen()
	err = c.follow(ctx, tree, func(e Event) {
		o.apply(e)
		fn(e)
	}, func(t *tail) bool {
		if t.concluded { // also by what cannot be read
			o.end(subjects.Root)
		}
		var settled bool
		left, settled = o.settled(top, time.Now())
		return settled
	})
	return left, err
}

func (c *Client) follow(ctx context.Context, tree subjects.Tree, fn func(Event), over func(*tail) bool) error {
	f, err := c.find(ctx, tree)
	if err != nil {
		return err
	}
	t := &tail{
		c:         c,
		root:      f.root,
		called:    f.called,
		seq:       max(f.seq, 1) - 1,
		hints:     newHints(),
		parts:     make(chan Event, 256),
		fn:        fn,
		decisions: newDecisions(),
	}
	stop, err := t.watch()
	if err != nil {
		return err
	}
	defer stop()
	for {
		if err := t.read(ctx); err != nil || over(t) {
			return err
		}
		if err := t.wait(ctx); err != nil {
			return err
		}
	}
}

// open knows which of a tree's runs have been called and have no outcome.
type open struct {
	runs  map[subjects.Path]time.Time // and until when they may take
	ended map[subjects.Path]bool
}

func newOpen() *open {
	return &open{runs: map[subjects.Path]time.Time{}, ended: map[subjects.Path]bool{}}
}

func (o *open) apply(e Event) {
	p := e.Run.Path
	switch e.Kind {
	case Called:
		if !o.ended[p] {
			o.runs[p] = e.Until
		}
	case ChildEnded, TreeEnded:
		o.end(p)
	case Asking,
		Retrying,
		RateLimited,
		Answered,
		BecameIdle,
		MailReceived,
		TimedOut,
		Cancelled,
		Held,
		Approved,
		Denied,
		Interrupted:
	}
}

func (o *open) end(p subjects.Path) {
	o.ended[p] = true
	delete(o.runs, p)
}

// overdue is how long after its deadline a run without an outcome is waited
// for.
const overdue = 15 * time.Second

// settled reports whether a run has ended, and all that were called below it;
// left are those whose time is over.
func (o *open) settled(top subjects.Path, now time.Time) (left int, _ bool) {
	for p, until := range o.runs {
		if !top.Covers(p) {
			continue
		}
		if now.Before(until.Add(overdue)) {
			return 0, false
		}
		left++
	}
	_, called := o.runs[top]
	return left, called || o.ended[top]
}

// tail is a reader's place in a tree. Live messages only say that there is
// something to read.
type tail struct {
	c      *Client
	root   subjects.Run
	called bool
	// everything up to here was given to fn
	seq   uint64
	hints hints
	parts chan Event
	fn    func(Event)

	decisions *decisions

	concluded bool // fn was told
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
		{space.Live(space.TreeOf(t.root.Tree)), t.hints.add},
		{space.Live(space.Result(t.root.Agent, t.root.Tree)), t.hints.add},
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

// read gives fn what is new. The result is looked for first, so that everything
// stored before it is told before it.
func (t *tail) read(ctx context.Context) error {
	var result []bus.Stored
	if !t.concluded {
		end, ok, err := t.c.readResult(ctx, t.root)
		if err != nil {
			return err
		}
		if t.concluded = ok; ok {
			result = append(result, end)
		}
	}
	ms, err := t.news(ctx)
	if err != nil {
		return err
	}
	for _, m := range append(ms, result...) {
		e, ok, err := t.c.event(ctx, m)
		if err != nil {
			continue
		}
		decided, also := t.decisions.see(ctx, t.c, m, &e)
		if ok {
			t.fn(e)
		}
		if also {
			t.fn(decided)
		}
	}
	return nil
}

// news reads what is new of the tree. When it has its result that is all that
// the stream's leader has: the follower that answers may lag behind the one
// that had the result.
func (t *tail) news(ctx context.Context) ([]bus.Stored, error) {
	tree := t.root.Space.TreeOf(t.root.Tree)
	var must uint64
	if t.concluded && t.c.conn.Replicas() > 1 {
		var err error
		if must, err = t.c.conn.LastSeq(ctx, tree); err != nil {
			return nil, err
		}
	}
	if !t.called {
		call, ok, err := t.c.conn.First(ctx, t.root.Call())
		if err != nil || !ok && must == 0 {
			return nil, err
		}
		t.called, t.seq = true, max(call.Seq, 1)-1
	}
	ms, err := t.c.conn.ScanUntil(ctx, tree, t.seq, must)
	for _, m := range ms {
		t.seq = max(t.seq, m.Seq)
	}
	return ms, err
}

// wait returns when there may be something to read; meanwhile it hands on what
// is told live.
func (t *tail) wait(ctx context.Context) error {
	silent := time.NewTimer(pollInterval)
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
