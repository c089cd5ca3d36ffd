package agentd

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// errKept ends the work under a trigger that another worker keeps.
var errKept = errors.New("another worker keeps the message")

// mayBeKept reports whether another worker may have the trigger in hand though
// the server has delivered it here. A person may have removed its consumer. The
// new one has all messages of the old one again. A worker that pulled from it
// makes it after half of busRetryDelay at the earliest. So a trigger that was
// younger when it came needs no check, and most triggers are. (A worker that
// starts at that moment makes it at once. That costs a second model call at
// most.) Its age is that of its delivery by the
// server: a slow link adds the bound of the clock's error, half a round trip.
func mayBeKept(ctx context.Context, x *execution) bool {
	stored := x.t.Time.Add(x.clock().Shift(x.t.Stored))
	age := x.clock().Now().Sub(stored) - time.Since(x.t.Received)
	_, onTheWay := x.w.conn.Clocks.Offset()
	return age-onTheWay > busRetryDelay/2 && x.t.Replayed(ctx)
}

// claim asks the other workers whether one has the trigger in hand. That worker
// then keeps it. If none has it, the run is read again: a worker that had it
// may have stored the answer just now.
//
// A frozen worker does not answer and counts as one without the trigger. That
// costs a second model call, as the end of its lease does.
func claim(ctx context.Context, x *execution) (result, error) {
	kept, err := x.w.registry.Kept(ctx, x.w.cfg.Name, x.t.Delivery)
	if err != nil {
		x.w.log.WarnContext(ctx, "other workers not asked", slog.String(keyRun, x.run.String()),
			slog.Any(keyError, err))
	}
	if kept {
		return result{}, errKept
	}
	x.claimed = true
	return x.reread(), nil
}
