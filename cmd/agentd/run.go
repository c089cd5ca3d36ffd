package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/cli"
)

const keyCause = "cause" // of a drain, in the log

// errClosed is the end of a worker whose connection will not come back.
var errClosed = errors.New("the connection was closed for good: the server refuses the worker's credentials")

// run serves until a signal comes. What was opened last is closed first: the
// worker drains before its connection ends, and that before the server does.
func (o *options) run(ctx context.Context) error {
	screen := cli.Stderr()
	log, err := o.log.Logger(screen, screen.Terminal())
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	o.worker.Others = slog.LevelError
	if err := o.worker.Load(log); err != nil {
		return cli.Fail(cli.CodeConfig, err)
	}
	var server *bus.Server
	if o.embedded.on {
		if server, err = o.embedded.serve(log); err != nil {
			return err
		}
		defer server.Close()
		fmt.Fprintf(os.Stderr, "%s: NATS server listens on %s\n", name, server.URL())
	}
	cfg, err := o.dial.Config(server, log)
	if err != nil {
		return err
	}
	cfg.AckWait, cfg.Dial.Name = o.lease.AckWait, o.worker.Name
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	cfg.Dial.Closed = func() { lost(errClosed) }
	defer context.AfterFunc(
		ctx,
		func() { log.InfoContext(ctx, "draining", slog.Any(keyCause, context.Cause(ctx))) },
	)()
	conn, err := cli.Open(ctx, cfg, 0)
	if err != nil {
		return cli.Drained(err)
	}
	defer conn.Close()
	if err := cli.Provision(ctx, conn, bus.Provision{Replicas: o.replicas, Partitions: o.spread}, log); err != nil {
		return cli.Drained(err)
	}
	if err := o.worker.Work(ctx, conn, log); err != nil {
		return cli.Drained(err)
	}
	return cli.Drained(context.Cause(ctx))
}

// check finds out what is wrong before anything is started.
func (o *options) check() error {
	if o.replicas < 1 || o.replicas > 5 {
		return cli.Usage("--replicas %d: want 1 to 5", o.replicas)
	}
	if o.spread < 0 || o.spread > bus.MostPartitions {
		return cli.Usage("--partitions %d: want 1 to %d", o.spread, bus.MostPartitions)
	}
	if o.lease.AckWait <= 0 {
		return cli.Usage("--ack-wait %s: want more than nothing", o.lease.AckWait)
	}
	if err := o.embedded.check(&o.dial); err != nil {
		return err
	}
	return cli.Readable(o.worker.Agents)
}
