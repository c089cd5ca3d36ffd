package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/bus/busbench"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// scale fills a stream with runs, some of which wait, and measures beside a
// stand whose stream is empty: leaves, the start of a worker, and a run that
// waits and is written to. Then it measures a worker that serves many agents.
func scale(ctx context.Context, s *stand) (ms []Metric, err error) {
	cfg := s.cfg
	cfg.Prefix += "-empty"
	if cfg.Profile != "" {
		cfg.Profile = filepath.Join(cfg.Profile, "empty")
	}
	empty, err := set(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, empty.clear(ctx)) }()
	if err := errors.Join(s.hire(ctx, 1, false), empty.hire(ctx, 1, false)); err != nil {
		return nil, err
	}
	f := &filling{stand: s}
	for _, part := range []func(context.Context) ([]Metric, error){
		f.fill, f.rest,
		func(ctx context.Context) ([]Metric, error) { return s.against(ctx, empty) },
		f.wake,
		func(ctx context.Context) ([]Metric, error) { return s.starts(ctx, empty) },
		empty.many,
	} {
		more, err := part(ctx)
		if ms = append(ms, more...); err != nil {
			return ms, err
		}
	}
	return ms, nil
}

// filling is a stream with a history.
type filling struct {
	*stand
	begun time.Time
	made  int
	said  time.Time
	// of the worker, when it had done nothing
	before  usage
	waiting []subjects.Run // roots whose forks all wait
}

// fill has the worker make runs, those that wait first.
func (f *filling) fill(ctx context.Context) (ms []Metric, err error) {
	if f.before, err = f.workers[0].rests(); err != nil {
		return nil, err
	}
	f.begun, f.said = time.Now(), time.Now()
	for f.made < f.cfg.Waiting {
		if err := f.wait(ctx); err != nil {
			return nil, err
		}
	}
	if err := f.finish(ctx, f.cfg.Runs-f.made); err != nil {
		return nil, err
	}
	took := time.Since(f.begun)
	v, err := busbench.VolumeOf(ctx, f.conn)
	return []Metric{
		count(
			"runs",
			float64(f.made),
		), count("of which wait", float64(len(f.waiting)*(forks+2))), duration("made in", took),
		rate("made", float64(f.made)/took.Seconds()), count("stored messages", float64(v.Last)),
		{Name: "stored", Value: float64(v.Bytes), Unit: "B"},
	}, err
}

// wait makes a root that waits, and its forks, which do so too.
func (f *filling) wait(ctx context.Context) error {
	r, err := f.lead(ctx)
	if err != nil {
		return err
	}
	f.waiting = append(f.waiting, r)
	f.tell(forks + 2)
	return nil
}

// finish makes runs that end, a few trees at a time.
func (f *filling) finish(ctx context.Context, n int) error {
	largest := fans[len(fans)-1]
	for _, fan := range slices.Backward(fans) {
		trees := n / (fan + 1)
		n -= trees * (fan + 1)
		for trees > 0 {
			atOnce := min(trees, max(1, 2*largest/fan))
			all, ctx := errgroup.WithContext(ctx)
			for range atOnce {
				all.Go(func() error { return f.calls(fmt.Sprint("fan", fan))(ctx) })
			}
			if err := all.Wait(); err != nil {
				return err
			}
			trees -= atOnce
			f.tell(atOnce * (fan + 1))
		}
	}
	return nil
}

// tell counts runs that were made and says now and then how far that is.
func (f *filling) tell(n int) {
	f.made += n
	if time.Since(f.said) < 10*time.Second {
		return
	}
	f.said = time.Now()
	left := time.Duration(float64(time.Since(f.begun)) * float64(f.cfg.Runs-f.made) / float64(f.made))
	fmt.Fprintf(f.cfg.Progress, "scale: %d of %d runs made, %s to go\n", f.made, f.cfg.Runs, left.Round(time.Second))
}

// rest is what the worker has left of all that when it has had time to forget.
func (f *filling) rest(ctx context.Context) (_ []Metric, err error) {
	var after usage
	for end := time.Now().Add(forgets); after.Heap == 0 || after.Heap > f.before.Heap+2<<20 && time.Now().Before(end); {
		if err := pause.For(ctx, time.Second); err != nil {
			return nil, err
		}
		if after, err = f.workers[0].rests(); err != nil {
			return nil, err
		}
	}
	m, err := f.meter(ctx)
	if err != nil {
		return nil, err
	}
	ms := []Metric{
		count(
			"goroutines of the worker for each that waits",
			float64(after.Goroutines-f.before.Goroutines)/float64(f.cfg.Waiting),
		).atMost(
			0,
		),
		Metric{
			Name:  "heap of the worker for each that waits",
			Value: float64(after.Heap-f.before.Heap) / float64(f.cfg.Waiting),
			Unit:  "B",
		}.atMost(
			16,
		),
		memory("memory of the worker at most", m.workers.Peak),
	}
	if f.server != nil {
		ms = append(ms, memory("memory of the server at most", m.server.Peak))
	}
	return ms, nil
}

