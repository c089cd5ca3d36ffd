package bench

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// runner is one of several things that are done in turn, so that what disturbs
// the machine disturbs all of them.
type runner struct {
	do   func(context.Context) error
	size int             // of a round
	took []time.Duration // each time
	wall time.Duration   // all rounds together
	used meter
}

// race has each runner do as much as takes a while, k at once, a round of one
// after a round of another. The first round of each is to warm up and does not
// count.
func (s *stand) race(ctx context.Context, k int, runners ...*runner) error {
	for _, r := range runners {
		if err := r.round(ctx, 2*k, k); err != nil {
			return err
		}
		once := r.wall / 2
		r.size = k * int(min(16, max(1, s.cfg.For/8/max(1, once))))
		r.took, r.wall = nil, 0
	}
	end := time.Now().Add(time.Duration(len(runners)) * s.cfg.For)
	for rounds := 0; rounds < fewest || time.Now().Before(end); rounds++ {
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
			r.used = r.used.and(after.since(before))
		}
	}
	return nil
}

// fewest is how many rounds there are at least, whatever they take.
const fewest = 3

// round does n, k at once.
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

// rate is how many were done in a second.
func (r *runner) rate() float64 { return float64(len(r.took)) / r.wall.Seconds() }

// at is the time within which that share of all was done.
func (r *runner) at(share float64) time.Duration {
	sorted := slices.Sorted(slices.Values(r.took))
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

// each is the share of one in a total.
func (r *runner) each(total float64) float64 { return total / float64(len(r.took)) }
