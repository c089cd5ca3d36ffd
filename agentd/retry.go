package agentd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/provider"
)

// retryPolicy returns the retry policy of an agent's definition, nil if the
// model is asked once.
func retryPolicy(r configs.Retry) *run.Retry {
	if r.MaxAttempts < 2 {
		return nil
	}
	r = r.WithDefaults()
	return &run.Retry{Attempts: r.MaxAttempts, Backoff: run.Backoff(r.Backoff), Initial: r.Initial, Max: r.Max}
}

// sendWithRetry asks the model. If the agent's definition says so, it asks
// again after a failure that may pass. The end of ctx ends a pause at once. So
// does a drain: another worker gets the trigger, and goes on with the attempt
// that was due.
//
// The run keeps its slot in a pause. That is intended: a worker should not pull
// more work for an overloaded provider. The policy and the run's deadline bound
// the pause. A run for which the budget of tokens has no room waits without a
// slot (awaitRoom). That wait is no retry.
func (x *execution) sendWithRetry(
	ctx context.Context, p provider.Provider, req *provider.Request,
) (*provider.Response, error) {
	progress := run.Progress{Event: run.ProgressAsking, Turn: x.nextTurn(), Worker: x.w.cfg.Name}
	if x.cost.retries = x.retriesBefore(); x.cost.retries > 0 {
		progress.Attempt = x.cost.retries + 1
		progress.Attempts = x.start.Retry.Attempts
	}
	for {
		resp, err := x.attempt(ctx, p, req, progress)
		if err == nil || ctx.Err() != nil {
			return resp, err
		}
		if errors.Is(err, budget.ErrFull) {
			if err := x.awaitRoom(ctx, req, progress); err != nil {
				return nil, err
			}
			continue
		}
		retry := x.start.Retry
		delay, again := retry.Next(x.cost.retries+1, err, x.clock().Until(x.deadline()), rand.Float64())
		if !again {
			return nil, beyondDeadline(err, delay)
		}
		x.cost.retries++
		progress.Attempt = x.cost.retries + 1
		progress.Attempts = retry.Attempts
		x.w.publishProgress(ctx, x.run, retrying(progress, err, x.clock().Now().Add(delay)))
		if err := pause.AtMost(ctx, delay, x.w.drainBegun); err != nil {
			return nil, err
		}
		if x.w.draining.Load() {
			return nil, errDraining
		}
	}
}

// retriesBefore returns the number of attempts of the turn that failed on
// workers which handed the trigger on. At least one attempt is left.
func (x *execution) retriesBefore() int {
	last := x.state.Returns.Of(x.t.Seq).Last
	if x.start.Retry == nil || last.Turn != x.nextTurn() {
		return 0
	}
	return max(0, min(last.Attempt, x.start.Retry.Attempts)-1)
}

// beyondDeadline returns the error of an attempt that is the last one only
// because the run's deadline comes before the end of the pause. Without a pause
// it is the error itself.
func beyondDeadline(err error, delay time.Duration) error {
	if delay == 0 {
		return err
	}
	return fmt.Errorf("%w (the next attempt would be in %v, after the run's deadline)",
		err, delay.Round(time.Millisecond))
}

// retrying returns the progress of a run that pauses before another attempt.
func retrying(p run.Progress, err error, next time.Time) run.Progress {
	p.Event = run.ProgressRetrying
	p.Next = next
	if pe, ok := errors.AsType[*provider.Error](err); ok {
		p.Reason = string(pe.Category)
	}
	return p
}
