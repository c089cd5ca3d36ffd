package ratelimit

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/provider"
)

// ErrStopped reports that the worker began to drain before a request was
// admitted.
var ErrStopped = errors.New("not admitted: the worker is draining")

const (
	// probeTimeout is the time without an answer after which a probe counts
	// as taken, since a provider refuses sooner. The other requests do not
	// wait for the end of a long answer.
	probeTimeout = 10 * time.Second
	// retryDelay is the pause after an error of the bus.
	retryDelay = time.Second
	// releaseTimeout bounds the last write of a limiter.
	releaseTimeout = time.Second
)

// Limiter admits requests to one provider account within a limit that all
// workers share. It is fair (first in, first out) within a worker and
// best-effort between workers.
//
// One goroutine, run, brings all requests that have ended and all that wait to
// the stored state in one compare-and-set, so many requests cost few writes. An
// update that changes nothing is not written.
type Limiter struct {
	register *bus.RateLimit
	settings Settings
	// clocks tell the time that the state is reckoned in, which is the same
	// for all workers.
	clocks *bus.Clocks
	log    *slog.Logger
	// worker names this process. A worker that is started again is another
	// holder.
	worker string
	// work holds a token while there may be something to bring.
	work chan struct{}

	mu sync.Mutex
	// queue is the requests that wait, the oldest first. Each is admitted
	// by a value: true admits it as the probe.
	queue []chan bool
	// held is the number of requests in flight.
	held int
	// probing says that one of the held requests is the probe. It is false
	// after probeTimeout.
	probing bool
	// ended are the results that no stored update contains yet.
	ended []Result
	// closed says that no more requests are admitted.
	closed bool

	// state is the newest stored state that this worker knows, and revision
	// its revision.
	state    State
	revision uint64
	// attempts is the number of updates tried so far.
	attempts int
	// pending is the last update tried, until its fate is known.
	pending *attempt
	// last is the newest decision in force.
	last Decision
}

// Acquire waits until one more request may begin. The caller calls release with
// the request's answer or error. Acquire gives up at the end of ctx with its
// cause, and when stop is closed with ErrStopped.
func (l *Limiter) Acquire(
	ctx context.Context, stop <-chan struct{},
) (release func(*provider.Response, error), err error) {
	admitted := make(chan bool, 1)
	l.mu.Lock()
	l.queue = append(l.queue, admitted)
	l.mu.Unlock()
	pause.Notify(l.work)
	select {
	case probe := <-admitted:
		if probe {
			return l.probe(), nil
		}
		return func(resp *provider.Response, err error) { l.end(ResultOf(resp, err, false, l.clocks.Now()), 1) }, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-stop:
		err = ErrStopped
	}
	if !l.leave(admitted) {
		// It was admitted in the meantime.
		l.end(Result{Probe: <-admitted}, 1)
	}
	return nil, err
}

// probe returns the release function of a probe, and starts its timeout.
func (l *Limiter) probe() (release func(*provider.Response, error)) {
	timeout := time.AfterFunc(probeTimeout, func() {
		l.end(Result{Probe: true, Passed: true}, 0)
	})
	return func(resp *provider.Response, err error) {
		l.end(ResultOf(resp, err, timeout.Stop(), l.clocks.Now()), 1)
	}
}

// leave takes a request out of the queue. It returns false if the request was
// admitted before.
func (l *Limiter) leave(admitted chan bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, admitted)
	if i >= 0 {
		l.queue = slices.Delete(l.queue, i, i+1)
	}
	return i >= 0
}

// end counts a result, and n requests less in flight.
func (l *Limiter) end(r Result, n int) {
	l.mu.Lock()
	l.held -= n
	l.probing = l.probing && !r.Probe
	l.ended = append(l.ended, r)
	l.mu.Unlock()
	pause.Notify(l.work)
}

// Waiting returns the reason why requests wait, and the time until which they
// do where the clock alone decides it.
func (l *Limiter) Waiting() (Reason, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last.Reason, l.last.Until
}

// run admits requests until ctx ends. Then it stores the results of the last
// requests, so that other workers need not wait until this worker's lease ends.
// A request that is still in flight stays counted until then.
func (l *Limiter) run(ctx context.Context) {
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { l.watch(ctx) })
	// The state is read before any request is admitted.
	l.retry(ctx, func() error { return l.read(ctx, 0) })
	for ctx.Err() == nil {
		var next time.Time
		l.retry(ctx, func() (err error) {
			next, err = l.sync(ctx)
			return err
		})
		// Wait until there may be something to bring, and until next.
		wait := next.Sub(l.clocks.Now())
		if next.IsZero() {
			wait = math.MaxInt64
		}
		_ = pause.AtMost(ctx, wait, l.work)
	}
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	if _, err := l.sync(last); err != nil {
		l.log.DebugContext(last, "held requests not given back", slog.Any("error", err))
	}
}

// retry calls do until it succeeds or ctx ends.
func (l *Limiter) retry(ctx context.Context, do func() error) {
	pause.Retry(ctx, retryDelay, do, func(err error) {
		l.log.WarnContext(ctx, "rate limit not synced", slog.Any("error", err))
	})
}
