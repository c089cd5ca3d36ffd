package agentd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/budget"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// errDeadline ends a request to a model at its run's deadline.
var errDeadline = errors.New("the run's deadline has passed")

// errElsewhere gives a call back to workers that have its agent.
var errElsewhere = errors.New("this worker does not have the agent any more")

// maxRereads is how often a run is read again at most under one trigger, where
// reading it takes long every time.
const maxRereads = 5

// turn asks the model and makes its answer durable: an outcome, or an entry of
// the log. It needs a slot; after waiting for one the run is read again, since
// much may have happened.
func (w *Worker) turn(ctx context.Context, h *history, t *trigger) (step, error) {
	if w.draining.Load() {
		return step{}, errDraining
	}
	if !t.slot && !w.slots.tryTake() {
		if err := w.slots.take(ctx); err != nil {
			return step{}, err
		}
		t.slot = true
		return step{must: h.state.Seq}, nil
	}
	t.slot = true
	w.limitLease(t, h.head.Deadline.Add(w.conn.AckWait()))
	start := h.state.Start()
	if start == nil {
		var next step
		var err error
		if start, next, err = w.started(ctx, h); start == nil {
			return next, err
		}
	}
	if err := w.refundGrant(ctx, h); err != nil {
		return step{}, err
	}
	if err := w.recallPast(ctx, h); err != nil {
		return w.failPast(ctx, h, t, start, err)
	}
	p, model, err := w.cfg.Open(start.Model)
	if err != nil {
		return w.finish(ctx, h, t, start, run.Failure(run.KindError, "%v", err), nil, spent{})
	}
	// the server was away, say: another worker may have gone on
	if time.Since(h.read) > oldLook && t.rereads < maxRereads {
		t.rereads++
		return step{must: h.state.Seq}, nil
	}
	resp, took, err := w.ask(ctx, h, t, p, request(h, model, start), start)
	switch {
	case ctx.Err() != nil:
		return step{}, context.Cause(ctx)
	case errors.Is(err, errDraining), errors.Is(err, budget.ErrUncounted):
		return step{}, err
	case w.cancels.isCancelled(h.run), errors.Is(err, errDeadline), errors.Is(err, errInterrupted):
		return step{must: h.state.Seq}, nil // doom decides
	case errors.Is(err, errTakenOver):
		return step{}, err
	case errors.As(err, new(*budget.ExceededError)):
		return w.finish(ctx, h, t, start, run.Failure(run.KindBudget, "%v", err), nil, took)
	case err != nil:
		return w.finish(ctx, h, t, start, failure(err, start.Model, took), nil, took)
	}
	if len(start.Slash) > 0 && !h.state.LastTurn() {
		resp.ToolCalls = append(resp.ToolCalls, tool.Commands(resp.Content)...)
	}
	if tool.Submitted(resp, start.Tools) == nil && len(resp.ToolCalls) > 0 && len(start.Tools)+len(start.Slash) > 0 {
		return w.recordTurn(ctx, h, t, start, resp, took)
	}
	if err := w.recordAnswer(ctx, h.nextTurn(start.Scopes, t.Count > 1), resp, nil); err != nil {
		return step{}, err
	}
	if next, more, err := w.lastLook(ctx, h, t, start, resp, took); err != nil || more {
		return next, err
	}
	o := answer(resp, start)
	o.Usage, o.Turns, o.ModelMS, o.Retries = resp.Usage, 1, took.ms(), took.retries
	return w.finish(ctx, h, t, start, o, resp, took)
}

