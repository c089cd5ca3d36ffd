package agentd

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// errKept ends the work under a trigger that another worker keeps. That worker
// renews and acknowledges this delivery from now on (bus.Workers.Keeps), so
// this worker only forgets it.
var errKept = errors.New("another worker keeps the message")

// mayBeKept reports whether another worker may have the trigger in hand, though
// the server has delivered it to this one. That happens after a person has
// removed the consumer: the new one delivers all messages again.
//
// A worker that starts as the consumer is removed makes the new one at once, and
// knows when. A worker that pulled from the removed consumer makes the new one
// after half of busRetryDelay at the earliest. So the server need not be asked
// about a trigger that was younger at its delivery, and most triggers were.
//
// The age that counts is that at which the server sent the trigger. At receipt
// it is older by its time on the way: up to half a round trip. The bound of the
// error of the first stream's clock (Clocks.Offset) stands for that on all
// partitions.
func mayBeKept(ctx context.Context, x *execution) bool {
	if x.t.PredatesConsumer() {
		return true
	}
	stored := x.t.Time.Add(x.clock().Shift(x.t.Stored))
	age := x.clock().Now().Sub(stored) - time.Since(x.t.Received)
	_, onTheWay := x.w.conn.Clocks.Offset()
	return age-onTheWay > busRetryDelay/2 && x.t.Replayed(ctx)
}

// claim asks the other workers whether one of them has the trigger in hand. If
// one has, that worker keeps the trigger, and claim returns errKept. Otherwise
// the run is read again: a worker that had the trigger may have stored the
// answer just now.
//
// A frozen worker does not answer and counts as one without the trigger. So do
// all workers if they cannot be listed. The work may then be done twice, as at
// the end of a lease.
func claim(ctx context.Context, x *execution) (result, error) {
	kept, err := x.w.registry.Kept(ctx, x.w.cfg.Name, x.t.Delivery)
	if err != nil {
		x.w.log.WarnContext(ctx, "other workers not asked whether they have the trigger",
			runAttr(x.run), slog.Any(keyError, err))
	}
	if kept {
		return result{}, errKept
	}
	x.claimed = true
	return x.reread(), nil
}
