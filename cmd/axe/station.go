package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
)

// drainTimeout bounds the drain of the worker in this process.
const drainTimeout = 3 * time.Second

// station holds the flags of a command that works on a running bus, or on a bus
// of its own with a worker in this process.
type station struct {
	dial   cli.DialFlags
	worker cli.WorkerFlags
	cmd    *cobra.Command
}

// remote reports whether the command uses a running bus.
func (s *station) remote() bool { return s.dial.Explicit() }

// works reports whether this process is a worker.
func (s *station) works() bool { return !s.remote() || agentsGiven(s.cmd) }

// ask lets a view ask the person at the terminal about the runs that wait for
// one. It is called before the worker begins.
func (s *station) ask(screen *cli.Screen, view *cli.View) {
	if asker := cli.NewAsker(screen, !s.remote()); asker != nil {
		view.Ask(asker)
		s.worker.Attended = true
	}
}

// use calls fn with a connection to a bus that has its streams: a running one,
// or a server that only this process can reach. If the process is a worker, it
// serves its agents meanwhile. The connection, the server and its store end
// with fn. Screen shows the log.
func (s *station) use(
	ctx context.Context, log *slog.Logger, screen *cli.Screen, fn func(context.Context, *bus.Conn) error,
) error {
	var server *bus.Server
	if !s.remote() {
		dir, err := os.MkdirTemp("", "axe-run-")
		if err != nil {
			return fmt.Errorf("store: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		if server, err = bus.Serve(bus.ServerConfig{StoreDir: dir, Log: log}); err != nil {
			return err
		}
		defer server.Close()
	}
	cfg, err := s.dial.Config(server, log)
	if err != nil {
		return err
	}
	conn, err := cli.Open(ctx, cfg, cli.ConnectTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	if s.works() {
		return s.work(ctx, conn, log, screen, func(ctx context.Context) error { return fn(ctx, conn) })
	}
	if err := cli.Ready(ctx, conn); err != nil {
		return err
	}
	return fn(ctx, conn)
}

// work runs a worker until submit returns. A signal does not end the worker
// directly, since a cancelled tree needs a worker to end.
func (s *station) work(
	ctx context.Context, conn *bus.Conn, log *slog.Logger, screen *cli.Screen, submit func(context.Context) error,
) error {
	if err := cli.Provision(ctx, conn, bus.Provision{}, log); err != nil {
		return err
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	ctx, broken := context.WithCancelCause(ctx)
	defer broken(nil)
	// stop ends the worker's goroutine. On a running bus the deferred
	// function waits for it.
	var worker sync.WaitGroup
	worker.Go(func() {
		if err := s.worker.Work(working, conn, log); err != nil {
			broken(err)
		}
	})
	defer func() {
		// Without a running bus there is no other worker to give work
		// back to.
		if !s.remote() {
			s.worker.WaitIdle(ctx, drainTimeout)
			screen.Silence()
			stop()
			return
		}
		stop()
		worker.Wait()
	}()
	if err := cli.WaitAnnounced(ctx, conn, s.worker.Agents); err != nil {
		return err
	}
	return submit(ctx)
}