// lastLook reads a run that has answered once more: if there is mail that it
// does not know of it is told, and asked again, before that is its answer. One
// that has called nobody is not looked after, since a leaf costs no read more,
// nor is one that has submitted.
func (w *Worker) lastLook(
	ctx context.Context,
	h *history,
	t *trigger,
	start *run.Start,
	resp *provider.Response,
	took spent,
) (next step, more bool, _ error) {
	if h.state.Input.Forked != nil || h.state.LastTurn() || tool.Submitted(resp, start.Tools) != nil ||
		h.state.LogSeq == 0 && !start.HasInboxTools() {
		return step{}, false, nil
	}
	// what came during the asking, the answer knows nothing of
	now := *h
	if err := w.read(ctx, &now, h.state.Seq); err != nil {
		return step{}, false, err
	}
	switch {
	case now.state.Phase != run.Ready || now.state.Owner != h.state.Owner || now.state.LogSeq != h.state.LogSeq:
		// it is not to answer any more
		return step{must: now.state.Seq}, true, nil
	case now.state.HasUnread(h.state.Seq):
		next, err := w.record(ctx, h, t, start, run.Entry{Kind: run.EntryIdle, Answer: resp}, took)
		return next, true, err
	}
	return step{}, false, nil
}

// started is what a run is started with; nil if it is not to be.
func (w *Worker) started(ctx context.Context, h *history) (*run.Start, step, error) {
	in := h.state.Input
	if name := h.run.Agent.String(); !in.Policy.MayCall(name) && !in.AdHoc() && in.Forked == nil && in.Copy == nil &&
		!in.Review {
		next, err := w.conclude(ctx, h, run.Failure(run.KindPolicy, "agent %q is not permitted by policy", name))
		return nil, next, err
	}
	start, err := w.start(ctx, h)
	if err == nil {
		return start, step{}, nil
	}
	var next step
	switch {
	case errors.Is(err, errUnread):
	case errors.Is(err, errElsewhere):
		next, err = w.elsewhere(ctx, h)
	default:
		next, err = w.failConfig(ctx, h, err)
	}
	return nil, next, err
}

// answer is the outcome of a run whose model has called nobody, or had nobody
// to call.
func answer(resp *provider.Response, start *run.Start) run.Outcome {
	o := run.Outcome{Status: run.StatusCompleted, Result: resp.Content}
	if submitted := tool.Submitted(resp, start.Tools); submitted != nil {
		o = *submitted
	}
	o.Model, o.StopReason = start.Model, resp.StopReason
	return o
}

// finish concludes a run with what came of its last turn. A run that was forked
// rests instead, unless a bound was reached; one whose own forks are at work is
// concluded by way of its log, since they are to be ended first.
func (w *Worker) finish(
	ctx context.Context,
	h *history,
	t *trigger,
	start *run.Start,
	o run.Outcome,
	resp *provider.Response,
	took spent,
) (step, error) {
	kind := run.EntryFinal
	if h.state.Input.Forked != nil && o.Kind != run.KindBudget {
		kind = run.EntryIdle
	}
	if kind == run.EntryFinal && len(h.state.Forks()) == 0 {
		return w.publish(ctx, h, start, w.signed(h, o))
	}
	e := run.Entry{Kind: kind, Answer: resp}
	if resp == nil {
		e.Answer, e.End = &provider.Response{}, new(o.End())
	}
	return w.record(ctx, h, t, start, e, took)
}

// finishIdle lets a run be idle whose model has not answered.
func (w *Worker) finishIdle(
	ctx context.Context,
	h *history,
	t *trigger,
	start *run.Start,
	why run.End,
) (step, error) {
	return w.record(
		ctx,
		h,
		t,
		start,
		run.Entry{Kind: run.EntryIdle, Answer: &provider.Response{}, End: &why},
		spent{},
	)
}

// record commits what came of a turn. What is too large is none, and said to
// be.
func (w *Worker) record(
	ctx context.Context,
	h *history,
	t *trigger,
	start *run.Start,
	e run.Entry,
	took spent,
) (step, error) {
	e.ModelMS, e.Retries = took.ms(), took.retries
	if h.state.Start() == nil {
		e.Start = start
	}
	next, err := w.commit(ctx, h, t, e)
	if err != nil && tooLarge(err) && e.End == nil {
		return w.finish(
			ctx,
			h,
			t,
			start,
			failure(fmt.Errorf("turn %d cannot be recorded: %w", len(h.state.Turns)+1, err), start.Model, took),
			nil,
			took,
		)
	}
	return next, err
}

