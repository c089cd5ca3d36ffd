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

// Config says what is measured, and where.
type Config struct {
	Attached bool          // to the bus of Dial; otherwise there is a server for the time of the benchmark
	Dial     bus.Dial      // of a bus that is there
	Prefix   string        // of all subjects; "": axebench. What lies below it is removed at the end
	Replicas int           // of the streams; 0: 1
	Sync     bool          // the benchmark's own server syncs before each acknowledgement, as a resident one does
	Slots    int           // of each worker, and how many runs are in flight at most; 0: 64
	Latency  time.Duration // of the model
	For      time.Duration // how long each thing is measured; 0: 3 s
	Only     []string      // of Names; none: all
	Command  []string      // the program, and its arguments, that is a part (Part)
	Version  string        // of the program
	Progress io.Writer     // a line for each workload; nil: none
	Stderr   io.Writer     // of the parts; nil: nowhere
}

func (c Config) validate() (Config, error) {
	c.Prefix, c.Slots, c.For = cmp.Or(c.Prefix, "axebench"), cmp.Or(c.Slots, 64), cmp.Or(c.For, 3*time.Second)
	c.Progress = cmp.Or(c.Progress, io.Discard)
	switch {
	case len(c.Command) == 0:
		return c, errors.New("bench: Config.Command is required")
	case c.Slots < 1 || c.Latency < 0 || c.For < 0 || c.Replicas < 0:
		return c, errors.New("slots, a duration or replicas are out of range")
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
		if len(cfg.Only) > 0 && !slices.Contains(cfg.Only, w.name) {
			continue
		}
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
