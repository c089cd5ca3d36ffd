package agentd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// storeAnswer stores an answer of the model: as a turn that calls tools, as a
// turn that mail follows, or as the outcome of the run.
func (x *execution) storeAnswer(ctx context.Context, resp *provider.Response) (result, error) {
	if len(x.start.Slash) > 0 && !x.state.LastTurn() {
		resp.ToolCalls = append(resp.ToolCalls, tool.Commands(resp, x.start.Slash)...)
	}
	submitted := tool.Submitted(resp, x.start.Tools) != nil
	mayCall := len(x.start.Tools)+len(x.start.Slash) > 0
	if !submitted && mayCall && len(resp.ToolCalls) > 0 {
		return x.delegate(ctx, resp)
	}
	if err := x.countAnswer(ctx, resp, nil); err != nil {
		return result{}, err
	}
	if !submitted {
		if res, goesOn, err := x.answerMail(ctx, resp); goesOn || err != nil {
			return res, err
		}
	}
	o := outcomeOfAnswer(resp, x.start)
	o.Usage = resp.Usage
	o.Turns = 1
	o.ModelMS = x.cost.ms()
	o.Retries = x.cost.retries
	return x.finishTurn(ctx, o, resp)
}

// answerMail reads the run once more after its model has answered. If there is
// mail that the answer does not know of, the answer goes on the log, and the
// model is told of the mail and asked again. It returns true if the run goes
// on, and the answer is not its outcome.
//
// Forks are skipped: their answers go on the log in any case. So are runs in
// their last turn, which have no turn left for the mail. Runs without a log are
// skipped too, so that a leaf costs no extra read, unless they have inbox
// tools.
func (x *execution) answerMail(ctx context.Context, resp *provider.Response) (res result, goesOn bool, _ error) {
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
		// Another event moved the run. It owes no answer now.
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
	e := run.Entry{Kind: run.EntryTurn, Answer: resp, Sequential: x.start.Sequential, Timeout: x.start.Timeout}
	var err error
	if e.Calls, e.Spread, err = x.decide(ctx, resp); err != nil {
		return result{}, err
	}
	if e.Review, err = x.review(ctx, e); err != nil {
		return result{}, err
	}
	e.Cut = e.Review != nil && tool.Truncated(e)
	e.Approve = tool.NeedsApproval(x.start.Approve, e.Calls)
	if err := x.countTurn(ctx, &e); err != nil {
		return result{}, err
	}
	if !e.Deferred() {
		e.Calls, e.Timer = e.Schedule(x.clock().Now(), func(int) time.Time { return x.deadline() })
		return x.appendTurn(ctx, e)
	}
	// The turn waits for its review, or for a person. The wait for the
	// calls begins when they may be made.
	e.Until = x.deadline()
	e.Timer = e.Until
	if e.Review != nil {
		e.Timer = e.Review.Deadline
	}
	e.Calls = e.Defer(x.deadline())
	return x.appendTurn(ctx, e)
}

// countTurn counts a turn in the budget: its tokens, and the runs and tool runs
// that it starts. The supervisor's run comes first, since without it none of
// the others is made. A turn without a call that takes effect needs no review.
func (x *execution) countTurn(ctx context.Context, e *run.Entry) error {
	calls := slices.Clone(e.Calls)
	if e.Review != nil {
		calls = slices.Insert(calls, 0, *e.Review)
	}
	if err := x.countAnswer(ctx, e.Answer, calls); err != nil {
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
// agents and runs that the calls name. A tool.Lookup reports no errors, so
// decide collects them in failed. Spread is that of run.Entry.
func (x *execution) decide(
	ctx context.Context, resp *provider.Response,
) (calls []run.Call, spread []int, failed error) {
	s := x.start
	offered := s.Tools
	if x.state.LastTurn() {
		offered = tool.Ending(offered)
	}
	caller := tool.Caller{
		Path: x.run.Path, Agent: x.run.Agent.String(), AdHoc: x.state.Input.AdHoc(), Depth: x.header.Depth,
		Turn: x.nextTurn(), Start: s, Offered: provider.ToolNames(offered), MaxBytes: int(x.w.conn.MaxBody()),
	}
	calls, spread = tool.Turn(resp, caller, tool.Lookup{
		Agent: func(agent string) (tool.Listing, bool) {
			card, ok, err := x.w.directory.find(ctx, agent)
			failed = errors.Join(failed, err)
			return tool.Listing{Model: card.Model, Problem: card.CallProblem()}, ok
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

// outcomeOfAnswer returns the outcome of a run that ends with an answer: the
// outcome that the answer submits, or its text. An answer that was cut fails
// the run if the agent's definition says so, and its text is the partial
// result.
func outcomeOfAnswer(resp *provider.Response, start *run.Start) run.Outcome {
	o := run.Outcome{Status: run.StatusCompleted, Result: resp.Content}
	if submitted := tool.Submitted(resp, start.Tools); submitted != nil {
		o = *submitted
	}
	if resp.Truncated() && start.FailTruncated {
		o = run.Failure(run.KindError, "answer cut at the limit of output tokens (stop reason %s)", resp.StopReason)
		o.Partial = &run.Partial{Text: resp.Content}
	}
	o.Model = start.Model
	o.StopReason = resp.StopReason
	o.Truncated = resp.Truncated()
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

// turnTooLarge returns the outcome of a run with a turn that is too large to be
// stored.
func (x *execution) turnTooLarge(err error) run.Outcome {
	return x.modelFailure(fmt.Errorf("turn %d cannot be recorded: %w", x.nextTurn(), err))
}
