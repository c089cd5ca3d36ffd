package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/axebus/axe/bus/busbench"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// scale fills a stream with runs, some of them waiting, and measures the
// resources that the worker takes then. It compares leaves, and the start of a
// worker, with those of a testbed that has an empty stream. It compares mail to
// a waiting run with a leaf on the same stream. Last it compares a worker that
// serves many agents with a worker that serves few.
func scale(ctx context.Context, s *testbed) (ms []Metric, err error) {
	cfg := s.cfg
	cfg.Prefix += "-empty"
	if cfg.Profile != "" {
		cfg.Profile = filepath.Join(cfg.Profile, "empty")
	}
	empty, err := newTestbed(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, empty.close(ctx)) }()
	if err := errors.Join(s.startWorkers(ctx, 1, false), empty.startWorkers(ctx, 1, false)); err != nil {
		return nil, err
	}
	f := &filling{testbed: s}
	for _, part := range []func(context.Context) ([]Metric, error){
		f.fill, f.idleCost,
		func(ctx context.Context) ([]Metric, error) { return s.against(ctx, empty) },
		f.wake,
		func(ctx context.Context) ([]Metric, error) { return s.starts(ctx, empty) },
		empty.manyAgents,
	} {
		more, err := part(ctx)
		ms = append(ms, more...)
		if err != nil {
			return ms, err
		}
	}
	return ms, nil
}

// filling is a testbed with many runs on its stream.
type filling struct {
	*testbed
	began time.Time
	// made is the number of runs made so far.
	made int
	// reported is the time of the last line of progress.
	reported time.Time
	// before is the usage of the worker before its first run.
	before usage
	// waiting are roots with forks that all wait.
	waiting []subjects.Run
}

// fill makes all runs, the waiting ones first.
func (f *filling) fill(ctx context.Context) (ms []Metric, err error) {
	if f.before, err = f.workers[0].idle(); err != nil {
		return nil, err
	}
	f.began, f.reported = time.Now(), time.Now()
	for f.made < f.cfg.Waiting {
		// A waiting root has its idle forks, and one more that it waits for.
		r, err := f.lead(ctx)
		if err != nil {
			return nil, err
		}
		f.waiting = append(f.waiting, r)
		f.progress(forks + 2)
	}
	if err := f.finish(ctx, f.cfg.Runs-f.made); err != nil {
		return nil, err
	}
	took := time.Since(f.began)
	v, err := busbench.VolumeOf(ctx, f.conn)
	return []Metric{
		count("runs", float64(f.made)), count("of which wait", float64(len(f.waiting)*(forks+2))),
		duration("made in", took), rate("made", float64(f.made)/took.Seconds()),
		count("stored messages", float64(v.Last)), size("stored", v.Bytes),
	}, err
}

// finish makes runs that complete, a few trees at a time.
func (f *filling) finish(ctx context.Context, n int) error {
	largest := fans[len(fans)-1]
	for _, fan := range slices.Backward(fans) {
		trees := n / (fan + 1)
		n -= trees * (fan + 1)
		for trees > 0 {
			atOnce := min(trees, max(1, 2*largest/fan))
			if err := times(ctx, atOnce, f.calls(fmt.Sprint("fan", fan))); err != nil {
				return err
			}
			trees -= atOnce
			f.progress(atOnce * (fan + 1))
		}
	}
	return nil
}

// progress counts n more runs, and reports the progress every ten seconds.
func (f *filling) progress(n int) {
	f.made += n
	if time.Since(f.reported) < 10*time.Second {
		return
	}
	f.reported = time.Now()
	left := time.Duration(float64(time.Since(f.began)) * float64(f.cfg.Runs-f.made) / float64(f.made))
	fmt.Fprintf(f.cfg.Progress, "scale: %d of %d runs made, %s to go\n", f.made, f.cfg.Runs, left.Round(time.Second))
}

// idleCost measures the resources of the worker once its cache has expired.
func (f *filling) idleCost(ctx context.Context) (_ []Metric, err error) {
	var after usage
	end := time.Now().Add(cacheTime)
	for after.Heap == 0 || after.Heap > f.before.Heap+2<<20 && time.Now().Before(end) {
		if err := pause.For(ctx, time.Second); err != nil {
			return nil, err
		}
		if after, err = f.workers[0].idle(); err != nil {
			return nil, err
		}
	}
	m, err := f.meter(ctx)
	if err != nil {
		return nil, err
	}
	goroutines, heap := float64(after.Goroutines-f.before.Goroutines), float64(after.Heap-f.before.Heap)
	ms := []Metric{
		count("goroutines of the worker for each waiting run", goroutines/float64(f.cfg.Waiting)).atMost(0),
		size("heap of the worker for each waiting run", heap/float64(f.cfg.Waiting)).atMost(16),
		size("memory of the worker at most", m.workers.Peak),
	}
	if f.server != nil {
		ms = append(ms, size("memory of the server at most", m.server.Peak))
	}
	return ms, nil
}