// publish concludes a run and has its agent remember it.
func (w *Worker) publish(ctx context.Context, h *history, start *run.Start, o run.Outcome) (step, error) {
	next, err := w.concludeSigned(ctx, h, o)
	if err == nil && next.done && start.Memory != nil && o.Status == run.StatusCompleted {
		w.remember(ctx, h, *start.Memory, o, false)
	}
	return next, err
}

// request is what the model is sent next. In a run's last turn it is told so,
// and offered no more than to end.
func request(h *history, model string, start *run.Start) *provider.Request {
	said := tool.Continued(h.inherited, tool.Conversation(h.run.Path, start.User, h.state.Turns))
	if news := h.state.Notice(); len(news) > 0 {
		said = append(said, provider.Message{Role: provider.User, Content: tool.MailNotice(news)})
	}
	r := &provider.Request{
		Model: model, System: system(h, start), Messages: said, Tools: start.Tools, Temperature: start.Temperature, MaxTokens: start.MaxTokens,
	}
	if h.state.LastTurn() {
		r.Messages = append(r.Messages, provider.Message{Role: provider.User, Content: tool.Finally})
		r.Tools = tool.Ending(start.Tools)
	}
	return r
}

// system is a run's system text, with what it is told of itself if it can work
// with others.
func system(h *history, start *run.Start) string {
	about := tool.Guidance(h.run.Path, tool.Names(start.Tools), start.Slash)
	if start.System == "" || about == "" {
		return start.System + about
	}
	return start.System + "\n\n" + about
}

// removalGrace is how long an agent has to be nobody's before its calls are
// refused: a deployment may take the file away and bring it back.
const removalGrace = 5 * time.Second

// elsewhere gives the call of an agent that was removed here to a worker that
// has it. If nobody has it, the call is refused as it would have been a moment
// later.
func (w *Worker) elsewhere(ctx context.Context, h *history) (step, error) {
	name := h.run.Agent.String()
	c, known, err := w.directory.find(ctx, name)
	if err != nil {
		return step{}, err
	}
	since, removed := w.agents.removedAt(h.run.Agent)
	if known && c.Problem == "" || removed && time.Since(since) < removalGrace {
		return step{}, errElsewhere
	}
	return w.conclude(ctx, h, refused(name, c))
}

// refused is the outcome of a run of an agent that nobody serves.
func refused(name string, c Card) run.Outcome {
	if c.Problem == "" {
		return run.Failure(run.KindUnknownAgent, "agent config not found: %s", name)
	}
	o := run.Failure(run.KindError, "failed to load agent %q: %s", name, c.Problem)
	o.Category = run.CategoryConfig
	return o
}

// ask sends the request, again if need be. A tombstone over the run, its
// deadline, another worker that has taken the run over and the end of ctx abort
// it; the error is then what aborted it.
func (w *Worker) ask(
	ctx context.Context,
	h *history,
	t *trigger,
	p provider.Provider,
	req *provider.Request,
	start *run.Start,
) (*provider.Response, spent, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, h.head.Deadline, errDeadline)
	defer cancel()
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	known, done := w.cancels.watch(h.run, abort)
	defer done()
	h.tombs = known
	if ctx.Err() != nil {
		return nil, spent{}, context.Cause(ctx)
	}
	defer w.unlessTakenOver(ctx, h, t, abort)()
	resp, took, err := w.persist(ctx, h, p, req, start)
	if ctx.Err() != nil {
		return nil, took, context.Cause(ctx)
	}
	return resp, took, err
}

