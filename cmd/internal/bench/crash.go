package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

const (
	// crashes is the number of workers that are killed beside another one,
	// and lonelyCrashes that of those that are alone.
	crashes       = 50
	lonelyCrashes = 10
	// crashLatency is the latency of the model, and crashAfter the time for
	// which a request has been made when its worker is killed.
	crashLatency = 3 * time.Second
	crashAfter   = time.Second
	// repeatTimeout is the time in which a request has to be repeated.
	repeatTimeout = time.Minute
)

// crash kills workers a second into a request to the model, and measures the
// time until another worker repeats the request. The time counts from the kill
// or, for a worker that was alone, from the start of the next one. Then it
// looks whether live workers are taken for dead under load.
func crash(ctx context.Context, s *testbed) ([]Metric, error) {
	latency := s.cfg.Latency
	s.cfg.Latency = crashLatency
	defer func() { s.cfg.Latency = latency }()
	var beside, alone runner
	for _, part := range []struct {
		workers, kills int
		to             *runner
	}{{2, crashes, &beside}, {1, lonelyCrashes, &alone}} {
		if err := s.startWorkers(ctx, part.workers, false); err != nil {
			return nil, err
		}
		for range part.kills {
			took, err := s.crashOnce(ctx)
			if err != nil {
				return nil, err
			}
			part.to.took = append(part.to.took, took)
		}
	}
	gone, again, err := s.falseVerdicts(ctx)
	if err != nil {
		return nil, err
	}
	return []Metric{
		duration(fmt.Sprintf("%d kills beside a worker: request repeated after, p50", crashes), beside.quantile(.5)).
			atMost(.5),
		duration("p99", beside.quantile(.99)).atMost(1),
		duration(fmt.Sprintf("%d kills without: after the next start, p50", lonelyCrashes), alone.quantile(.5)),
		duration("longest", alone.quantile(1)).atMost(1),
		count(fmt.Sprintf("two workers, all processors busy for %s: found gone", s.cfg.For), float64(gone)).exactly(0),
		count("requests made again", float64(again)).exactly(0),
	}, nil
}

// falseVerdicts keeps two workers and all processors busy for Config.For. It
// returns the number of workers that were found gone, and of requests that were
// made again. There is no reason for either.
func (s *testbed) falseVerdicts(ctx context.Context) (gone, again int, err error) {
	if err := s.startWorkers(ctx, 2, false); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var repeated atomic.Int64
	err = s.conn.Watch(ctx, s.space.Live(s.space.Prefix()+".part.>"), func(m bus.Stored) {
		var p run.Progress
		if json.Unmarshal(m.Body, &p) == nil && p.Again {
			repeated.Add(1)
		}
	})
	if err != nil {
		return 0, 0, err
	}
	load, stop := context.WithTimeout(ctx, s.cfg.For)
	defer stop()
	var burners sync.WaitGroup
	for range 2 * runtime.NumCPU() {
		burners.Go(func() {
			for n := uint64(0); load.Err() == nil; n++ {
				runtime.KeepAlive(n * n)
			}
		})
	}
	defer burners.Wait()
	for load.Err() == nil {
		if err := times(ctx, 2*s.cfg.Slots, s.leaf); err != nil {
			return 0, 0, err
		}
	}
	entries, err := s.conn.Workers().List(ctx, time.Time{})
	for _, w := range s.workers {
		for _, m := range entries {
			var entry struct {
				Name    string `json:"name"`
				FoundBy string `json:"found_by"`
			}
			if json.Unmarshal(m.Body, &entry) == nil && entry.Name == w.name && entry.FoundBy != "" {
				gone++
			}
		}
	}
	return gone, int(repeated.Load()), err
}

// crashOnce kills the worker that asks for a new leaf, and starts another one.
// It returns the time until the request is repeated.
func (s *testbed) crashOnce(ctx context.Context) (time.Duration, error) {
	r, err := s.newRoot("leaf")
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asking := make(chan string, 64)
	err = s.conn.Watch(ctx, r.Progress(), func(m bus.Stored) {
		var p run.Progress
		if json.Unmarshal(m.Body, &p) == nil && p.Event == run.ProgressAsking {
			select {
			case asking <- p.Worker:
			default:
			}
		}
	})
	if err == nil {
		err = s.storeCall(ctx, r, subjects.Header{Reply: s.space.Result(r.Agent, r.Tree)})
	}
	if err != nil {
		return 0, err
	}
	name, err := firstOther(ctx, asking, "")
	if err == nil {
		err = pause.For(ctx, crashAfter)
	}
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(s.workers, func(w *process) bool { return w.name == name })
	if i < 0 {
		return 0, fmt.Errorf("%s is asked for by an unknown worker %s", r, name)
	}
	since := time.Now()
	s.workers[i].kill()
	alone := len(s.workers) == 1
	s.workers = slices.Delete(s.workers, i, i+1)
	if alone {
		since = time.Now()
		if err := s.addWorker(ctx, s.workerConfig(false)); err != nil {
			return 0, err
		}
	}
	if _, err = firstOther(ctx, asking, name); err != nil {
		return 0, err
	}
	took := time.Since(since)
	if !alone {
		err = s.addWorker(ctx, s.workerConfig(false))
	}
	return took, err
}

// firstOther returns the first name of a worker that is not one.
func firstOther(ctx context.Context, names <-chan string, one string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, repeatTimeout, errors.New("no worker asks the model"))
	defer cancel()
	for {
		select {
		case name := <-names:
			if name != one {
				return name, nil
			}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
