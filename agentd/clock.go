package agentd

import (
	"context"
	"log/slog"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/presence"
)

const (
	// tolerableOffset is the largest difference between this machine's
	// clock and a server's clock that is not logged. A difference does no
	// harm to runs, but the logs of several machines are hard to compare.
	tolerableOffset = 2 * time.Second
	// rearmTimeout bounds the time for setting timers anew.
	rearmTimeout = 30 * time.Second
)

// clockWatch watches over the servers' clocks for one worker.
type clockWatch struct {
	clocks *bus.Clocks
	log    *slog.Logger
	// entryChanged is notified after a step: the worker's entry tells it to
	// the other workers.
	entryChanged chan struct{}
	// logged is the difference between the clocks that was logged last.
	logged time.Duration
}

// learnStreams learns the number of partitions, the time of each stream, and
// the steps of the servers' clocks that other workers have measured.
func learnStreams(ctx context.Context, conn *bus.Conn) error {
	if err := conn.Provisioned(ctx); err != nil {
		return err
	}
	if err := conn.Clocks.Measure(ctx); err != nil {
		return err
	}
	// Without the bucket no worker was there to measure a step.
	_ = presence.LearnClockSteps(ctx, conn)
	return nil
}

// run measures the clocks until ctx ends. After a step it tells the other
// workers, and sets the timers anew.
func (c *clockWatch) run(ctx context.Context) error {
	c.logOffset(ctx)
	return c.clocks.Keep(ctx, func(steps []bus.Step) {
		c.logOffset(ctx)
		for _, s := range steps {
			c.log.WarnContext(ctx, "server's clock was set",
				slog.String(keyStream, s.Stream), slog.Duration(keyBy, s.By))
			pause.Notify(c.entryChanged)
			c.rearm(ctx, s)
		}
	})
}

// rearm sets timers anew after a step of a server's clock.
func (c *clockWatch) rearm(ctx context.Context, s bus.Step) {
	ctx, cancel := context.WithTimeout(ctx, rearmTimeout)
	defer cancel()
	if err := c.clocks.Rearm(ctx, s); err != nil {
		c.log.WarnContext(ctx, "timers not set anew", slog.String(keyStream, s.Stream), slog.Any(keyError, err))
	}
}

// logOffset logs that this machine's clock differs from the server's. It logs
// that again only after the difference has changed by more than
// tolerableOffset.
func (c *clockWatch) logOffset(ctx context.Context) {
	offset, bound := c.clocks.Offset()
	if offset.Abs() <= tolerableOffset+bound || (offset-c.logged).Abs() <= tolerableOffset {
		return
	}
	c.logged = offset
	c.log.WarnContext(ctx, "this machine's clock differs from the server's, which counts",
		slog.Duration(keyServerAhead, offset.Round(time.Millisecond)))
}
