package agentd

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/presence"
)

const (
	// tolerableOffset is the largest difference between this machine's
	// clock and a server's clock that is not logged. A difference does no
	// harm to runs, but the logs of several machines are hard to compare.
	tolerableOffset = 2 * time.Second
	// learnTimeout is the time for which a worker that starts waits for the
	// steps of the servers' clocks.
	learnTimeout = 10 * time.Second
	// rearmTimeout bounds an attempt to set timers anew.
	rearmTimeout = 30 * time.Second
	// rearmInterval is the pause before timers that could not be set anew
	// are tried again.
	rearmInterval = 2 * time.Second
)

// clockWatch watches over the servers' clocks for one worker.
type clockWatch struct {
	conn *bus.Conn
	log  *slog.Logger
	// entryChanged is notified after a step: the worker's entry has it.
	// Workers that start later learn the step from the worker's entry.
	entryChanged chan struct{}
	// learned says that the worker has learned the steps before its start.
	learned bool
	// logged is the difference between the clocks that was logged last.
	logged time.Duration

	// found is ready when steps has got a step.
	found chan struct{}
	mu    sync.Mutex
	// steps are the steps that rearm has not taken yet.
	steps []bus.Step
}

func newClockWatch(w *Worker) *clockWatch {
	return &clockWatch{conn: w.conn, log: w.log, entryChanged: w.entryChanged, found: make(chan struct{}, 1)}
}

// begin learns the number of partitions, the time of each stream, and the steps
// of the servers' clocks that other workers have measured. Without the steps it
// goes on after learnTimeout: the bucket of the workers may have no leader, and
// most runs need no step. Run then tries again.
func (c *clockWatch) begin(ctx context.Context) error {
	if err := c.conn.Provisioned(ctx); err != nil {
		return err
	}
	if err := c.conn.Clocks.Measure(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, learnTimeout)
	defer cancel()
	c.learn(ctx)
	return nil
}

// learn learns the steps that other workers have measured, unless it has. It
// tries until ctx ends. On a bus without the bucket of the workers it learns
// none: no worker was there to measure a step. A worker that lacks a step
// misreads the deadlines from before it.
func (c *clockWatch) learn(ctx context.Context) {
	if c.learned {
		return
	}
	try := func() error {
		err := presence.LearnClockSteps(ctx, c.conn)
		c.learned = err == nil
		if bus.Forbidden(err) {
			c.log.WarnContext(ctx, "earlier steps of the server's clock not learned", slog.Any(keyError, err))
			c.learned = true // as far as the worker may
			return nil
		}
		return err
	}
	pause.Retry(ctx, busRetryDelay, try, func(err error) {
		c.log.WarnContext(ctx, "earlier steps of the server's clock not learned, trying again",
			slog.Any(keyError, err))
	})
}

// run measures the clocks until ctx ends. After a step it changes the worker's
// entry, and sets the timers anew.
func (c *clockWatch) run(ctx context.Context) error {
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error { return c.keep(ctx) })
	all.Go(func() error { return c.rearmAll(ctx) })
	all.Go(func() error {
		c.learn(ctx)
		return nil
	})
	return all.Wait()
}

// keep measures the clocks, and hands the steps to rearmAll.
func (c *clockWatch) keep(ctx context.Context) error {
	c.logOffset(ctx)
	return c.conn.Clocks.Keep(ctx, func(steps []bus.Step) {
		c.logOffset(ctx)
		for _, s := range steps {
			c.log.WarnContext(ctx, "server's clock was set",
				slog.String(keyStream, s.Stream), slog.Duration(keyBy, s.By))
			pause.Notify(c.entryChanged)
		}
		c.mu.Lock()
		c.steps = append(c.steps, steps...)
		c.mu.Unlock()
		pause.Notify(c.found)
	})
}

// rearmAll sets timers anew after each step, until ctx ends. It tries again
// after an error: a stream may have no leader. A timer that was set anew before
// is left alone then.
func (c *clockWatch) rearmAll(ctx context.Context) error {
	var pending []bus.Step
	for pause.AtMost(ctx, rearmInterval, c.found) == nil {
		c.mu.Lock()
		pending = append(pending, c.steps...)
		c.steps = nil
		c.mu.Unlock()
		pending = slices.DeleteFunc(pending, func(s bus.Step) bool { return c.rearm(ctx, s) })
	}
	return context.Cause(ctx)
}

// rearm sets timers anew after a step of a server's clock. It returns false if
// that has failed.
func (c *clockWatch) rearm(ctx context.Context, s bus.Step) (done bool) {
	attempt, cancel := context.WithTimeout(ctx, rearmTimeout)
	defer cancel()
	err := c.conn.Clocks.Rearm(attempt, s)
	if err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "timers not set anew, trying again",
			slog.String(keyStream, s.Stream), slog.Any(keyError, err))
	}
	return err == nil
}

// logOffset logs the difference of this machine's clock from the server's if it
// is larger than tolerableOffset and the bound of its error together. It logs a
// difference again only after it has changed by more than tolerableOffset.
func (c *clockWatch) logOffset(ctx context.Context) {
	offset, bound := c.conn.Clocks.Offset()
	if offset.Abs() <= tolerableOffset+bound || (offset-c.logged).Abs() <= tolerableOffset {
		return
	}
	c.logged = offset
	c.log.WarnContext(ctx, "this machine's clock differs from the server's, which counts",
		slog.Duration(keyServerAhead, offset.Round(time.Millisecond)))
}
