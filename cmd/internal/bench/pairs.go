package bench

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// pairTime, times Config.For, is the time for the pairs of workers of a
// comparison. With 3 s and one operation there are ten pairs.
const pairTime = 25

// pair measures an operation of an agent that a worker without a setting
// serves, off, and one with it, on.
type pair struct {
	do func(context.Context, string) error
	// size is the number of operations of a batch, of which the runners
	// measure the duration; 0: one operation, and no others beside it.
	size    int
	off, on runner
}

// cpu is the CPU time of the worker with the setting, of that without.
func (p *pair) cpu() float64 {
	cpu := func(r *runner) float64 { return r.perRun(r.used.workers.CPU.Seconds()) }
	return cpu(&p.on) / cpu(&p.off)
}

// comparePairs compares what workers do with a setting and without it. Two
// workers run side by side, and work in turn. Each pair of processes has luck
// of its own, so there are several, and the one with the setting is the first or
// the second in turn.
func (s *testbed) comparePairs(ctx context.Context, set func(*processConfig), all ...*pair) error {
	end := time.Now().Add(pairTime * s.cfg.For)
	for n := 0; n < 2 || n%2 == 1 || time.Now().Before(end); n++ {
		on := n % 2
		if err := s.startPair(ctx, on, set); err != nil {
			return err
		}
		for _, p := range all {
			runners := []*runner{&p.off, &p.on}
			if on == 0 {
				slices.Reverse(runners)
			}
			for i, r := range runners {
				r.do = p.operation(s.cfg.Slots, twin(i), s.workers[i].url)
			}
			if err := s.compare(ctx, 1, runners...); err != nil {
				return err
			}
		}
	}
	return nil
}

// startPair replaces all workers by two. Each serves a twin, and the parent of
// it. The worker of the twin number on has the setting.
func (s *testbed) startPair(ctx context.Context, on int, set func(*processConfig)) error {
	var pair [2]processConfig
	for i := range pair {
		pair[i] = s.workerConfig(false)
		pair[i].Only = []string{twin(i), parentOf(twin(i))}
	}
	set(&pair[on])
	pair[0].Only = append(pair[0].Only, "leaf") // for replaceWorkers
	if err := s.replaceWorkers(ctx, 1, pair[0]); err != nil {
		return err
	}
	return s.addWorker(ctx, pair[1])
}

// operation returns the operation of a runner: of an agent, whose worker has
// metrics at a URL. Slots are the operations of a batch at once.
func (p *pair) operation(slots int, agent, url string) func(context.Context) error {
	do := scraped(url, func(ctx context.Context) error { return p.do(ctx, agent) })
	if p.size == 0 {
		return do
	}
	return func(ctx context.Context) error { return (&runner{do: do}).round(ctx, p.size, slots) }
}

// twin is an agent that answers at once, one of two. Each has a parent that
// calls it.
func twin(i int) string { return fmt.Sprint("twin", i) }

// parentOf is the agent that calls a twin.
func parentOf(twin string) string { return "parent-" + twin }
