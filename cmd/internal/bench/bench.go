package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
	// Prefix of all subjects; "": axebench. The workloads scale and agents
	// also use it with -empty and -few at its end. All streams below these
	// prefixes are removed at the end.
	Prefix string
	// Replicas of the streams.
	Replicas int
	// Partitions is the number of partitions of the runs.
	Partitions int
	// Sync makes the benchmark's own server sync before each
	// acknowledgement, as a resident server does.
	Sync bool
	// Slots of each worker, which is also the number of runs in flight.
	Slots int
	// Latency of the model.
	Latency time.Duration
	// For is the duration of each measurement.
	For time.Duration
	// Only lists workloads (Names); empty: all but the long ones.
	Only []string
	// Runs is the number of runs of the workload scale.
	Runs int
	// Waiting is the number of waiting runs among Runs.
	Waiting int
	// Agents is the number of additional agents of a worker in the
	// workloads scale and agents.
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

// OutOfRange returns the name of a number of the configuration that is out of
// range, "" if there is none. The names are those of the flags of axe bench.
func (c Config) OutOfRange() string {
	for name, wrong := range map[string]bool{
		"for": c.For <= 0, "slots": c.Slots < 1, "latency": c.Latency < 0, "replicas": c.Replicas < 1,
		"partitions": c.Partitions < 1 || c.Partitions > bus.MostPartitions,
		"runs":       c.Runs < 1,
		"waiting":    c.Waiting < 1 || c.Waiting > c.Runs && !slices.Equal(c.Only, []string{"view"}),
		"agents":     c.Agents < 1,
	} {
		if wrong {
			return name
		}
	}
	return ""
}

// Run measures the workloads. After an error the report has the results of the
// workloads before it.
func Run(ctx context.Context, cfg Config) (r Report, err error) {
	if len(cfg.Command) == 0 {
		return r, errors.New("command must be set")
	}
	if name := cfg.OutOfRange(); name != "" {
		return r, fmt.Errorf("%s is out of range", name)
	}
	cfg.Prefix = cmp.Or(cfg.Prefix, "axebench")
	cfg.Progress = cmp.Or(cfg.Progress, io.Discard)
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
