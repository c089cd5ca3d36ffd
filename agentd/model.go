package agentd

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/budget"
	"github.com/axebus/axe/agentd/ratelimit"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
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
	// The read may be old, for example because the server was away. Another
	// worker may have gone on with the run.
	if time.Since(x.readAt) > staleReadAge && x.rereads < maxRereads {
		x.rereads++
		return x.reread(), nil
	}
	resp, err := x.ask(ctx, p, x.request(model))
	switch {
	case ctx.Err() != nil:
		return result{}, context.Cause(ctx)
	case errors.Is(err, errDraining), errors.Is(err, budget.ErrUncounted):
		return result{}, err
	case x.w.cancels.isCancelled(x.run), errors.Is(err, errDeadline), errors.Is(err, errInterrupted):
		return x.reread(), nil // mustFail decides
	case errors.Is(err, errTakenOver):
		return result{}, err
	case err != nil:
		return x.finishTurn(ctx, x.modelFailure(err), nil)
	}
	return x.answered(ctx, resp)
}

// reread is the result of a turn that is taken only after another read.
func (x *execution) reread() result { return result{minSeq: x.state.Seq} }

// prepare takes a slot, and resolves everything that the request to the model
// needs. It returns false if the model is not to be asked now.
func (x *execution) prepare(ctx context.Context) (res result, ready bool, err error) {
	if x.w.draining.Load() {
		return result{}, false, errDraining
	}
	if !x.t.slot && !x.w.slots.tryTake() {
		if err := x.w.slots.take(ctx); err != nil {
			return result{}, false, err
		}
		x.t.slot = true
		// Much may have happened during the wait.
		return x.reread(), false, nil
	}
	x.t.slot = true
	x.w.limitLease(x.t, x.header.Deadline.Add(x.w.conn.AckWait()))
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
	if guidance := tool.Guidance(x.run.Path, tool.Names(s.Tools), s.Slash); system != "" && guidance != "" {
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

// ask sends the request, again if need be. Four things abort it: a cancel
// message over the run, its deadline, another worker that has taken the run
// over, and the end of ctx. The error is then the cause.
func (x *execution) ask(
	ctx context.Context,
	p provider.Provider,
	req *provider.Request,
) (*provider.Response, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, x.header.Deadline, errDeadline)
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	seen, done := x.w.cancels.watch(x.run, abort)
	defer done()
	x.cancelsSeen = seen
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	defer x.abortIfTakenOver(ctx, abort)()
	resp, err := x.sendWithRetry(ctx, p, req)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return resp, err
}

// sendWithRetry asks the model. If the agent's definition says so, it asks
// again after a failure that may pass. The end of ctx ends a pause at once. So
// does a drain: another worker gets the trigger, and begins with a first
// attempt.
//
// The run keeps its slot in a pause. That is intended: a worker whose provider
// is overloaded should not pull more work for it. The policy and the run's
// deadline bound the pause.
func (x *execution) sendWithRetry(
	ctx context.Context,
	p provider.Provider,
	req *provider.Request,
) (*provider.Response, error) {
	progress := run.Progress{Event: run.ProgressAsking, Turn: x.nextTurn(), Worker: x.w.cfg.Name}
	for {
		resp, err := x.attempt(ctx, p, req, progress)
		if err == nil || ctx.Err() != nil {
			return resp, err
		}
		retry := x.start.Retry
		delay, again := retry.Next(x.cost.retries+1, err, time.Until(x.header.Deadline), rand.Float64())
		if !again {
			return nil, err
		}
		x.cost.retries++
		progress.Attempt = x.cost.retries + 1
		progress.Attempts = retry.Attempts
		x.w.publishProgress(ctx, x.run, retrying(progress, err, time.Now().Add(delay)))
		if err := pause.AtMost(ctx, delay, x.w.leaving); err != nil {
			return nil, err
		}
		if x.w.draining.Load() {
			return nil, errDraining
		}
	}
}

// attempt sends the request once, as soon as the rate limit admits it. The
// first attempt of a turn reserves the model call in the budget. It does so
// last, so that a call that is not made is not counted.
func (x *execution) attempt(
	ctx context.Context,
	p provider.Provider,
	req *provider.Request,
	progress run.Progress,
) (*provider.Response, error) {
	release, err := x.admit(ctx, progress)
	if err != nil {
		return nil, err
	}
	if progress.Attempt == 0 {
		err = x.w.tallies.Reserve(ctx, x.budgetTurn())
	}
	if err == nil {
		// The bus may have taken its time, and the run may have ended
		// meanwhile.
		err = context.Cause(ctx)
	}
	if err != nil {
		release(nil, err)
		return nil, err
	}
	slow := time.AfterFunc(progressDelay, func() { x.w.publishProgress(ctx, x.run, progress) })
	defer slow.Stop()
	began := time.Now()
	resp, err := p.Send(ctx, req)
	x.cost.time += time.Since(began)
	release(resp, err)
	return resp, err
}

// admit waits until the rate limit of the model's account admits one more
// request, if there is a rate limit. The caller calls release with the
// request's answer or error. A long wait is published as progress.
//
// The run keeps its slot while it waits, as in a pause before another attempt.
// Its lease is renewed like that of every delivery in hand. The end of ctx and
// a drain end the wait at once.
func (x *execution) admit(
	ctx context.Context,
	p run.Progress,
) (release func(*provider.Response, error), err error) {
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
	long := time.AfterFunc(progressDelay, func() {
		reason, until := limiter.Waiting()
		p.Event = run.ProgressWaiting
		p.Reason = string(reason)
		p.Next = until
		w.publishProgress(ctx, x.run, p)
	})
	defer long.Stop()
	release, err = limiter.Acquire(ctx, w.leaving)
	if errors.Is(err, ratelimit.ErrStopped) {
		err = errDraining
	}
	return release, err
}

// nextTurn returns the number of the turn that the run takes next, from 1.
func (r *loadedRun) nextTurn() int { return len(r.state.Turns) + 1 }

// answered makes an answer of the model durable.
func (x *execution) answered(ctx context.Context, resp *provider.Response) (result, error) {
	if len(x.start.Slash) > 0 && !x.state.LastTurn() {
		resp.ToolCalls = append(resp.ToolCalls, tool.Commands(resp.Content)...)
	}
	submitted := tool.Submitted(resp, x.start.Tools) != nil
	if !submitted && len(resp.ToolCalls) > 0 && len(x.start.Tools)+len(x.start.Slash) > 0 {
		return x.delegate(ctx, resp)
	}
	if err := x.recordAnswer(ctx, resp, nil); err != nil {
		return result{}, err
	}
	if !submitted {
		if res, done, err := x.answerMail(ctx, resp); done || err != nil {
			return res, err
		}
	}
	o := answer(resp, x.start)
	o.Usage = resp.Usage
	o.Turns = 1
	o.ModelMS = x.cost.ms()
	o.Retries = x.cost.retries
	return x.finishTurn(ctx, o, resp)
}

// answerMail reads a run that has answered once more. If there is mail that the
// answer does not know of, the answer goes on the log, and the run is told of
// the mail and asked again. It returns true if the answer is not the run's
// outcome.
//
// Forks are skipped: their answers are mail themselves. Runs without a log are
// skipped too, so that a leaf costs no extra read, unless they have inbox
// tools.
func (x *execution) answerMail(ctx context.Context, resp *provider.Response) (res result, done bool, _ error) {
	if x.state.Input.Forked != nil || x.state.LastTurn() || x.state.LogSeq == 0 && !x.start.HasInboxTools() {
		return result{}, false, nil
	}
	// The execution itself stays at the messages that the answer knows.
	now := *x.loadedRun
	if err := now.read(ctx, x.state.Seq); err != nil {
		return result{}, false, err
	}
	s := now.state
	if s.Phase != run.Ready || s.Owner != x.state.Owner || s.LogSeq != x.state.LogSeq {
		// The run is no longer to answer.
		return result{minSeq: s.Seq}, true, nil
	}
	if s.HasUnread(x.state.Seq) {
		res, err := x.appendTurn(ctx, run.Entry{Kind: run.EntryIdle, Answer: resp})
		return res, true, err
	}
	return result{}, false, nil
}

// delegate decides on each call of an answer, and puts the turn on the log
// before any child is called.
func (x *execution) delegate(ctx context.Context, resp *provider.Response) (result, error) {
	e := run.Entry{
		Kind: run.EntryTurn, Answer: resp, Sequential: x.start.Sequential, Timeout: x.start.Timeout,
	}
	var err error
	if e.Calls, e.Spread, err = x.decide(ctx, resp); err != nil {
		return result{}, err
	}
	if e.Review, err = x.review(ctx, e); err != nil {
		return result{}, err
	}
	e.Cut = e.Review != nil && tool.Truncated(e)
	if err := x.reserveRuns(ctx, &e); err != nil {
		return result{}, err
	}
	if e.Review == nil {
		e.Timer = e.Schedule(time.Now(), func(int) time.Time { return x.header.Deadline })
	} else {
		// The turn waits for its review. The wait for the calls begins
		// when they may be made.
		e.Timer = e.Review.Deadline
		e.Until = x.header.Deadline
		e.Defer(x.header.Deadline)
	}
	return x.appendTurn(ctx, e)
}

// reserveRuns counts a turn and its runs in the budget. The supervisor's run
// comes first: without it, none of the others is made. If the budget has room
// for none of the others, there is nothing to review.
func (x *execution) reserveRuns(ctx context.Context, e *run.Entry) error {
	calls := slices.Clone(e.Calls)
	if e.Review != nil {
		calls = slices.Insert(calls, 0, *e.Review)
	}
	if err := x.recordAnswer(ctx, e.Answer, calls); err != nil {
		return err
	}
	if e.Review != nil {
		e.Review = &calls[0]
		calls = calls[1:]
	}
	copy(e.Calls, calls)
	if !e.HasEffect() {
		e.Review = nil
		e.Cut = false
	}
	return nil
}

// decide decides on each tool call of an answer. It asks the bus about the
// agents and runs that they name.
func (x *execution) decide(
	ctx context.Context,
	resp *provider.Response,
) (calls []run.Call, spread []int, failed error) {
	s := x.start
	offered := s.Tools
	if x.state.LastTurn() {
		offered = tool.Ending(offered)
	}
	caller := tool.Caller{
		Path:     x.run.Path,
		Agent:    x.run.Agent.String(),
		AdHoc:    x.state.Input.AdHoc(),
		Depth:    x.header.Depth,
		Turn:     x.nextTurn(),
		Start:    s,
		Offered:  tool.Names(offered),
		MaxBytes: int(x.w.conn.MaxBody()),
	}
	calls, spread = tool.Turn(resp, caller, tool.Lookup{
		Agent: func(agent string) (tool.Listing, bool) {
			card, ok, err := x.w.directory.find(ctx, agent)
			failed = errors.Join(failed, err)
			return tool.Listing{Model: card.Model, Problem: card.Problem}, ok
		},
		Run: func(p subjects.Path) (tool.Peer, bool) {
			peer, ok, err := x.w.peer(ctx, x.run, p)
			failed = errors.Join(failed, err)
			return peer, ok
		},
		ReadsMail: func(p subjects.Path, peer tool.Peer) bool {
			reads, err := x.w.readsMail(ctx, x.run, p, peer)
			failed = errors.Join(failed, err)
			return reads
		},
	})
	return calls, spread, errors.Join(failed, x.noteBusyPeers(ctx, calls))
}

// answer returns the outcome that an answer without calls of agents makes.
func answer(resp *provider.Response, start *run.Start) run.Outcome {
	o := run.Outcome{Status: run.StatusCompleted, Result: resp.Content}
	if submitted := tool.Submitted(resp, start.Tools); submitted != nil {
		o = *submitted
	}
	o.Model = start.Model
	o.StopReason = resp.StopReason
	return o
}

// modelFailure returns the outcome of a run that got no answer from its model.
func (x *execution) modelFailure(err error) run.Outcome {
	if _, exceeded := errors.AsType[*budget.ExceededError](err); exceeded {
		return run.Failure(run.KindBudget, "%v", err)
	}
	o := run.Failure(run.KindError, "%v", err)
	o.Model = x.start.Model
	o.Turns = 1
	o.ModelMS = x.cost.ms()
	o.Retries = x.cost.retries
	if pe, ok := errors.AsType[*provider.Error](err); ok {
		o.Category = string(pe.Category)
	}
	return o
}

// unrecorded returns the outcome of a run whose turn does not fit into a
// message.
func (x *execution) unrecorded(err error) run.Outcome {
	return x.modelFailure(fmt.Errorf("turn %d cannot be recorded: %w", x.nextTurn(), err))
}
