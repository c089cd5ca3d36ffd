package main

import (
	"context"
	"log/slog"
	"sync"

	"github.com/axebus/axe/internal/sdnotify"
)

// lifecycle tells the service manager how far this process is: it starts, it
// serves, it drains. It is the one place that knows this for a probe.
type lifecycle struct {
	manager sdnotify.Manager
	log     *slog.Logger
}

// begin tells the manager that the process starts, and sends it signs of life
// while works returns. The returned function ends them.
// The end of ctx does not end them, since a worker that drains works.
func (l lifecycle) begin(ctx context.Context, works func()) (end func()) {
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
func (l lifecycle) serving() { l.tell(sdnotify.Ready, sdnotify.Status("serving")) }

// draining is called when the worker takes no more work.
func (l lifecycle) draining() { l.tell(sdnotify.Stopping, sdnotify.Status("draining")) }

// tell logs a failure: the worker works without its manager.
func (l lifecycle) tell(states ...string) {
	if err := l.manager.Send(states...); err != nil {
		l.log.Warn("service manager not told", slog.Any(keyError, err))
	}
}
