package agentd

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/internal/metrics"
	"github.com/axebus/axe/internal/ratelimit"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/internal/trace"
	"github.com/axebus/axe/internal/traceparent"
	"github.com/axebus/axe/provider"
)

// errDeadline aborts a request to a model at its run's deadline.
var errDeadline = errors.New("the run's deadline has passed")

// maxRereads is the number of times that a stale run is read again under one
// trigger before its model is asked all the same.
const maxRereads = 5

// callCost is the cost of the requests to the model for one turn.
type callCost struct {
	// time is the time of the requests, without the pauses between them.
	time time.Duration
	// retries is the number of requests after the first.
	retries int
	// unstored is the time of the last request if its answer is not stored
	// yet, or if it was aborted. It is 0 if the provider has failed.
	unstored time.Duration
}

func (c callCost) ms() int64 { return c.time.Milliseconds() }

// takeTurn asks the model and makes its answer durable, as an outcome or as an
// entry of the log.
func (x *execution) takeTurn(ctx context.Context) (result, error) {
	if res, ready, err := x.prepare(ctx); !ready {
		return res, err
	}
	p, model, err := x.w.cfg.Open(x.start.Model)
	if err != nil {
		return x.finishTurn(ctx, run.Failure(run.KindError, "%v", err), nil)
	}
	if res, ok, err := mayBegin(ctx, x); !ok {
		return res, err
	}
	resp, err := x.ask(ctx, p, x.request(model))
	switch {
	case ctx.Err() != nil:
		return result{}, context.Cause(ctx)
	case errors.Is(err, errDraining), errors.Is(err, budget.ErrUncounted):
		return result{}, err
	case x.w.cancels.isCancelled(x.run), errors.Is(err, errDeadline), errors.Is(err, errInterrupted):
		x.overdue = errors.Is(err, errDeadline)
		return x.reread(), nil // mustFail decides
	case errors.Is(err, errTakenOver):
		return result{}, err
	case err != nil:
		if err := x.releaseTokens(ctx); err != nil {
			return result{}, err
		}
		return x.finishTurn(ctx, x.modelFailure(err), nil)
	}
	return x.storeAnswer(ctx, resp)
}

// mayBegin reports whether the work may begin: no other worker has it in hand,
// and the last read is fresh.
func mayBegin(ctx context.Context, x *execution) (res result, ok bool, err error) {
	if !x.claimed && mayBeKept(ctx, x) {
		res, err = claim(ctx, x)
		return res, false, err
	}
	if x.isStale() && x.rereads < maxRereads {
		x.rereads++
		return x.reread(), false, nil
	}
	return result{}, true, nil
}

// isStale reports whether another worker may have gone on with the run since it
// was read. It may have if the server was away, if the trigger's lease may have
// ended, or if this worker has been held up for half a lease. The time that the
// read itself took says nothing: on a slow link every read is old.
func (x *execution) isStale() bool {
	return x.interrupted() || !x.expiredAtRead && x.t.LeaseExpired() ||
		time.Since(x.readAt) > x.w.conn.AckWait()/2
}

// reread returns the result that makes the worker read the run again before the
// run takes its turn.
func (x *execution) reread() result { return result{minSeq: x.state.Seq} }

// enter takes a slot of a pool for the work of the run, and bounds the lease of
// the trigger by the run's deadline. It returns false if the worker drains, and
// after a wait: the run is then to be read again.
func enter(ctx context.Context, x *execution, pool *slots) (res result, ok bool, err error) {
	if x.w.draining.Load() {
		return result{}, false, errDraining
	}
	if x.t.pool == nil && !pool.tryTake() {
		if err := x.t.takeSlot(ctx, pool); err != nil {
			return result{}, false, err
		}
		// Much may have happened during the wait.
		return x.reread(), false, nil
	}
	x.t.pool = pool
	x.w.limitLease(x.t, time.Now().Add(x.clock().Until(x.deadline())).Add(x.w.conn.AckWait()))
	return result{}, true, nil
}

// prepare takes a slot, and resolves everything that the request to the model
// needs. It returns false if the model is not to be asked now.
func (x *execution) prepare(ctx context.Context) (res result, ready bool, err error) {
	if res, ok, err := enter(ctx, x, x.w.slots); !ok {
		return res, false, err
	}
	if res, ok, err := x.resolveStart(ctx); !ok {
		return res, false, err
	}
	if err := x.refundGrant(ctx); err != nil {
		return result{}, false, err
	}
	if res, ok, err := x.loadInherited(ctx); !ok {
		return res, false, err
	}
	return result{}, true, nil
}

// request returns the next request to the model. In its last turn a run is told
// so, and is offered only the tools that end it.
func (x *execution) request(model string) *provider.Request {
	s := x.start
	msgs := tool.Continued(x.inherited, tool.Conversation(x.run.Path, s.User, x.state.Turns))
	if mail := x.state.Notice(); len(mail) > 0 {
		msgs = append(msgs, provider.Message{Role: provider.User, Content: tool.MailNotice(mail)})
	}
	// A run that can work with others is told so at the end of the system
	// text.
	system := s.System
	if guidance := tool.Guidance(x.run.Path, provider.ToolNames(s.Tools), s.Slash); system != "" && guidance != "" {
		system += "\n\n" + guidance
	} else {
		system += guidance
	}
	req := &provider.Request{
		Model: model, System: system, Messages: msgs, Tools: s.Tools,
		Temperature: s.Temperature, MaxTokens: s.MaxTokens,
	}
	if x.state.LastTurn() {
		req.Messages = append(req.Messages, provider.Message{Role: provider.User, Content: tool.LastTurnNotice})
		req.Tools = tool.Ending(s.Tools)
	}
	return req
}

