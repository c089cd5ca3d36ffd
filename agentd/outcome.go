package agentd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/subjects"
)

// publishOutcome publishes the run's outcome, with its totals. The agent
// remembers a completed run. The outcome of a run without a reply subject is
// not published.
func (x *execution) publishOutcome(ctx context.Context, o run.Outcome) (result, error) {
	reply, ok := x.replySubject()
	if !ok {
		return finished, nil
	}
	o = x.withTotals(o)
	turn, own := x.needlessTimers(true)
	needless := removeTimers(x.w.late, own, turn)
	o, res, err := x.w.publishOutcome(ctx, outcomeTarget{
		run: x.run, reply: reply, fence: bus.After(x.run.Log(), x.state.LogSeq), disarm: needless.disarm,
		inbox: x.header.Reply,
	}, o)
	needless.end(ctx, err == nil && res.done)
	if err != nil || !res.done {
		return res, err
	}
	if x.state, err = x.state.Apply(run.OutcomeStored{Outcome: o}); err != nil {
		return res, err
	}
	if o.Status == run.StatusCompleted && x.start != nil && x.start.Memory != nil {
		x.remember(ctx, *x.start.Memory, o)
	}
	return res, nil
}

// withTotals completes an outcome with the work of the whole run.
func (x *execution) withTotals(o run.Outcome) run.Outcome {
	o.CancelsSeen = x.cancelsSeenBy(o.Status == run.StatusCompleted)
	o.Model = cmp.Or(o.Model, x.state.Turns.Model())
	o.Subtree = x.state.Subtree().Add(run.Totals{Usage: o.Usage, ModelCalls: o.Turns, ModelMS: o.ModelMS})
	own := x.state.Turns.Totals()
	o.Usage = o.Usage.Add(own.Usage)
	o.ModelMS += own.ModelMS
	o.Retries += x.state.Turns.Retries()
	o.Turns += len(x.state.Turns)
	o.ToolCalls = own.ToolCalls
	o.DurationMS = max(0, x.clock().Now().Sub(x.onPresentClock(x.state.CalledAt)).Milliseconds())
	if t := x.state.Input.Tool; t != nil {
		o.Tool = t.Name
	}
	if o.Status == run.StatusFailed {
		cut := o.Partial
		o.Partial = x.state.Partial()
		if cut != nil {
			o.Partial = cmp.Or(o.Partial, &run.Partial{})
			o.Partial.Text = cut.Text
		}
	}
	if x.state.Input.Tool == nil {
		o.Artifacts, o.MoreArtifacts = x.state.Turns.Artifacts()
	}
	o.Stopped = len(x.state.Turns.Forks())
	return o
}

// outcomeTarget is where and how an outcome is published.
type outcomeTarget struct {
	run   subjects.Run
	reply string
	// fence is the condition under which the outcome is stored: the run's
	// log has not moved on, or the run was never called.
	fence bus.Fence
	// disarm is the timer that the outcome makes needless, "" for none.
	disarm string
	// inbox is the reply subject that the call names. If it is an inbox, an
	// ephemeral copy is published there.
	inbox string
}

// maxErrorBytes is the length to which an error is cut if the outcome is too
// large with all of it.
const maxErrorBytes = 1024

// publishOutcome publishes an outcome, and returns it as it was published. In
// place of one that is too large, it publishes a failure without the result
// (shortened).
func (w *Worker) publishOutcome(
	ctx context.Context, to outcomeTarget, o run.Outcome,
) (published run.Outcome, _ result, _ error) {
	o.Agent = to.run.Agent.String()
	o.Tree = to.run.Tree.String()
	o.Path = to.run.Path.String()
	o.Worker = w.cfg.Name
	res, body, err := w.writeOutcome(ctx, to, o)
	if errors.Is(err, bus.ErrTooLarge) && (o.Result != "" || o.Partial != nil || len(o.Error) > maxErrorBytes) {
		o = shortened(o, err)
		res, body, err = w.writeOutcome(ctx, to, o)
	}
	if err != nil || !res.done {
		return o, res, err
	}
	w.trees.ended(ctx, to.run, o)
	w.cfg.Metrics.Ended(o)
	if subjects.IsInbox(to.inbox) {
		if err := w.conn.PublishEphemeral(to.inbox, body); err != nil {
			w.log.WarnContext(ctx, "reply to an inbox failed",
				runAttr(to.run), slog.Any(keyError, err))
		}
	}
	return o, res, nil
}

// shortened returns an outcome without the parts that make it too large. A
// completed outcome becomes a failed one.
func shortened(o run.Outcome, tooLarge error) run.Outcome {
	if o.Status == run.StatusCompleted {
		o.Status = run.StatusFailed
		o.Kind = run.KindError
		o.Error = tooLarge.Error()
	}
	o.Result = ""
	o.Partial = nil
	o.Error = text.Truncate(o.Error, maxErrorBytes)
	return o
}

// writeOutcome stores an outcome and returns its body. If another worker has
// stored one, or has moved the run's log on, the run is to be read.
func (w *Worker) writeOutcome(ctx context.Context, to outcomeTarget, o run.Outcome) (result, []byte, error) {
	body, err := json.Marshal(o)
	if err != nil {
		return result{}, nil, err
	}
	there, err := w.storeOutcome(ctx, to.run, bus.Message{
		Subject: to.reply, Body: body, ID: to.reply, Sign: true, Header: schema(),
		Fence: to.fence, Disarm: to.disarm,
	})
	res, err := unlessRefused(result{done: err == nil && !there}, err)
	return res, body, err
}

// outcomeRetryWindow bounds the first retries of an outcome's write. After it
// the worker checks whether another worker has stored an outcome. It must stay
// below the stream's deduplication window (30 s).
const outcomeRetryWindow = 20 * time.Second

// storeOutcome stores the outcome of a run. It returns true if another outcome
// is there instead. The window doubles after each check, because a large body
// takes time.
func (w *Worker) storeOutcome(ctx context.Context, r subjects.Run, m bus.Message) (there bool, _ error) {
	for m.Window = outcomeRetryWindow; ; m.Window *= 2 {
		_, err := w.conn.Write(ctx, m)
		if !errors.Is(err, bus.ErrUnsure) {
			return false, err
		}
		if _, there, err = w.runs.OutcomeAt(ctx, r, m.Subject); there || err != nil {
			return there, err
		}
	}
}
