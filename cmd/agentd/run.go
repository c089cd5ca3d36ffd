package main

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/ballast"
	"github.com/axebus/axe/internal/sdnotify"
)

// errClosed ends the worker when its connection cannot be restored.
var errClosed = errors.New("the connection was closed for good: the server refuses the worker's credentials")

// run serves until a signal arrives. The worker drains first, then the
// connection is closed, then the server.
func (o *options) run(ctx context.Context) error {
	screen := cli.Stderr()
	log, err := o.log.Logger(screen, screen.Terminal())
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	o.worker.FileErrorLevel = slog.LevelError
	if o.worker.Grace == 0 {
		// 0 is the default of a worker, and here no grace at all.
		o.worker.Grace = 1
	}
	if err := o.worker.Load(log); err != nil {
		return cli.Fail(cli.CodeConfig, err)
	}
	if o.http.Serves() {
		if err := o.http.Listen(ctx, name); err != nil {
			return err
		}
		defer o.http.Close()
	}
	manager, err := sdnotify.FromEnv()
	if err != nil {
		return cli.Fail(cli.CodeConfig, err)
	}
	defer ballast.Reserve()()
	state := &lifecycle{manager: manager, log: log}
	o.worker.Serving = state.serving
	if o.monitor.serves() {
		if err := o.monitor.listen(ctx, o.worker.Prices()); err != nil {
			return err
		}
		defer o.monitor.serve(state, o.worker.Works, log)()
		o.worker.Metrics = o.monitor.metrics
	}
	defer state.begin(ctx, o.worker.Works)()
	var server *bus.Server
	if o.embedded.on {
		if server, err = o.embedded.serve(log); err != nil {
			return err
		}
		defer server.Close()
	}
	cfg, err := o.dial.Config(server, log)
	if err != nil {
		return err
	}
	cfg.AckWait, cfg.Dial.Name = o.lease, o.worker.Name
	if o.monitor.serves() {
		cfg.Observe = o.monitor.metrics.Exchanged
	}
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	cfg.Dial.Closed = func() { lost(errClosed) }
	goesOn := context.AfterFunc(ctx, func() {
		log.InfoContext(ctx, "draining", slog.Any(keyCause, context.Cause(ctx)))
		state.draining()
	})
	defer goesOn()
	conn, err := cli.Open(ctx, cfg, 0)
	if err != nil {
		return cli.IgnoreSignal(err)
	}
	defer conn.Close()
	state.connected(conn)
	var serving sync.WaitGroup
	defer func() {
		goesOn() // a worker that has failed does not drain
		lost(nil)
		serving.Wait()
	}()
	if o.http.Serves() {
		serving.Go(func() {
			if err := o.serveHTTP(ctx, cfg, log); err != nil {
				lost(err)
			}
		})
	}
	if err := o.work(ctx, conn, state, log); err != nil {
		return cli.IgnoreSignal(err)
	}
	return cli.IgnoreSignal(context.Cause(ctx))
}

// serveHTTP serves the HTTP API until ctx ends. It has a connection of its own,
// so that the reads of its clients hold up no delivery of the worker.
func (o *options) serveHTTP(ctx context.Context, cfg bus.Config, log *slog.Logger) error {
	cfg.Dial.Name += "-http"
	cfg.Observe = nil
	conn, err := cli.Open(ctx, cfg, 0)
	if err != nil {
		return err
	}
	defer conn.Close()
	return o.http.Serve(ctx, conn, log)
}

// work runs the worker. When a stream of runs was removed or restored, it makes
// the streams that are missing and begins anew: a worker remembers much of the
// messages on them.
func (o *options) work(ctx context.Context, conn *bus.Conn, state *lifecycle, log *slog.Logger) error {
	streams := bus.Provision{
		Replicas: o.replicas, Partitions: o.partitions,
		MaxAge: time.Duration(o.keep.Time.Seconds), MaxBytes: int64(o.keep.Bytes.Size),
		Longest: o.worker.Timeout, Sync: o.embedded.syncs(),
	}
	for {
		if err := cli.Provision(ctx, conn, streams, log); err != nil {
			return err
		}
		err := o.worker.Work(ctx, conn, log)
		if !errors.Is(err, agentd.ErrStreamLost) || o.exitOnLostStream {
			return err
		}
		state.beginsAnew()
		log.ErrorContext(ctx, "beginning anew on the streams", slog.Any(keyCause, err))
		// The first stream, which says how many there are, may be gone.
		streams.Partitions = conn.Space().Partitions()
		streams.Replicas = conn.Replicas()
	}
}

// check validates the flags before anything is started.
func (o *options) check() error {
	if o.worker.Agents == "" {
		return cli.Usage("--agents is required: the directory of the agents")
	}
	if o.replicas < 1 || o.replicas > 5 {
		return cli.Usage("--replicas must be 1 to 5, got %d", o.replicas)
	}
	if o.partitions < 0 || o.partitions > bus.MostPartitions {
		return cli.Usage("--partitions must be 1 to %d, got %d", bus.MostPartitions, o.partitions)
	}
	if o.worker.Timeout <= 0 {
		return cli.Usage("--timeout must be positive, got %s", (*cli.Seconds)(&o.worker.Timeout))
	}
	if o.lease <= 0 {
		return cli.Usage("--ack-wait must be positive, got %s", o.lease)
	}
	if err := o.keep.Check(o.worker.Timeout); err != nil {
		return err
	}
	if err := o.embedded.check(&o.dial); err != nil {
		return err
	}
	if err := cmp.Or(o.http.Check(), o.monitor.check()); err != nil {
		return err
	}
	// The errors of single files are no error here.
	_, err := cli.AllAgents(o.worker.Agents)
	return err
}
