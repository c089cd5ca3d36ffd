package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/bench"
	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	benchLong = `Measure what runs cost beyond their model calls, as ratios to raw durable request and reply on the same server, in turn with
it, so that a busy machine slows both.

Without --server or --context everything is of this machine and of this moment: a NATS server with a store that is removed at
the end, a worker, and a model that answers at once, each in a process of its own. With one of them the bus that is there
is measured, its network and its disks, with workers that are started here; nothing of it is touched but what lies
below --prefix, which has to be unused and is removed at the end.

Beside a figure stands what it is to be, where there is an aim, and whether it is. One that was missed makes the exit code
1. What else runs on the machine counts: the ratios bear it, the times do not.

The workload scale is measured only when it is asked for: it makes --runs runs on one stream, --waiting of which wait (some
6 minutes and 1.2 GiB of disk for a million), and a worker with --agents agents more than the others.`

	benchExamples = `  axe bench
  axe bench --only leaf,fan-out --for 10s
  axe bench --only leaf --profile profiles   # go tool pprof -top profiles/leaf-worker-w1.cpu.pprof
  axe bench --only scale --runs 100000 --waiting 10000
  axe bench --sync always --output json | jq '.results[].metrics[] | select(.met == false)'
  axe bench --server nats://10.0.0.7:4222 --replicas 3`

	benchPart = "bench-part"
)

type benchOptions struct {
	dial     cli.DialFlags
	cmd      *cobra.Command
	cfg      bench.Config
	sync     string
	output   string
	progress bool
}

func benchCommand() *cobra.Command {
	o := &benchOptions{}
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure what runs cost, against raw JetStream", Long: benchLong, Example: benchExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.cmd = cmd
	o.dial.Register(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(
		&o.cfg.Only,
		"only",
		nil,
		"workloads: "+strings.Join(bench.Names(), ", ")+" (default all but scale)",
	)
	flags.DurationVar(&o.cfg.For, "for", 3*time.Second, "how long each thing is measured")
	flags.IntVar(&o.cfg.Slots, "slots", 64, "model calls at once of a worker, and runs in flight")
	flags.DurationVar(&o.cfg.Latency, "latency", 0, "what the model takes")
	flags.IntVar(&o.cfg.Parts, "partitions", 1, "streams that the runs are spread over")
	flags.IntVar(&o.cfg.Runs, "runs", 1_000_000, "of scale")
	flags.IntVar(&o.cfg.Waiting, "waiting", 100_000, "of the runs of scale")
	flags.IntVar(&o.cfg.Agents, "agents", 500, "of scale, that a worker serves beside the others")
	flags.StringVar(
		&o.cfg.Profile,
		"profile",
		"",
		"a directory for profiles of processor time and memory of each part",
	)
	flags.IntVar(&o.cfg.Replicas, "replicas", 1, "of the streams")
	flags.StringVar(
		&o.sync,
		"sync",
		"interval",
		"when a server of its own syncs: interval, as that of axe run, or always, as agentd --embedded",
	)
	flags.StringVarP(&o.output, "output", "o", "text", "text or json")
	flags.BoolVar(&o.progress, "progress", true, "say on stderr what is measured")
	return cmd
}

// benchPartCommand is a part of axe bench, which starts it.
func benchPartCommand() *cobra.Command {
	return &cobra.Command{
		Use: benchPart, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.Part(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func (o *benchOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	o.cfg.Command, o.cfg.Version, o.cfg.Stderr = []string{self, benchPart}, cli.Version(), os.Stderr
	if o.progress {
		o.cfg.Progress = os.Stderr
	}
	report, err := bench.Run(ctx, o.cfg)
	if err != nil {
		return err
	}
	write := report.Text
	if o.output == "json" {
		write = report.JSON
	}
	if err := write(o.cmd.OutOrStdout()); err != nil {
		return err
	}
	if missed := report.Missed(); len(missed) > 0 {
		return fmt.Errorf("%d aims were missed: %s", len(missed), strings.Join(missed, "; "))
	}
	return nil
}

// check makes a configuration of the flags.
func (o *benchOptions) check() error {
	if err := cli.CheckOutput(o.output); err != nil {
		return err
	}
	if o.sync != "always" && o.sync != "interval" {
		return cli.Usage("--sync %q: want interval or always", o.sync)
	}
	for _, name := range o.cfg.Only {
		if !slices.Contains(bench.Names(), name) {
			return cli.Usage("--only %s: want %s", name, strings.Join(bench.Names(), ", "))
		}
	}
	for flag, wrong := range map[string]bool{
		"for": o.cfg.For <= 0, "slots": o.cfg.Slots < 1, "latency": o.cfg.Latency < 0, "replicas": o.cfg.Replicas < 1,
		"partitions": o.cfg.Parts < 1 || o.cfg.Parts > bus.MostPartitions,
		"runs":       o.cfg.Runs < 1, "waiting": o.cfg.Waiting < 1 || o.cfg.Waiting > o.cfg.Runs, "agents": o.cfg.Agents < 1,
	} {
		if wrong {
			return cli.Usage("--%s %s is out of range", flag, o.cmd.Flags().Lookup(flag).Value)
		}
	}
	o.cfg.Sync, o.cfg.Attached = o.sync == "always", o.dial.Explicit()
	if o.cfg.Attached && o.cmd.Flags().Changed("sync") {
		return cli.Usage("--sync is of a server of its own")
	}
	cfg, err := o.dial.Config(nil, nil)
	if err != nil {
		return err
	}
	o.cfg.Dial = cfg.Dial
	// AXE_PREFIX is that of somebody's runs
	if o.cmd.PersistentFlags().Changed("prefix") {
		o.cfg.Prefix = cfg.Space.Prefix()
	}
	return nil
}