// recordTurn decides what becomes of each call and puts it on the log before
// any child is called.
func (w *Worker) recordTurn(
	ctx context.Context,
	h *history,
	t *trigger,
	start *run.Start,
	resp *provider.Response,
	took spent,
) (step, error) {
	e := run.Entry{Kind: run.EntryTurn, Answer: resp, Sequential: start.Sequential, Timeout: start.Timeout}
	var err error
	if e.Calls, e.Spread, err = w.decide(ctx, h, start, resp); err != nil {
		return step{}, err
	}
	if err := w.supervise(ctx, h, start, &e); err != nil {
		return step{}, err
	}
	if err := w.accountTurn(ctx, h, t, start, &e); err != nil {
		return step{}, err
	}
	limit := func(int) time.Time { return h.head.Deadline }
	if e.Review == nil {
		e.Timer = e.Schedule(time.Now(), limit)
	} else { // which is its wait; that of the calls begins when they may be made
		e.Timer, e.Until = e.Review.Deadline, h.head.Deadline
		e.Defer(h.head.Deadline)
	}
	return w.record(ctx, h, t, start, e, took)
}

// accountTurn counts a turn, with its supervisor's run as the first of those
// that it makes: without that, none of the others is made. Where there is no
// room for any of them, there is nothing to look at.
func (w *Worker) accountTurn(ctx context.Context, h *history, t *trigger, start *run.Start, e *run.Entry) error {
	all := slices.Clone(e.Calls)
	if e.Review != nil {
		all = slices.Insert(all, 0, *e.Review)
	}
	if err := w.recordAnswer(ctx, h.nextTurn(start.Scopes, t.Count > 1), e.Answer, all); err != nil {
		return err
	}
	if e.Review != nil {
		e.Review, all = &all[0], all[1:]
	}
	if copy(e.Calls, all); !e.HasEffect() {
		e.Review, e.Cut = nil, false
	}
	return nil
}

func (w *Worker) decide(
	ctx context.Context,
	h *history,
	start *run.Start,
	resp *provider.Response,
) (calls []run.Call, spread []int, asked error) {
	offered := start.Tools
	if h.state.LastTurn() {
		offered = tool.Ending(offered)
	}
	limits := tool.Caller{
		Allowed: start.SubAgents, Depth: h.head.Depth, MaxDepth: start.MaxDepth, MaxBytes: int(w.conn.MaxBody()),
		Start: start, Offered: tool.Names(offered), Agent: h.run.Agent.String(), AdHoc: h.state.Input.AdHoc(), MaxBatch: start.MaxBatch,
		At: h.run.Path, Turn: len(h.state.Turns) + 1,
	}
	calls, spread = tool.Turn(resp, limits, tool.Known{
		Agent: func(agent string) (tool.Listing, bool) {
			card, ok, err := w.directory.find(ctx, agent)
			asked = errors.Join(asked, err)
			return tool.Listing{Model: card.Model, Problem: card.Problem}, ok
		},
		Run: func(p subjects.Path) (tool.Peer, bool) {
			peer, ok, err := w.peer(ctx, h.run, p)
			asked = errors.Join(asked, err)
			return peer, ok
		},
		Deaf: func(p subjects.Path, peer tool.Peer) bool {
			deaf, err := w.deaf(ctx, h.run, p, peer)
			asked = errors.Join(asked, err)
			return deaf
		},
	})
	return calls, spread, errors.Join(asked, w.rouse(ctx, h, calls))
}

// failConfig ends a run whose agent's definition does not work.
func (w *Worker) failConfig(ctx context.Context, h *history, err error) (step, error) {
	o := run.Failure(run.KindError, "%v", err)
	o.Category = run.CategoryConfig
	return w.conclude(ctx, h, o)
}

// failure is the outcome of a run whose model failed.
func failure(err error, model string, took spent) run.Outcome {
	o := run.Failure(run.KindError, "%v", err)
	o.Model, o.Turns, o.ModelMS, o.Retries = model, 1, took.ms(), took.retries
	if pe, ok := errors.AsType[*provider.Error](err); ok {
		o.Category = string(pe.Category)
	}
	return o
}
