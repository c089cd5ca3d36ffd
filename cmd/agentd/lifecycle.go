package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/sdnotify"
)

// lifecycle tells the service manager how far this process is: it starts, it
// serves, it drains. It is the one place that knows this for a probe.
type lifecycle struct {
	manager sdnotify.Manager
	log     *slog.Logger

	mu    sync.Mutex
	phase phase
	// conn is the worker's connection, nil before there is one.
	conn *bus.Conn
}

// phase says how far a process is.
type phase string

const (
	starting phase = "starting"
	serving  phase = "serving"
	draining phase = "draining"
)

// enter notes a phase. A process that drains does nothing else any more.
func (l *lifecycle) enter(p phase) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != draining {
		l.phase = p
	}
}

// connected notes the worker's connection.
func (l *lifecycle) connected(c *bus.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conn = c
}

// unready says why the process takes no work, "" if it does.
func (l *lifecycle) unready() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.phase != serving:
		return string(l.phase)
	case !bus.Connected(l.conn):
		return "not connected"
	}
	return ""
}

// begin tells the manager that the process starts, and sends it signs of life
// while works returns. The returned function ends them.
// The end of ctx does not end them, since a worker that drains works.
func (l *lifecycle) begin(ctx context.Context, works func()) (end func()) {
	l.enter(starting)
	l.tell(sdnotify.Status("starting: waits for the server and its streams"))
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var alive sync.WaitGroup
	alive.Go(func() { l.manager.KeepAlive(ctx, works) })
	return func() {
		cancel()
		alive.Wait()
	}
}

// serving is called when the worker takes work.
func (l *lifecycle) serving() {
	l.enter(serving)
	l.tell(sdnotify.Ready, sdnotify.Status("serving"))
}

// beginsAnew is called when the worker lost its streams, and makes them again.
func (l *lifecycle) beginsAnew() { l.enter(starting) }

// draining is called when the worker takes no more work.
func (l *lifecycle) draining() {
	l.enter(draining)
	l.tell(sdnotify.Stopping, sdnotify.Status("draining"))
}

// tell logs a failure: the worker works without its manager.
func (l *lifecycle) tell(states ...string) {
	if err := l.manager.Send(states...); err != nil {
		l.log.Warn("service manager not told", slog.Any(keyError, err))
	}
}
