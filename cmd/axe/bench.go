package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axebus/axe/cmd/internal/bench"
	"github.com/axebus/axe/cmd/internal/cli"
)

const (
	benchLong = `Measure the cost of runs beyond their model calls. The figures are ratios to raw
durable request and reply on the same server. Both are measured in turn, so that
a busy machine slows both.

Without --server or --context the command starts a NATS server whose store is
removed at the end, a worker, and a model that answers at once, each in a
process of its own. With --server or --context the command measures a running
bus, with its network and its disks, and starts workers here. It touches nothing
on that bus but the subjects below --prefix. The prefix must be unused; the
command removes it at the end.

A figure with an aim is printed with the aim and a verdict. A missed aim makes
the exit code 1. Other load on the machine changes times, but hardly the ratios.

Some workloads are measured only on request. scale makes --runs runs on one
stream, of which --waiting wait (6 minutes and 1.2 GiB of disk for a million),
and a worker with --agents more agents than in the other workloads. view stores
the messages of --runs runs, and measures axe ps and axe show on them. observe
measures what metrics and 200 followers of a tree cost, and signed what signed
outcomes cost. crash kills workers. agents compares workers with and without
--agents more.`

	benchExamples = `  axe bench
  axe bench --only leaf,fan-out --for 10s
  axe bench --only leaf --profile profiles
  go tool pprof -top profiles/leaf-worker-w1.cpu.pprof
  axe bench --only scale --runs 100000 --waiting 10000
  axe bench --output json | jq '.results[].metrics[] | select(.met == false)'
  axe bench --server nats://10.0.0.7:4222 --replicas 3`

	benchPart = "bench-part"
)

type benchOptions struct {
	dial     cli.DialFlags
	cmd      *cobra.Command
	cfg      bench.Config
	sync     string
	output   cli.Output
	progress bool
}

func benchCommand() *cobra.Command {
	o := &benchOptions{cfg: bench.Config{For: 3 * time.Second}}
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure the cost of runs against raw JetStream",
		Long: benchLong, Example: benchExamples, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.cmd = cmd
	o.dial.Register(cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&o.cfg.Only, "only", nil,
		"workloads: "+strings.Join(bench.Names(), ", ")+" (default all but "+strings.Join(bench.OnRequest(), ", ")+")")
	flags.Var((*cli.Seconds)(&o.cfg.For), "for", "duration of each measurement")
	flags.IntVar(&o.cfg.Slots, "slots", 64, "slots of a worker, and runs in flight")
	flags.Var((*cli.Seconds)(&o.cfg.Latency), "latency", "latency of the model")
	flags.IntVar(&o.cfg.Partitions, "partitions", 1, "number of streams over which runs are spread")
	flags.IntVar(&o.cfg.Runs, "runs", 1_000_000, "number of runs in scale and view")
	flags.IntVar(&o.cfg.Waiting, "waiting", 100_000, "number of waiting runs in scale")
	flags.IntVar(&o.cfg.Agents, "agents", 500, "number of additional agents of a worker in scale and agents")
	flags.StringVar(&o.cfg.Profile, "profile", "", "directory for CPU and memory profiles of each process")
	flags.IntVar(&o.cfg.Replicas, "replicas", 1, "replicas of the streams")
	flags.StringVar(&o.sync, "sync", "interval",
		"sync of the command's own server: interval, as in axe run, or always, as in agentd --embedded")
	o.output.Register(cmd, "text or json")
	flags.BoolVar(&o.progress, "progress", true, "report progress on stderr")
	return cmd
}

// benchPartCommand is one process of axe bench. axe bench starts it.
func benchPartCommand() *cobra.Command {
	return &cobra.Command{
		Use: benchPart, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return bench.RunProcess(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
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
	o.cfg.Command = []string{self, benchPart}
	o.cfg.Version = cli.ReadBuild(name).Version
	o.cfg.Stderr = os.Stderr
	if o.progress {
		o.cfg.Progress = os.Stderr
	}
	report, err := bench.Run(ctx, o.cfg)
	if err != nil {
		return err
	}
	if o.output.JSON() {
		err = cli.PrintJSON(o.cmd.OutOrStdout(), report)
	} else {
		err = report.Text(o.cmd.OutOrStdout())
	}
	if err != nil {
		return err
	}
	if missed := report.Missed(); len(missed) > 0 {
		return fmt.Errorf("%d aims were missed: %s", len(missed), strings.Join(missed, "; "))
	}
	return nil
}

// check validates the flags and completes the configuration.
func (o *benchOptions) check() error {
	if o.sync != "always" && o.sync != "interval" {
		return cli.Usage("--sync must be interval or always, got %q", o.sync)
	}
	for _, name := range o.cfg.Only {
		if !slices.Contains(bench.Names(), name) {
			return cli.Usage("--only must be one of %s, got %s", strings.Join(bench.Names(), ", "), name)
		}
	}
	if flag := o.cfg.OutOfRange(); flag != "" {
		return cli.Usage("--%s %s is out of range", flag, o.cmd.Flags().Lookup(flag).Value)
	}
	o.cfg.Sync, o.cfg.Attached = o.sync == "always", o.dial.Explicit()
	if o.cfg.Attached && o.cmd.Flags().Changed("sync") {
		return cli.Usage("--sync applies to the command's own server, not to a running bus")
	}
	cfg, err := o.dial.Config(nil, nil)
	if err != nil {
		return err
	}
	o.cfg.Dial = cfg.Dial
	// AXE_PREFIX names the prefix of real runs. The benchmark does not use
	// it.
	if o.cmd.PersistentFlags().Changed("prefix") {
		o.cfg.Prefix = cfg.Space.Prefix()
	}
	return nil
}
