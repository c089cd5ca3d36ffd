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

// Config says what is measured, and where.
type Config struct {
	// to the bus of Dial; otherwise there is a server for the time of the
	// benchmark
	Attached bool
	Dial     bus.Dial // of a bus that is there
	// of all subjects; "": axebench. What lies below it is removed at the
	// end
	Prefix   string
	Replicas int // of the streams; 0: 1
	// partitions that the runs are spread over; 0: 1
	Parts int
	// the benchmark's own server syncs before each acknowledgement, as a
	// resident one does
	Sync bool
	// of each worker, and how many runs are in flight at most; 0: 64
	Slots   int
	Latency time.Duration // of the model
	// how long each thing is measured; 0: 3 s
	For time.Duration
	// of Names; none: all but those that take long
	Only []string
	// on the stream of the workload scale; 0: 1,000,000
	Runs    int
	Waiting int // of these; 0: 100,000
	// that a worker serves besides, in that workload; 0: 500
	Agents int
	// a directory: profiles of processor time and memory of each part; "":
	// none
	Profile string
	// the program, and its arguments, that is a part (Part)
	Command []string
	Version string // of the program
	// a line for each workload; nil: none
	Progress io.Writer
	Stderr   io.Writer // of the parts; nil: nowhere
}

func (c Config) validate() (Config, error) {
	c.Prefix, c.Slots, c.For = cmp.Or(c.Prefix, "axebench"), cmp.Or(c.Slots, 64), cmp.Or(c.For, 3*time.Second)
	c.Parts = cmp.Or(c.Parts, 1)
	c.Runs, c.Waiting, c.Agents = cmp.Or(c.Runs, 1_000_000), cmp.Or(c.Waiting, 100_000), cmp.Or(c.Agents, 500)
	c.Progress = cmp.Or(c.Progress, io.Discard)
	switch {
	case len(c.Command) == 0:
		return c, errors.New("bench: Config.Command is required")
	case c.Slots < 1 || c.Latency < 0 || c.For < 0 || c.Replicas < 0:
		return c, errors.New("slots, a duration or replicas are out of range")
	case c.Parts < 1 || c.Parts > bus.MostPartitions:
		return c, fmt.Errorf("%d partitions: want 1 to %d", c.Parts, bus.MostPartitions)
	case c.Waiting < 0 || c.Runs < c.Waiting || c.Agents < 0:
		return c, errors.New("runs that wait are a part of the runs, and agents are not less than none")
	}
	return c, nil
}

// Run measures. What was measured until an error is in the report.
func Run(ctx context.Context, cfg Config) (r Report, err error) {
	if cfg, err = cfg.validate(); err != nil {
		return r, err
	}
	r = newReport(cfg)
	s, err := set(ctx, cfg)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.clear(ctx)) }()
	for _, w := range workloads {
		if !w.wanted(cfg.Only) {
			continue
		}
		s.doing = w.name
		begun := time.Now()
		fmt.Fprintf(cfg.Progress, "%s: %s …\n", w.name, w.about)
		ms, err := w.run(ctx, s)
		if err != nil {
			return r, fmt.Errorf("%s: %w", w.name, err)
		}
		r.Results = append(r.Results, Result{w.name, w.about, ms})
		fmt.Fprintf(cfg.Progress, "%s: done in %s\n", w.name, time.Since(begun).Round(100*time.Millisecond))
	}
	return r, nil
}