// forgets is how long a worker keeps something of a run that waits
// (agentd.Config.Cache), and some.
const forgets = 65 * time.Second

// against compares leaves with those of a stand whose stream is empty.
func (s *stand) against(ctx context.Context, empty *stand) ([]Metric, error) {
	full, none := &runner{do: s.leaf}, &runner{do: empty.leaf}
	if err := s.race(ctx, 1, full, none); err != nil {
		return nil, err
	}
	ms := []Metric{
		duration("a leaf, p50", full.at(.5)), duration("on an empty stream, p50", none.at(.5)),
		ratio("latency, of that on an empty stream", full.at(.5).Seconds()/none.at(.5).Seconds()).atMost(1.5),
	}
	full, none = &runner{do: full.do}, &runner{do: none.do}
	if err := s.race(ctx, s.cfg.Slots, full, none); err != nil {
		return nil, err
	}
	return append(ms, rate(fmt.Sprintf("%d at once", s.cfg.Slots), full.rate()),
		ratio("rate, of that on an empty stream", full.rate()/none.rate())), nil
}

// wake writes to runs that wait, each of another tree than the one before.
func (f *filling) wake(ctx context.Context) ([]Metric, error) {
	next := 0
	woken := &runner{do: func(ctx context.Context) error {
		fork := f.waiting[next%len(f.waiting)]
		fork.Path = fork.Path.Child(1, next/len(f.waiting)%forks)
		next++
		return f.stand.wake(ctx, fork)
	}}
	leaf := &runner{do: f.leaf}
	if err := f.race(ctx, 1, woken, leaf); err != nil {
		return nil, err
	}
	return []Metric{
		duration("one that waits and is written to, p50", woken.at(.5)),
		ratio("of a fresh leaf", woken.at(.5).Seconds()/leaf.at(.5).Seconds()).atMost(3),
	}, nil
}

// starts compares how long it takes from the start of a worker's process to the
// outcome of a leaf.
func (s *stand) starts(ctx context.Context, empty *stand) ([]Metric, error) {
	var starts [2]runner
	for range 5 {
		for i, one := range []*stand{s, empty} {
			if err := one.dismiss(); err != nil {
				return nil, err
			}
			begun := time.Now()
			if err := one.hire(ctx, 1, false); err != nil {
				return nil, err
			}
			starts[i].took = append(starts[i].took, time.Since(begun))
		}
	}
	full, none := starts[0].at(.5), starts[1].at(.5)
	return []Metric{
		duration("start of a worker, to its first outcome", full), duration("start on an empty stream", none),
		ratio("start, of that on an empty stream", full.Seconds()/none.Seconds()).atMost(1.5),
	}, nil
}

// many compares a worker that serves many agents with one that serves those of
// the workloads alone.
func (s *stand) many(ctx context.Context) ([]Metric, error) {
	var p50, idle, idleServer [2]float64
	var rates [2]float64
	for i, others := range []int{0, s.cfg.Agents} {
		s.others = others
		if err := s.hire(ctx, 1, false); err != nil {
			return nil, err
		}
		before, err := s.complete(ctx)
		if err != nil {
			return nil, err
		}
		begun := time.Now()
		if err := pause.For(ctx, 2*s.cfg.For); err != nil {
			return nil, err
		}
		after, err := s.meter(ctx)
		if err != nil {
			return nil, err
		}
		rested, wall := after.since(before), time.Since(begun).Seconds()
		idle[i], idleServer[i] = rested.workers.CPU.Seconds()/wall, rested.server.CPU.Seconds()/wall
		one, several := &runner{do: s.leaf}, &runner{do: s.leaf}
		if err := errors.Join(s.race(ctx, 1, one), s.race(ctx, s.cfg.Slots, several)); err != nil {
			return nil, err
		}
		p50[i], rates[i] = one.at(.5).Seconds(), several.rate()
	}
	name := fmt.Sprintf("%d more agents: ", s.cfg.Agents)
	return []Metric{
		ratio(
			name+"latency of a leaf, of that with few",
			p50[1]/p50[0],
		), ratio(name+"rate, of that with few", rates[1]/rates[0]),
		{Name: name + "cores taken by an idle worker", Value: idle[1]},
		{Name: "the same with few", Value: idle[0]},
		{Name: name + "cores taken by its server", Value: idleServer[1]},
		{Name: "the same with few", Value: idleServer[0]},
	}, nil
}

// complete waits until a worker has the consumers of all its agents: it answers
// for the first of them long before.
func (s *stand) complete(ctx context.Context) (now meter, err error) {
	for last := -1; now.Consumers != last; {
		last = now.Consumers
		if err := pause.For(ctx, time.Second); err != nil {
			return now, err
		}
		if now, err = s.meter(ctx); err != nil {
			return now, err
		}
	}
	return now, nil
}

// resting is what this process holds when what is garbage has been collected.
func resting() (u usage) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.Heap, u.Goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	return u
}
