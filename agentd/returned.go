package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/subjects"
)

// errLeaseLost is the reason to let go of triggers that waited here beyond
// their leases.
var errLeaseLost = errors.New("the lease was over before the worker had begun")

// returnTimeout bounds the wait until the returns of a batch are stored. A
// delivery goes back also without its return. Then it counts against its
// trigger if a ReturnBegun of it is stored. Of the deliveries without any
// return at most Config.doubt count.
const returnTimeout = 5 * time.Second

// maxErrorInReturn bounds an error in a return, in bytes.
const maxErrorInReturn = 300

// maxRedeliveryShift bounds the delay of a redelivery to busRetryDelay times
// two to the power of it: 32 s.
const maxRedeliveryShift = 5

// letGo gives back triggers of a run that could not be carried out, to this
// worker or another one. It first stores a return for each trigger. From the
// returns the next worker learns which deliveries do not count when it decides
// whether a trigger is poisoned.
//
// The delay is busRetryDelay after the first delivery that counts. It doubles
// with each further one, up to 32 s. So a fault that lasts for less than eight
// minutes does not poison a run with the default Config.Poison. A worker that
// drains gives back without a delay. A trigger with an expired lease is not
// given back: the server delivers it again.
func (r *loadedRun) letGo(ctx context.Context, err error, xs ...*execution) {
	w := r.w
	returns := returnBatch{w: w}
	for _, x := range xs {
		w.release(x.t)
		returns.add(r.run, x.t.Delivery, x.t.begun, x.returned(ctx, err))
	}
	returns.store(ctx)
	for _, x := range xs {
		if w.draining.Load() {
			w.giveBack(ctx, x.t.Delivery, 0)
			continue
		}
		log := w.log.With(runAttr(r.run), slog.Uint64(keySeq, x.t.Seq), slog.Any(keyError, err))
		if x.t.LeaseExpired() {
			log.WarnContext(ctx, "trigger left to another worker")
			continue
		}
		log.WarnContext(ctx, "trigger given back", slog.Int(keyCount, x.t.Count))
		counted := max(1, r.state.Returns.Of(x.t.Seq).Counted(x.t.Count, w.cfg.doubt()))
		w.giveBack(ctx, x.t.Delivery, busRetryDelay<<min(counted-1, maxRedeliveryShift))
	}
}

// returned returns why this worker lets go of the trigger, and what the next
// worker has to know. Err is the reason.
func (x *execution) returned(ctx context.Context, err error) run.Return {
	ret := run.Return{AskedMS: x.cost.unstored.Milliseconds()}
	if x.cost.unstored > 0 {
		ret.AskedMS = max(1, ret.AskedMS)
	}
	if x.state.Phase == run.Ready {
		ret.Turn = x.nextTurn()
	}
	if x.cost.retries > 0 {
		ret.Attempt = x.cost.retries + 1
	}
	// This worker may have to let go before it knows of the attempts before.
	if before := x.state.Returns.Of(x.t.Seq).Last; before.Turn == ret.Turn {
		ret.Attempt = max(ret.Attempt, before.Attempt)
	}
	switch {
	case x.t.LeaseExpired():
		ret.Cause = run.ReturnLeaseLost
	case ctx.Err() != nil, errors.Is(err, errDraining):
		ret.Cause = run.ReturnDrained
	default:
		ret.Cause = run.ReturnFailed
		ret.Error = text.Truncate(err.Error(), maxErrorInReturn)
	}
	return ret
}

// returnBatch are returns that are stored together.
type returnBatch struct {
	w  *Worker
	ms []bus.Message
}

// add adds the return of a delivery of a run. Begun is the sequence of the
// delivery's ReturnBegun, 0 if none is stored. The fence lets at most one
// return follow it.
func (b *returnBatch) add(r subjects.Run, d *bus.Delivery, begun uint64, ret run.Return) {
	ret.Worker = b.w.cfg.Name
	b.ms = append(b.ms, returnMessage(r.Returned(subjects.ReturnKey(d.Seq, d.Count)), begun, ret))
}

// returnMessage is the message of a return. Its fence: the last message of the
// subject has the sequence after.
func returnMessage(subject string, after uint64, ret run.Return) bus.Message {
	body, _ := json.Marshal(ret) // strings and numbers
	return bus.Message{
		Subject: subject, Header: schema(), Body: body, Fence: bus.After(subject, after),
	}
}

// sayBegun stores that this worker begins with those triggers of a batch that
// were delivered often before. So a message that kills its workers is told from
// one that came to workers that died for another reason. It is stored before
// the run is read, which may be what kills them. If it cannot be stored and the
// worker dies, the delivery counts as one without any return: of those at most
// Config.doubt count.
func (r *loadedRun) sayBegun(ctx context.Context, batch []*trigger) {
	often := func(t *trigger) bool { return t.Count > r.w.cfg.doubt() }
	if !slices.ContainsFunc(batch, often) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, returnTimeout)
	defer cancel()
	for _, t := range batch {
		if !often(t) {
			continue
		}
		subject := r.run.Returned(subjects.ReturnKey(t.Seq, t.Count))
		m := returnMessage(subject, 0, run.Return{Cause: run.ReturnBegun, Worker: r.w.cfg.Name})
		seq, err := r.w.conn.Write(ctx, m)
		res, err := unlessRefused(result{}, err)
		if err != nil {
			r.w.log.DebugContext(ctx, "return not stored", slog.String(keySubject, subject), slog.Any(keyError, err))
		}
		t.begun = max(seq, res.minSeq) // a write with a lost answer refuses itself
	}
}

// store stores the returns, also when ctx has ended. A return that is there
// already, or that cannot be stored, changes nothing.
func (b *returnBatch) store(ctx context.Context) {
	if len(b.ms) == 0 {
		return
	}
	storing, cancel := context.WithTimeout(context.WithoutCancel(ctx), returnTimeout)
	defer cancel()
	for i, err := range b.w.conn.WriteAll(storing, b.ms) {
		if _, there := errors.AsType[*bus.ConflictError](err); err != nil && !there {
			b.w.log.DebugContext(ctx, "return not stored",
				slog.String(keySubject, b.ms[i].Subject), slog.Any(keyError, err))
		}
	}
}

// returnUnused gives back deliveries that this worker has not begun with, after
// a delay. It first stores a return for each one. A submission, a return and a
// message with a malformed subject get none.
func (w *Worker) returnUnused(ctx context.Context, delay time.Duration, ds ...*bus.Delivery) {
	returns := returnBatch{w: w}
	for _, d := range ds {
		at, err := w.conn.Space().Parse(d.Subject)
		if err == nil && at.Kind != subjects.Submission && at.Kind != subjects.Returned {
			returns.add(at.Run, d, 0, run.Return{Cause: run.ReturnUnused})
		}
	}
	returns.store(ctx)
	for _, d := range ds {
		w.giveBack(ctx, d, delay)
	}
}
