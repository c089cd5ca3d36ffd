package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/otlp"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

const (
	// settleTime is the time after the end of a tree at which its record is
	// whole: runs below it that were cancelled end after it.
	settleTime = 2 * time.Second
	// exportRetryDelay is the pause before spans are sent again, and
	// maxExportRetryDelay its bound.
	exportRetryDelay    = time.Second
	maxExportRetryDelay = 30 * time.Second
)

// tracing holds the flags of axe export otel.
type tracing struct {
	session  *cli.SessionFlags
	options  otlp.Options
	once     bool
	stderr   io.Writer
	exporter *otlp.Exporter
	log      *slog.Logger
}

func exportOTelCommand(session *cli.SessionFlags) *cobra.Command {
	x := &tracing{session: session}
	cmd := &cobra.Command{
		Use: "otel [ID...]", Short: "Send traces of trees to a collector",
		Long: `Send the spans of trees that have ended to an OpenTelemetry collector, over
OTLP/HTTP. Without an id the command follows the bus: it sends each tree when it
has ended, the ones that are stored already first. The bus keeps its place in
the consumer otel, so it goes on where it was, here or on another machine. The
ids of spans follow from trees, runs and turns: a tree that is sent twice has
each span once.

The standard variables name the collector: OTEL_EXPORTER_OTLP_ENDPOINT,
…_HEADERS, …_TIMEOUT, …_COMPRESSION and …_CERTIFICATE, those with
OTEL_EXPORTER_OTLP_TRACES_…, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.

Exit codes: 0 exported, or ended by a signal, 1 the bus or the collector cannot
be used, 2 usage, no collector, or an unknown id.`,
		Example: `  export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318
  axe export otel
  axe export otel order4711 --trace-content`,
		RunE: func(cmd *cobra.Command, args []string) error {
			x.stderr = cmd.ErrOrStderr()
			return x.run(cmd.Context(), args)
		},
	}
	cmd.Flags().BoolVar(&x.options.Content, "trace-content", false,
		"send tasks, answers, arguments and results too")
	cmd.Flags().BoolVar(&x.once, "once", false, "end when all trees that have ended are sent")
	return cmd
}

func (x *tracing) run(ctx context.Context, args []string) (err error) {
	if x.exporter, err = otlp.FromEnv(os.Getenv, cli.ReadBuild(name).Version); err != nil {
		return cli.Fail(cli.CodeConfig, err)
	}
	if x.log, err = x.session.Logger(); err != nil {
		return err
	}
	return x.session.Use(ctx, func(ses *cli.Session) error {
		if len(args) == 0 {
			return cli.IgnoreSignal(x.follow(ctx, ses))
		}
		for _, id := range args {
			t, err := ses.Target(ctx, id)
			if err != nil {
				return err
			}
			s, err := ses.Snapshot(ctx, t.Tree)
			if err != nil {
				return err
			}
			if !s.Ended() {
				return cli.Usage("tree %s is at work: its spans are sent when it has ended", t.Tree)
			}
			if err := x.send(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// follow sends every tree that has ended, until ctx ends or, with once, until
// none is left.
func (x *tracing) follow(ctx context.Context, ses *cli.Session) error {
	leases, endLeases := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() { _ = ses.Conn.KeepLeases(leases) }) // it ends with the connection
	defer keeping.Wait()
	defer endLeases()
	all, ctx := errgroup.WithContext(ctx)
	for partition := range ses.Conn.Space().Partitions() {
		all.Go(func() error { return x.followPartition(ctx, ses, partition) })
	}
	return all.Wait()
}

// followPartition sends the trees of a partition. It opens the consumer again
// when the server has lost it.
func (x *tracing) followPartition(ctx context.Context, ses *cli.Session, partition int) error {
	for {
		err := x.pull(ctx, ses, partition)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !errors.Is(err, bus.ErrConsumerGone):
			return err
		}
		x.log.WarnContext(ctx, "consumer lost, opening it again", slog.Any("error", err))
		_ = pause.For(ctx, exportRetryDelay)
	}
}

// pull takes the outcomes of roots, and sends their trees.
func (x *tracing) pull(ctx context.Context, ses *cli.Session, partition int) error {
	consumer, err := ses.Conn.Consumer(ctx, bus.ConsumerConfig{
		Stream: "RUNS", Partition: partition, Name: "otel", Filters: []string{ses.Conn.Space().Results()},
		HeadersOnly: true,
	})
	if err != nil {
		return err
	}
	feed, err := consumer.Open(func() int { return 1 })
	if err != nil {
		return err
	}
	defer feed.Close()
	next := feed.Next
	if x.once {
		next = feed.Poll
	}
	for {
		d, err := next(ctx)
		if err != nil || d == nil {
			return err
		}
		if err := x.delivered(ctx, ses, d); err != nil {
			return err
		}
	}
}

// delivered sends the tree of the outcome of a root, and acknowledges it.
func (x *tracing) delivered(ctx context.Context, ses *cli.Session, d *bus.Delivery) error {
	at, err := ses.Conn.Space().Parse(d.Subject)
	if err != nil || at.Kind != subjects.Result {
		return d.Ack() // no worker wrote it
	}
	if err := pause.For(ctx, settleTime-ses.Conn.Clocks.Now().Sub(d.Time)); err != nil {
		return err
	}
	s, err := ses.Snapshot(ctx, at.Run.Tree)
	switch {
	case errors.Is(err, client.ErrUnknownTree):
		return d.Ack() // it was removed
	case err != nil:
		return err
	}
	err = x.send(ctx, s)
	if errors.Is(err, otlp.ErrRefused) {
		x.log.ErrorContext(ctx, "spans refused", slog.String("tree", at.Run.Tree.String()), slog.Any("error", err))
		return d.Ack()
	}
	if err != nil {
		return err
	}
	return d.Ack()
}

// send sends the spans of a tree. While the collector is away it tries again.
func (x *tracing) send(ctx context.Context, s *client.Snapshot) error {
	spans := otlp.Spans(s, x.options)
	for delay := exportRetryDelay; ; delay = min(2*delay, maxExportRetryDelay) {
		err := x.exporter.Export(ctx, spans)
		if !errors.Is(err, otlp.ErrPasses) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		fmt.Fprintf(x.stderr, "%s: %v; trying again in %s\n", name, err, delay)
		if err := pause.For(ctx, delay); err != nil {
			return err
		}
	}
}
