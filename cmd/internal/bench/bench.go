package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/axebus/axe/bus"
)

// Config says which workloads are measured, and on which bus.
type Config struct {
	// Attached is true to measure the running bus of Dial. Otherwise the
	// benchmark starts a server of its own.
	Attached bool
	// Dial is the running bus.
	Dial bus.Dial
	// Prefix of all subjects; "": axebench. All streams below it are
	// removed at the end.
	Prefix string
	// Replicas of the streams; 0: 1.
	Replicas int
	// Partitions is the number of partitions of the runs; 0: 1.
	Partitions int
	// Sync makes the benchmark's own server sync before each
	// acknowledgement, as a resident server does.
	Sync bool
	// Slots of each worker, which is also the number of runs in flight; 0:
	// 64.
	Slots int
	// Latency of the model.
	Latency time.Duration
	// For is the duration of each measurement; 0: 3 s.
	For time.Duration
	// Only lists workloads (Names); empty: all but the long ones.
	Only []string
	// Runs is the number of runs of the workload scale; 0: 1,000,000.
	Runs int
	// Waiting is the number of waiting runs among Runs; 0: 100,000.
	Waiting int
	// Agents is the number of additional agents of a worker in the workload
	// scale; 0: 500.
	Agents int
	// Profile is a directory for the CPU and heap profiles of each process;
	// "": none.
	Profile string
	// Command is the program and the arguments that call RunProcess.
	Command []string
	// Version of the program, for the report.
	Version string
	// Progress receives lines about the progress of each workload; nil:
	// none.
	Progress io.Writer
	// Stderr of the processes; nil: discarded.
	Stderr io.Writer
}

func (c Config) validate() (Config, error) {
	c.Prefix = cmp.Or(c.Prefix, "axebench")
	c.Slots = cmp.Or(c.Slots, 64)
	c.For = cmp.Or(c.For, 3*time.Second)
	c.Partitions = cmp.Or(c.Partitions, 1)
	c.Runs = cmp.Or(c.Runs, 1_000_000)
	c.Waiting = cmp.Or(c.Waiting, 100_000)
	c.Agents = cmp.Or(c.Agents, 500)
	c.Progress = cmp.Or(c.Progress, io.Discard)
	switch {
	case len(c.Command) == 0:
		return c, errors.New("command must be set")
	case c.Slots < 1:
		return c, fmt.Errorf("slots must be positive, got %d", c.Slots)
	case c.Latency < 0:
		return c, fmt.Errorf("latency must not be negative, got %s", c.Latency)
	case c.For < 0:
		return c, fmt.Errorf("duration must be positive, got %s", c.For)
	case c.Replicas < 0:
		return c, fmt.Errorf("replicas must be positive, got %d", c.Replicas)
	case c.Partitions < 1 || c.Partitions > bus.MostPartitions:
		return c, fmt.Errorf("partitions must be 1 to %d, got %d", bus.MostPartitions, c.Partitions)
	case c.Waiting < 0 || c.Waiting > c.Runs:
		return c, fmt.Errorf("waiting runs must be 0 to %d (all runs), got %d", c.Runs, c.Waiting)
	case c.Agents < 0:
		return c, fmt.Errorf("agents must not be negative, got %d", c.Agents)
	}
	return c, nil
}

// Run measures the workloads. After an error the report has the results of the
// workloads before it.
func Run(ctx context.Context, cfg Config) (r Report, err error) {
	if cfg, err = cfg.validate(); err != nil {
		return r, err
	}
	r = newReport(cfg)
	s, err := newTestbed(ctx, cfg)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	for _, w := range workloads {
		if !w.wanted(cfg.Only) {
			continue
		}
		s.workload = w.name
		began := time.Now()
		fmt.Fprintf(cfg.Progress, "%s: %s …\n", w.name, w.about)
		ms, err := w.run(ctx, s)
		if err != nil {
			return r, fmt.Errorf("%s: %w", w.name, err)
		}
		r.Results = append(r.Results, Result{w.name, w.about, ms})
		fmt.Fprintf(cfg.Progress, "%s: done in %s\n", w.name, time.Since(began).Round(100*time.Millisecond))
	}
	return r, nil
}
