package agentd

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/axebus/axe/agentd/ratelimit"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// spent is what a turn's requests to the model took.
type spent struct {
	// in requests, without the pauses between them
	time    time.Duration
	retries int // requests after the first
}

func (s spent) ms() int64 { return s.time.Milliseconds() }

// persist asks the model and, where its agent's definition says so, asks again
// after a failure that may pass. The end of ctx ends a pause at once, and so
// does a drain: the trigger goes to another worker, which begins with a first
// attempt.
//
// The run keeps its slot in a pause. That is bounded, by the policy and by the
// run's deadline; and a worker whose provider is too busy should not take more
// work for it.
func (w *Worker) persist(
	ctx context.Context,
	h *history,
	p provider.Provider,
	req *provider.Request,
	start *run.Start,
) (*provider.Response, spent, error) {
	var s spent
	part := run.Progress{Event: run.ProgressAsking, Turn: len(h.state.Turns) + 1, Worker: w.cfg.Name}
	for {
		resp, took, err := w.attempt(ctx, h, p, req, start, part)
		s.time += took
		if err == nil || ctx.Err() != nil {
			return resp, s, err
		}
		pause, again := start.Retry.Next(s.retries+1, err, time.Until(h.head.Deadline), rand.Float64())
		if !again {
			return nil, s, err
		}
		s.retries++
		part.Attempt, part.Attempts = s.retries+1, start.Retry.Attempts
		w.tell(ctx, h.run, retrying(part, err, time.Now().Add(pause)))
		if err := w.pause(ctx, pause); err != nil {
			return nil, s, err
		}
	}
}

// attempt sends the request once, when all workers together may make one more.
// What it took is the request's time. The first one counts as the turn's model
// call, not before it is about to be made.
func (w *Worker) attempt(
	ctx context.Context,
	h *history,
	p provider.Provider,
	req *provider.Request,
	start *run.Start,
	part run.Progress,
) (*provider.Response, time.Duration, error) {
	r := h.run
	release, err := w.admit(ctx, r, start.Model, part)
	if err != nil {
		return nil, 0, err
	}
	if part.Attempt == 0 {
		err = w.tallies.Reserve(ctx, h.nextTurn(start.Scopes, false))
	}
	if err == nil {
		// the bus may have taken its time, and the run ended meanwhile
		err = context.Cause(ctx)
	}
	if err != nil {
		release(nil, err)
		return nil, 0, err
	}
	slow := time.AfterFunc(worthTelling, func() { w.tell(ctx, r, part) })
	defer slow.Stop()
	asked := time.Now()
	resp, err := p.Send(ctx, req)
	took := time.Since(asked)
	release(resp, err)
	return resp, took, err
}

// admit waits until the rate limit of a model's account allows one more
// request, if there is one. The caller calls release with the request's answer
// or error. A long wait is reported as progress.
//
// The run keeps its slot while it waits, as in a pause before another attempt.
// Its lease is renewed like that of every delivery in hand. The end of ctx and
// a drain end the wait at once.
func (w *Worker) admit(
	ctx context.Context, r subjects.Run, model string, p run.Progress,
) (release func(*provider.Response, error), err error) {
	unlimited := func(*provider.Response, error) {}
	if w.cfg.RateLimit == nil {
		return unlimited, nil
	}
	account, settings := w.cfg.RateLimit(model)
	if !settings.On() {
		return unlimited, nil
	}
	limiter := w.limiters.Of(account, settings)
	long := time.AfterFunc(worthTelling, func() {
		reason, until := limiter.Waiting()
		p.Event = run.ProgressWaiting
		p.Reason = string(reason)
		p.Next = until
		w.tell(ctx, r, p)
	})
	defer long.Stop()
	release, err = limiter.Acquire(ctx, w.leaving)
	if errors.Is(err, ratelimit.ErrStopped) {
		err = errDraining
	}
	return release, err
}

// pause waits, until ctx ends or the worker begins to drain at most.
func (w *Worker) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-w.leaving:
		return errDraining
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// retrying tells of a pause before another attempt.
func retrying(p run.Progress, err error, next time.Time) run.Progress {
	p.Event, p.Next = run.ProgressRetrying, next
	if pe, ok := errors.AsType[*provider.Error](err); ok {
		p.Reason = string(pe.Category)
	}
	return p
}

// retry is the policy of an agent's definition, nil if it asks once.
func retry(r configs.Retry) *run.Retry {
	if r.MaxAttempts < 2 {
		return nil
	}
	r = r.WithDefaults()
	return &run.Retry{Attempts: r.MaxAttempts, Backoff: run.Backoff(r.Backoff), Initial: r.Initial, Max: r.Max}
}
