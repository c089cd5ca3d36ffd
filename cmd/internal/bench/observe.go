package bench

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/subjects"
)

const (
	// watchers is the number of watchers of a tree at once.
	watchers = 200
	// watchedAgent leads the tree that is watched, and watchedLatency is the
	// latency of its model unless another is configured. The tree takes 6 s.
	watchedAgent   = "chain12"
	watchedLatency = 250 * time.Millisecond
	// readInterval is the least time between two reads of a worker's
	// metrics. They are read while it works, which is half of the time: a
	// read for each second of work.
	readInterval = 2 * time.Second
)

// observe measures the cost of observation: of metrics to a worker, and of
// watchers of a tree to all processes.
func observe(ctx context.Context, s *testbed) ([]Metric, error) {
	ms, err := metricsOnAndOff(ctx, s)
	if err != nil {
		return ms, err
	}
	more, err := watched(ctx, s)
	return append(ms, more...), err
}

// metricsOnAndOff compares leaves of a worker that counts, and whose metrics
// are read, with those of one that does not count. The leaves that run one at
// a time come first: a server that had much to do has pairs of workers that
// differ more than others.
func metricsOnAndOff(ctx context.Context, s *testbed) ([]Metric, error) {
	count := func(o *processConfig) { o.Metrics = true }
	one, many := &pair{do: s.leafOf}, &pair{do: s.leafOf, size: 2 * s.cfg.Slots}
	if err := s.comparePairs(ctx, count, one); err != nil {
		return nil, err
	}
	if err := s.comparePairs(ctx, count, many); err != nil {
		return nil, err
	}
	return []Metric{
		duration("a leaf without metrics, p50", one.off.quantile(.5)),
		duration("with metrics, p50", one.on.quantile(.5)),
		quotient("latency with metrics, of that without", &one.on, &one.off).atMost(1.05),
		// The server stops for its disk now and then. A median leaves
		// those batches out.
		quotient(fmt.Sprintf("rate of %d at once with metrics, of that without", s.cfg.Slots), &many.off, &many.on).
			atLeast(.95),
		ratio("CPU time of the worker with metrics, of that without", many.cpu()).atMost(1.05),
	}, nil
}

// scraped returns an operation that reads the metrics of a worker first, at
// most once in readInterval. Without a URL it never does.
func scraped(url string, do func(context.Context) error) func(context.Context) error {
	if url == "" {
		return do
	}
	var last atomic.Int64 // the time of the last read, in nanoseconds
	return func(ctx context.Context) error {
		now, before := time.Now().UnixNano(), last.Load()
		if now-before >= int64(readInterval) && last.CompareAndSwap(before, now) {
			if err := get(ctx, url, func(body io.Reader) error {
				_, err := io.Copy(io.Discard, body)
				return err
			}); err != nil {
				return fmt.Errorf("the metrics of a worker: %w", err)
			}
		}
		return do(ctx)
	}
}

// get reads a page.
func get(ctx context.Context, url string, read func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return read(answer.Body)
}

// watching is the use of processors while a tree ran.
type watching struct {
	meter
	page usage
	wall time.Duration
	// events is the number of events that all watchers got.
	events int
}

// watched compares a tree that many follow by server-sent events with one that
// nobody follows, in turn.
func watched(ctx context.Context, s *testbed) (ms []Metric, err error) {
	o := s.workerConfig(false)
	o.Latency = cmp.Or(s.cfg.Latency, watchedLatency)
	if err := s.replaceWorkers(ctx, 1, o); err != nil {
		return nil, err
	}
	page, err := s.startProcess(ctx, processConfig{Role: page, Dial: s.dial, Prefix: s.space.Prefix()})
	if err != nil {
		return nil, err
	}
	defer func() {
		if ended := page.end(); err == nil {
			err = ended
		}
	}()
	var alone, crowd watching
	for range minRounds {
		for n, w := range map[int]*watching{0: &alone, watchers: &crowd} {
			if err := w.measure(ctx, s, page, n); err != nil {
				return nil, fmt.Errorf("%d watchers: %w", n, err)
			}
		}
	}
	share := func(name string, w *watching, cpu time.Duration) Metric {
		return ratio(name, cpu.Seconds()/w.wall.Seconds())
	}
	return []Metric{
		count(fmt.Sprintf("events a second to each of %d watchers", watchers),
			float64(crowd.events)/watchers/crowd.wall.Seconds()),
		share("processor of the page's server, without watchers", &alone, alone.page.CPU),
		share("with them", &crowd, crowd.page.CPU).atMost(.2),
		share("processor of the worker, without watchers", &alone, alone.workers.CPU),
		share("with them", &crowd, crowd.workers.CPU),
		share("processor of the server, without watchers", &alone, alone.server.CPU),
		share("with them", &crowd, crowd.server.CPU),
	}, nil
}

// measure runs a tree that n watchers follow to its end.
func (w *watching) measure(ctx context.Context, s *testbed, page *process, n int) error {
	r, err := s.newRoot(watchedAgent)
	if err != nil {
		return err
	}
	before, err := s.meter(ctx)
	if err != nil {
		return err
	}
	usedBefore, err := page.used()
	if err != nil {
		return err
	}
	began := time.Now()
	head := subjects.Header{Reply: s.space.Result(r.Agent, r.Tree)}
	ended := s.await(head.Reply)
	if err := s.storeCall(ctx, r, head); err != nil {
		return err
	}
	counts := make([]int, n)
	all, following := errgroup.WithContext(ctx)
	for i := range counts {
		all.Go(func() (err error) { counts[i], err = follow(following, page.url, r.Tree); return err })
	}
	if _, err := receive(ctx, ended); err != nil {
		return err
	}
	if err := all.Wait(); err != nil {
		return err
	}
	w.wall += time.Since(began)
	usedAfter, err := page.used()
	if err != nil {
		return err
	}
	after, err := s.meter(ctx)
	if err != nil {
		return err
	}
	w.add(before, after)
	w.page.CPU += usedAfter.CPU - usedBefore.CPU
	for _, events := range counts {
		w.events += events
	}
	return nil
}

// follow reads the events of a tree until it has ended, and counts them.
func follow(ctx context.Context, url string, tree subjects.Tree) (events int, _ error) {
	err := get(ctx, fmt.Sprintf("%s/v1/trees/%s/events", url, tree), func(body io.Reader) error {
		lines := bufio.NewScanner(body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			switch lines.Text() {
			case "event: end":
				return nil
			case "event: event", "event: run":
				events++
			}
		}
		if lines.Err() != nil {
			return lines.Err()
		}
		return fmt.Errorf("the events of tree %s ended before the tree", tree)
	})
	return events, err
}