// cacheTime is longer than a worker keeps the state of a waiting run
// (agentd.Config.Cache).
const cacheTime = 65 * time.Second

// against compares leaves with leaves on an empty stream.
func (s *testbed) against(ctx context.Context, empty *testbed) ([]Metric, error) {
	full, none := &runner{do: s.leaf}, &runner{do: empty.leaf}
	if err := s.compare(ctx, 1, full, none); err != nil {
		return nil, err
	}
	ms := []Metric{
		duration("a leaf, p50", full.quantile(.5)), duration("on an empty stream, p50", none.quantile(.5)),
		quotient("latency, of that on an empty stream", full, none).atMost(1.5),
	}
	full, none = &runner{do: full.do}, &runner{do: none.do}
	if err := s.compare(ctx, s.cfg.Slots, full, none); err != nil {
		return nil, err
	}
	return append(ms, rate(fmt.Sprintf("%d at once", s.cfg.Slots), full.rate()),
		ratio("rate, of that on an empty stream", full.rate()/none.rate())), nil
}

// wake writes to waiting runs, each in another tree than the one before.
func (f *filling) wake(ctx context.Context) ([]Metric, error) {
	woken, leaf, err := f.compareMail(ctx, f.waiting...)
	if err != nil {
		return nil, err
	}
	return []Metric{
		duration("mail to a waiting run, p50", woken.quantile(.5)),
		quotient("of a fresh leaf", woken, leaf).atMost(3),
	}, nil
}

// starts compares the time from the start of a worker's process to the outcome
// of a leaf.
func (s *testbed) starts(ctx context.Context, empty *testbed) ([]Metric, error) {
	var starts [2]runner
	for range 5 {
		for i, one := range []*testbed{s, empty} {
			if err := one.stopWorkers(); err != nil {
				return nil, err
			}
			began := time.Now()
			if err := one.startWorkers(ctx, 1, false); err != nil {
				return nil, err
			}
			starts[i].took = append(starts[i].took, time.Since(began))
		}
	}
	full, none := &starts[0], &starts[1]
	return []Metric{
		duration("start of a worker, to its first outcome", full.quantile(.5)),
		duration("start on an empty stream", none.quantile(.5)),
		quotient("start, of that on an empty stream", full, none).atMost(1.5),
	}, nil
}

// manyAgents compares a worker that serves many agents with a worker that
// serves the agents of the workloads alone.
func (s *testbed) manyAgents(ctx context.Context) ([]Metric, error) {
	var p50, rates, idle, idleServer [2]float64
	for i, others := range []int{0, s.cfg.Agents} {
		s.extraAgents = others
		if err := s.startWorkers(ctx, 1, false); err != nil {
			return nil, err
		}
		before, err := s.settled(ctx)
		if err != nil {
			return nil, err
		}
		began := time.Now()
		if err := pause.For(ctx, 2*s.cfg.For); err != nil {
			return nil, err
		}
		after, err := s.meter(ctx)
		if err != nil {
			return nil, err
		}
		wall := time.Since(began).Seconds()
		idle[i] = (after.workers.CPU - before.workers.CPU).Seconds() / wall
		idleServer[i] = (after.server.CPU - before.server.CPU).Seconds() / wall
		one, several := &runner{do: s.leaf}, &runner{do: s.leaf}
		if err := errors.Join(s.compare(ctx, 1, one), s.compare(ctx, s.cfg.Slots, several)); err != nil {
			return nil, err
		}
		p50[i], rates[i] = one.quantile(.5).Seconds(), several.rate()
	}
	name := fmt.Sprintf("%d more agents: ", s.cfg.Agents)
	return []Metric{
		ratio(name+"latency of a leaf, of that with few", p50[1]/p50[0]),
		ratio(name+"rate, of that with few", rates[1]/rates[0]),
		count(name+"cores taken by an idle worker", idle[1]), count("the same with few", idle[0]),
		count(name+"cores taken by its server", idleServer[1]), count("the same with few", idleServer[0]),
	}, nil
}

// settled waits until the number of consumers has not changed for a second. A
// worker serves its first agents long before it has the consumers of all.
func (s *testbed) settled(ctx context.Context) (now meter, err error) {
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

// idleUsage is the usage of this process at rest, without garbage.
func idleUsage() (u usage) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	u.Heap, u.Goroutines = int64(m.HeapAlloc), runtime.NumGoroutine()
	return u
}
