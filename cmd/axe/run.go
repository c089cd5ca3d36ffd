package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/configs"
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
	if !o.remote() {
		view.HideNames()
	}
	o.ask(screen, view)
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
	return o.use(ctx, log, screen, func(ctx context.Context, conn *bus.Conn) error {
		if !o.works() {
			// Without a card the default of --timeout holds.
			card, _, _ := cli.FindCard(ctx, conn, j.task.Agent.String())
			o.limitBy(card.Timeout)
			j.task.Timeout = o.limit()
		}
		return o.submit(ctx, conn, j.task, view)
	})
}

// job is a task for an agent.
type job struct {
	task client.Task
	// def is the agent's definition after the flags. It is empty if this
	// process is no worker, unless --dry-run needs it.
	def configs.Agent
	// stdin is the part of the task's text that came on standard input.
	stdin string
}

func (j job) local() bool { return j.def.Name != "" }

// job reads the agents and the task. It finds errors before anything is
// started.
func (o *options) job(ctx context.Context, args []string, log *slog.Logger) (job, error) {
	if o.works() || o.dry {
		o.worker.Root = o.change.apply
		o.worker.Grace, o.worker.Ephemeral = drainTimeout, !o.remote()
		if err := o.worker.Load(log); err != nil {
			return job{}, err
		}
	}
	j, err := o.task(ctx, args)
	o.worker.Timeout = o.limit()
	if err != nil || !j.local() {
		return j, err
	}
	if j.def.Memory.Enabled && !o.remote() && o.worker.Memory(nil) == nil {
		log.WarnContext(ctx, "memory is on a bus: without --server it is neither read nor kept",
			slog.String("agent", j.def.Name))
	}
	if _, _, err = o.worker.Open(j.def.Model); err != nil {
		return j, o.modelError(j.def, err)
	}
	return j, o.warn(j.def)
}

// modelError adds to the error of a model the place that names the model, if
// that is the agent's file.
func (o *options) modelError(def configs.Agent, err error) error {
	if o.change.model != "" || o.worker.Model != "" {
		return err
	}
	return fmt.Errorf("%s: model: %w", def.File, err)
}

// warn prints a warning for each mistake in the definitions of the tree. On a
// running bus the worker logs them, as other workers may serve more agents.
func (o *options) warn(root configs.Agent) error {
	if o.remote() {
		return nil
	}
	findings, err := o.worker.CheckTree(root)
	for _, f := range findings {
		warn(os.Stderr, errors.New(cli.Printable(f.String())))
	}
	return err
}

// submit submits the task and prints the answer. ^C cancels the tree.
func (o *options) submit(ctx context.Context, conn *bus.Conn, task client.Task, view *cli.View) error {
	c := client.New(conn)
	tree, err := cli.Submit(ctx, c, task)
	if err != nil {
		return err
	}
	outcome, err := view.Wait(ctx, c, tree)
	if _, signal := errors.AsType[cli.SignalError](err); signal {
		return fmt.Errorf("%w, %s", err, cli.CancelAbandoned(ctx, c, tree, "interrupted"))
	}
	if err != nil {
		return err
	}
	cli.Warn(name, outcome)
	saved := func(failed error) error {
		return o.artifacts.Save(ctx, name, cli.TreeClient{Client: c, Tree: tree}, failed)
	}
	if o.output.JSON() {
		return saved(printJSON(ctx, os.Stdout, c, tree, outcome))
	}
	err = cli.Print(os.Stdout, o.output, outcome)
	if o.remote() {
		err = cli.Explain(ctx, conn, err, outcome)
	}
	view.Summarise(tree, outcome)
	return saved(err)
}
