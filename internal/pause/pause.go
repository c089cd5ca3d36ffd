// Package pause waits: for a time, until a channel is ready or until a context
// ends. It is the only place of the project that makes a timer for that. Notify
// makes such a channel ready.
package pause

import (
	"context"
	"time"
)

// For waits for d. It returns nil after d, and the cause of ctx's end if ctx
// ends first.
func For(ctx context.Context, d time.Duration) error { return AtMost(ctx, d, nil) }

// Retry calls do until it returns nil or ctx ends, with a pause of d after each
// error. It passes each error to failed.
func Retry(ctx context.Context, d time.Duration, do func() error, failed func(error)) {
	for {
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		failed(err)
		_ = For(ctx, d)
	}
}

// AtMost waits until early is ready, and for d at most. It returns nil then,
// and the cause of ctx's end if ctx ends first. A nil channel is never ready.
func AtMost(ctx context.Context, d time.Duration, early <-chan struct{}) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-early:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Notify makes c ready, a channel of capacity one, unless c is ready already.
// It never waits.
func Notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Elapsed is the time from since to now by the clock that shows more. The
// monotonic one stands still while the machine sleeps, and a person may set the
// wall clock.
func Elapsed(since, now time.Time) time.Duration {
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}
