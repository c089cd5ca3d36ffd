package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
)

const (
	keyAgent = "agent" // in the log
	keyError = "error"
)

const (
	// a running bus that is not there
	connecting = 10 * time.Second
	farewell   = 3 * time.Second // a worker that drains
)

// run runs a task on a bus of its own, or on a running one.
func (o *options) run(ctx context.Context, args []string) error {
	if err := o.check(); err != nil {
		return err
	}
	screen := cli.Stderr()
	view, err := o.progress.View(screen, name)
	if err != nil {
		return err
	}
	log, err := o.log.Logger(screen, screen.Terminal())
	if err != nil {
		return err
	}
	j, err := o.job(ctx, args, log)
	if err != nil {
		return err
	}
	if o.dry || view.Verbose() && j.local() {
		b, err := o.brief(ctx, j)
		if err != nil {
			return err
		}
		if o.dry {
			return b.print(os.Stdout)
		}
		b.head(screen)
	}
	conn, done, err := o.connect(ctx, log)
	if err != nil {
		return err
	}
	defer done()
	submit := func(ctx context.Context) error { return o.submit(ctx, client.New(conn), j.task, view) }
	if o.works() {
		return o.work(ctx, conn, log, screen, submit)
	}
	if err := cli.Ready(ctx, conn); err != nil {
		return err
	}
	return submit(ctx)
}

// job is a task and, where this process serves its agent, the definition with
// the flags' changes.
type job struct {
	task  client.Task
	def   configs.Agent
	piped bool // the text came on standard input
}

func (j job) local() bool { return j.def.Name != "" }

// job reads what the command line names, and finds out what is wrong before
// anything is started.
func (o *options) job(ctx context.Context, args []string, log *slog.Logger) (job, error) {
	if o.works() || o.dry {
		o.worker.Root = o.change.apply
		o.worker.Timeout, o.worker.Grace, o.worker.Alone = o.limit(), farewell, !o.elsewhere()
		if err := o.worker.Load(log); err != nil {
			return job{}, err
		}
	}
	j, err := o.task(ctx, args)
	if err != nil || !j.local() {
		return j, err
	}
	if j.def.Memory.Enabled && !o.elsewhere() && o.worker.Memory(nil) == nil {
		log.WarnContext(
			ctx,
			"memory is on a bus: without --server it is neither read nor kept",
			slog.String(keyAgent, j.def.Name),
		)
	}
	if s := j.def.Supervision.WithDefaults(); s.Mode != configs.Unsupervised && !o.elsewhere() {
		if _, err := cli.Defined(o.worker.Agents, s.Agent); err != nil {
			log.WarnContext(
				ctx,
				"the supervisor cannot be asked: nothing that the agent wants to do is done",
				slog.String(keyAgent, j.def.Name),
				slog.Any(keyError, err),
			)
		}
	}
	_, _, err = o.worker.Open(j.def.Model)
	return j, err
}

// connect opens the bus; done closes all that it opened.
func (o *options) connect(ctx context.Context, log *slog.Logger) (_ *bus.Conn, done func(), err error) {
	var server *bus.Server
	closeServer := func() {}
	if !o.elsewhere() {
		if server, closeServer, err = temporary(log); err != nil {
			return nil, nil, err
		}
	}
	cfg, err := o.dial.Config(server, log)
	if err != nil {
		closeServer()
		return nil, nil, err
	}
	conn, err := cli.Open(ctx, cfg, connecting)
	if err != nil {
		closeServer()
		return nil, nil, err
	}
	return conn, func() {
		conn.Close()
		closeServer()
	}, nil
}

// temporary is a server that only this process reaches, and whose store goes
// with it.
func temporary(log *slog.Logger) (_ *bus.Server, done func(), err error) {
	dir, err := os.MkdirTemp("", "axe-run-")
	if err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	server, err := bus.Serve(bus.ServerConfig{StoreDir: dir, Log: log})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, nil, err
	}
	return server, func() {
		server.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

// work runs a worker for as long as then does. A signal does not end the
// worker, but what then does about it: a cancelled tree needs a worker to end.
func (o *options) work(
	ctx context.Context,
	conn *bus.Conn,
	log *slog.Logger,
	screen *cli.Screen,
	then func(context.Context) error,
) error {
	if err := cli.Provision(ctx, conn, bus.Provision{}, log); err != nil {
		return err
	}
	working, stop := context.WithCancel(context.WithoutCancel(ctx))
	ctx, broken := context.WithCancelCause(ctx)
	defer broken(nil)
	ended := make(chan struct{})
	// ended by stop; waited for below where others use the bus
	go func() {
		defer close(ended)
		if err := o.worker.Work(working, conn, log); err != nil {
			broken(err)
		}
	}()
	defer func() {
		// the bus ends with this process: nothing is left to anybody
		if !o.elsewhere() {
			o.worker.Quiet(ctx, farewell)
			screen.Mute()
			stop()
			return
		}
		stop()
		<-ended
	}()
	if err := cli.Announced(ctx, conn, o.worker.Agents); err != nil {
		return err
	}
	return then(ctx)
}

// submit hands over the task and prints the answer. ^C cancels the tree.
func (o *options) submit(ctx context.Context, c *client.Client, task client.Task, view *cli.View) error {
	tree, err := cli.Submit(ctx, c, task)
	if err != nil {
		return err
	}
	outcome, err := view.Attend(ctx, c, tree, o.limit())
	if _, signal := errors.AsType[cli.SignalError](err); signal {
		return cli.Fail(cli.Code(err), fmt.Errorf("%w, %s", err, cli.Abandon(ctx, c, tree, "interrupted")))
	}
	if err != nil {
		return err
	}
	if o.json {
		return printJSON(ctx, os.Stdout, c, tree, outcome)
	}
	return cli.Print(os.Stdout, "text", outcome)
}
