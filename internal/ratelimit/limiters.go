package ratelimit

import (
	"context"
	"log/slog"
	"sync"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
)

// Limiters are the limiters of one worker, one for each provider account that
// the worker has met. An account without a limit has none and costs nothing.
type Limiters struct {
	conn   *bus.Conn
	worker string
	log    *slog.Logger

	mu sync.Mutex
	// byAccount are all limiters, and idle those that do not run yet.
	byAccount map[string]*Limiter
	idle      []*Limiter
	// added holds a token while there may be limiters that do not run.
	added chan struct{}
}

// New makes the limiters of a worker. They admit requests only while Run runs.
func New(conn *bus.Conn, worker string, log *slog.Logger) *Limiters {
	added := make(chan struct{}, 1)
	return &Limiters{conn: conn, worker: worker, log: log, byAccount: map[string]*Limiter{}, added: added}
}

// Run runs the limiters until ctx ends, and returns its cause after the last of
// them has ended.
func (l *Limiters) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.added:
		}
		l.mu.Lock()
		idle := l.idle
		l.idle = nil
		l.mu.Unlock()
		for _, one := range idle {
			running.Go(func() { one.run(ctx) })
		}
	}
}

// Of returns the limiter of an account. The first call for an account decides
// its settings.
func (l *Limiters) Of(account string, s Settings) *Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known := l.byAccount[account]; known != nil {
		return known
	}
	one := &Limiter{
		clocks:   l.conn.Clocks,
		register: l.conn.RateLimit(account),
		settings: s,
		worker:   l.worker + "/" + bus.NewID(),
		log:      l.log.With(slog.String("account", account)),
		work:     make(chan struct{}, 1),
	}
	l.byAccount[account] = one
	l.idle = append(l.idle, one)
	pause.Notify(l.added)
	return one
}