// watched returns the context for the work of a run. Five things end it: a
// cancel message over the run, a person's interrupt of the run, its deadline,
// another worker that has taken the run over, and the end of ctx. The caller
// calls done.
func watched(ctx context.Context, x *execution) (_ context.Context, done func()) {
	ctx, cancel := context.WithTimeoutCause(ctx, x.clock().Until(x.deadline()), errDeadline)
	ctx, abort := context.WithCancelCause(ctx)
	seen, unwatch := x.w.cancels.watch(x.run, abort)
	x.cancelsSeen = seen
	endTakeover := func() {}
	if ctx.Err() == nil {
		endTakeover = x.abortIfTakenOver(ctx, abort)
	}
	return ctx, func() {
		endTakeover()
		unwatch()
		abort(nil)
		cancel()
	}
}

// ask sends the request, again if need be. The error is the cause if the
// watched context ended.
func (x *execution) ask(ctx context.Context, p provider.Provider, req *provider.Request) (*provider.Response, error) {
	ctx, done := watched(ctx, x)
	defer done()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if x.state.LogSeq == 0 && x.t.Count == 1 {
		x.w.cfg.Metrics.TakenUp(x.run.Agent.String(), x.clock().Now().Sub(x.onPresentClock(x.state.CalledAt)))
		if x.run.Path.IsRoot() {
			x.w.trees.begun(ctx, x.run)
		}
	}
	resp, err := x.sendWithRetry(ctx, p, req)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return resp, err
}

// attempt sends the request once, as soon as the rate limit admits it. The
// first attempt of a turn reserves the model call in the budget. It does so
// last, so that a call that is not made is not counted. The error is
// budget.ErrFull if there is no room for the call yet.
func (x *execution) attempt(
	ctx context.Context, p provider.Provider, req *provider.Request, progress run.Progress,
) (*provider.Response, error) {
	release, err := x.admit(ctx, progress)
	if err != nil {
		return nil, err
	}
	if err = x.reserve(ctx, req); err == nil {
		// The bus may have taken its time, and the run may have ended
		// meanwhile.
		err = context.Cause(ctx)
	}
	if err != nil {
		release(nil, err)
		return nil, err
	}
	// The timer may fire after this run's handler has gone on, so it reads
	// nothing of the execution.
	w, r := x.w, x.run
	slow := time.AfterFunc(progressDelay, func() { w.publishProgress(ctx, r, progress) })
	defer slow.Stop()
	began := time.Now()
	resp, err := send(traced(ctx, x, func() trace.SpanID { return trace.Chat(r.Path, progress.Turn) }), x, p, req)
	took := time.Since(began)
	x.cost.time += took
	x.cost.unstored = 0
	if err == nil || ctx.Err() != nil {
		x.cost.unstored = max(took, 1)
	}
	release(resp, err)
	x.w.cfg.Metrics.Asked(metrics.Request{
		Agent: x.run.Agent.String(), Model: x.start.Model, Took: took, Answer: resp, Err: err,
		Aborted: ctx.Err() != nil,
	})
	x.logModelCall(ctx, resp, err, took)
	return resp, err
}

// traced returns the context of the requests of a run in a span. They have the
// trace of the submitter, if it named one.
func traced(ctx context.Context, x *execution, in func() trace.SpanID) context.Context {
	given := x.header.Traceparent
	if given == "" {
		return ctx
	}
	c := trace.Of(x.run.Tree, given)
	if c.Parent == (trace.SpanID{}) {
		return ctx // it is malformed
	}
	return traceparent.With(ctx, c.Header(in()))
}

// logModelCall logs a request to the model.
func (x *execution) logModelCall(ctx context.Context, resp *provider.Response, err error, took time.Duration) {
	if !x.w.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	log := x.w.log.With(runAttr(x.run), slog.Int(keyTurn, x.nextTurn()),
		slog.String(keyModel, x.start.Model), slog.Int64(keyMS, took.Milliseconds()))
	if err != nil {
		log.DebugContext(ctx, "model call failed", slog.Any(keyError, err))
		return
	}
	log.DebugContext(ctx, "model call", slog.Int(keyInput, resp.InputTokens),
		slog.Int(keyOutput, resp.OutputTokens))
}

// admit waits until the rate limit of the model's account admits one more
// request, if there is a rate limit. The caller calls release with the
// request's answer or error. A long wait is published as progress.
//
// The run keeps its slot while it waits, as in a pause before another attempt.
// Its lease is renewed like that of every delivery in hand. The end of ctx and
// a drain end the wait at once.
func (x *execution) admit(ctx context.Context, p run.Progress) (release func(*provider.Response, error), err error) {
	w := x.w
	unlimited := func(*provider.Response, error) {}
	if w.cfg.RateLimit == nil {
		return unlimited, nil
	}
	account, settings := w.cfg.RateLimit(x.start.Model)
	if !settings.On() {
		return unlimited, nil
	}
	limiter := w.limiters.Of(account, settings)
	addr := x.run // the timer reads nothing of x
	long := time.AfterFunc(progressDelay, func() {
		reason, until := limiter.Waiting()
		p.Event = run.ProgressWaiting
		p.Reason = string(reason)
		p.Next = until
		w.publishProgress(ctx, addr, p)
	})
	defer long.Stop()
	began := time.Now()
	release, err = limiter.Acquire(ctx, w.drainBegun)
	w.cfg.Metrics.Gated(x.start.Model, time.Since(began))
	if errors.Is(err, ratelimit.ErrStopped) {
		err = errDraining
	}
	return release, err
}

// nextTurn returns the number of the turn that the run takes next, from 1.
func (r *loadedRun) nextTurn() int { return len(r.state.Turns) + 1 }
