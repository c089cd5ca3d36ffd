package bench

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// runner measures one operation. Several runners are measured in turn, so that
// other load on the machine slows all of them.
type runner struct {
	do func(context.Context) error
	// size is the number of operations of a round.
	size int
	// took is the duration of each operation.
	took []time.Duration
	// wall is the duration of all rounds together.
	wall time.Duration
	// used is the resources that all rounds used.
	used meter
}

// compare measures all runners for Config.For each, with k operations at once:
// a round of one runner, then a round of the next. The first round of each
// warms up and does not count. What a runner measured before is kept.
func (s *testbed) compare(ctx context.Context, k int, runners ...*runner) error {
	for _, r := range runners {
		warming := &runner{do: r.do}
		if err := warming.round(ctx, 2*k, k); err != nil {
			return err
		}
		once := warming.wall / 2
		r.size = k * int(min(16, max(1, s.cfg.For/8/max(1, once))))
	}
	end := time.Now().Add(time.Duration(len(runners)) * s.cfg.For)
	for rounds := 0; rounds < minRounds || time.Now().Before(end); rounds++ {
		for _, r := range runners {
			before, err := s.meter(ctx)
			if err != nil {
				return err
			}
			if err := r.round(ctx, r.size, k); err != nil {
				return err
			}
			after, err := s.meter(ctx)
			if err != nil {
				return err
			}
			r.used.add(before, after)
		}
	}
	return nil
}

// minRounds is the least number of rounds of each runner.
const minRounds = 3

// round carries out n operations, k at once.
func (r *runner) round(ctx context.Context, n, k int) error {
	took := make([]time.Duration, n)
	start := time.Now()
	all, ctx := errgroup.WithContext(ctx)
	for i := range k {
		all.Go(func() error {
			for at := i; at < n; at += k {
				begun := time.Now()
				if err := r.do(ctx); err != nil {
					return err
				}
				took[at] = time.Since(begun)
			}
			return nil
		})
	}
	err := all.Wait()
	r.wall += time.Since(start)
	r.took = append(r.took, took...)
	return err
}

// times carries out an operation n times, all at once.
func times(ctx context.Context, n int, do func(context.Context) error) error {
	all, ctx := errgroup.WithContext(ctx)
	for range n {
		all.Go(func() error { return do(ctx) })
	}
	return all.Wait()
}

// rate is the number of operations a second.
func (r *runner) rate() float64 { return float64(len(r.took)) / r.wall.Seconds() }

// quantile is the duration that the given share of all operations did not
// exceed.
func (r *runner) quantile(share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(r.took))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// perRun divides a total by the number of operations.
func (r *runner) perRun(total float64) float64 { return total / float64(len(r.took)) }

// cpu is the CPU time of 1,000 operations.
func (r *runner) cpu(name string, u usage) Metric {
	return seconds(name, r.perRun(u.CPU.Seconds())*1000)
}
