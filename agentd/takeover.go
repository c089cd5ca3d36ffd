package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// errTakenOver aborts a request to a model that another worker makes too, or
// has made.
var errTakenOver = errors.New("another worker has taken the run over")

// takeoverChecksPerLease is the number of times in a lease that a worker looks
// for a takeover, or says that it is asking.
const takeoverChecksPerLease = 4

// abortIfTakenOver aborts a request to a model when another worker has taken
// the run over. It looks for that from the moment when the trigger's lease may
// have ended: after this process was stopped, or was cut off from the server.
//
// A lease alone proves nothing. The server may just have been away, and then no
// other worker has the run. Proof is a message that moves the run on, or a
// worker that says that it is asking. So a worker with a redelivered trigger
// announces again and again that it is asking. The caller calls done, which
// ends ctx.
func (x *execution) abortIfTakenOver(ctx context.Context, abort context.CancelCauseFunc) (done func()) {
	var watchers sync.WaitGroup
	if x.t.Count > 1 {
		x.logTakeover(context.WithoutCancel(ctx))
		watchers.Go(func() { x.keepAnnouncing(ctx) })
	}
	stop := x.t.OnLeaseExpired(func() { watchers.Go(func() { x.watchTakeover(ctx, abort) }) })
	return func() {
		stop()
		abort(nil)
		watchers.Wait()
	}
}

// watchTakeover aborts when it finds proof of a takeover. It ends with ctx.
func (x *execution) watchTakeover(ctx context.Context, abort context.CancelCauseFunc) {
	conn := x.w.conn
	turn := x.nextTurn()
	self := x.w.cfg.Name
	log := x.w.log.With(runAttr(x.run), slog.Int(keyTurn, turn))
	err := conn.Watch(ctx, x.run.Progress(), func(m bus.Stored) {
		var p run.Progress
		if json.Unmarshal(m.Body, &p) == nil && p.Worker != self && p.Turn >= turn {
			abort(errTakenOver)
		}
	})
	if err != nil {
		log.WarnContext(ctx, "watch takeover failed", slog.Any(keyError, err))
		return
	}
	reply, _ := x.replySubject()
	for {
		if moved, err := movedOn(ctx, x.w, x.run, reply, x.state.LogSeq); err == nil && moved {
			abort(errTakenOver)
		}
		if pause.For(ctx, conn.AckWait()/takeoverChecksPerLease) != nil {
			return
		}
	}
}

// movedOn reports whether a run has an outcome at its reply subject that
// counts, or an entry in its log after a sequence. The reply subject may be
// empty.
func movedOn(ctx context.Context, w *Worker, of subjects.Run, reply string, seq uint64) (bool, error) {
	filters := []string{of.Log()}
	if reply != "" {
		filters = append(filters, reply)
	}
	ms, err := w.conn.LastPerSubject(ctx, filters...)
	for _, m := range ms {
		switch {
		case m.Subject == reply && (m.IsAnswer() || w.conn.Grants.Required()):
			// The last one may be one that does not count.
			if _, ended, err := w.runs.OutcomeAt(ctx, of, reply); err != nil || ended {
				return ended, err
			}
		case m.Subject == reply, m.Seq > seq:
			return true, nil
		}
	}
	return false, err
}

// keepAnnouncing announces again and again that this worker is asking, until
// ctx ends. The worker that had the trigger before may still be asking. It then
// learns that its request is not needed any more.
func (x *execution) keepAnnouncing(ctx context.Context) {
	p := run.Progress{Event: run.ProgressAsking, Turn: x.nextTurn(), Worker: x.w.cfg.Name, Again: true}
	for ctx.Err() == nil {
		x.w.publishProgress(ctx, x.run, p)
		_ = pause.For(ctx, x.w.conn.AckWait()/takeoverChecksPerLease)
	}
}
