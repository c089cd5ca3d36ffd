package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// errTakenOver aborts a request to a model that another worker makes too, or
// has made.
var errTakenOver = errors.New("another worker has taken the run over")

// unlessTakenOver aborts a request to a model when another worker has taken the
// run over. That is looked for from the moment when the lease of the trigger
// may be over: after this process was stopped, or was cut off from the server.
// A lease alone proves nothing; the server may just have been away, and then
// nobody else has the run. Proof is a message that moves the run on, or a
// worker that says that it is asking: who has the trigger after a redelivery
// says so again and again. The caller calls done, which ends ctx.
func (w *Worker) unlessTakenOver(
	ctx context.Context,
	h *history,
	t *trigger,
	abort context.CancelCauseFunc,
) (done func()) {
	r, logSeq, turn := h.run, h.state.LogSeq, len(h.state.Turns)+1
	reply, _ := h.reply()
	var at sync.WaitGroup
	if t.Count > 1 {
		part := run.Progress{Event: run.ProgressAsking, Turn: turn, Worker: w.cfg.Name, Again: true}
		at.Go(func() { w.keepTelling(ctx, r, part) })
	}
	stop := t.OnLeaseExpired(func() { at.Go(func() { w.watchTakeover(ctx, r, reply, logSeq, turn, abort) }) })
	return func() {
		stop()
		abort(nil)
		at.Wait()
	}
}

// watchTakeover looks for proof until ctx ends.
func (w *Worker) watchTakeover(
	ctx context.Context,
	r subjects.Run,
	reply string,
	logSeq uint64,
	turn int,
	abort context.CancelCauseFunc,
) {
	log := w.log.With(slog.String(keyRun, r.String()), slog.Int(keyTurn, turn))
	stop, err := w.conn.Watch(r.Progress(), func(m bus.Stored) {
		var p run.Progress
		if json.Unmarshal(m.Body, &p) == nil && p.Worker != w.cfg.Name && p.Turn >= turn {
			abort(errTakenOver)
		}
	})
	if err != nil {
		log.WarnContext(ctx, "not watched", slog.Any(keyError, err))
		return
	}
	defer stop()
	for {
		ms, err := w.conn.LastPerSubject(ctx, r.Log(), reply)
		for _, m := range ms {
			if err == nil && (m.Subject == reply || m.Seq > logSeq) {
				abort(errTakenOver)
			}
		}
		if bus.Pause(ctx, w.conn.AckWait()/4) != nil {
			return
		}
	}
}

// keepTelling says again and again that this worker is asking, until ctx ends:
// whoever had the trigger before may be at it still, and learns so that it is
// not needed any more.
func (w *Worker) keepTelling(ctx context.Context, r subjects.Run, p run.Progress) {
	for ctx.Err() == nil {
		w.tell(ctx, r, p)
		_ = bus.Pause(ctx, w.conn.AckWait()/4)
	}
}
