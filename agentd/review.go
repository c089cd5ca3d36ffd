package agentd

import (
	"context"
	"errors"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
)

// reviewTimeout is the time that a supervisor has for a review.
const reviewTimeout = 5 * time.Minute

// errUnattended is the error of an agent that needs a person where no person
// can answer.
var errUnattended = errors.New(
	`supervision.mode is "human", and nobody can answer here: ` +
		`start workers on a bus that people can reach, and submit the task there`,
)

// errUnapproved is the error of an agent with tools that a person approves,
// where no person can answer.
var errUnapproved = errors.New(
	`approve.tools names tools that a person approves, and nobody can answer here: ` +
		`start workers on a bus that people can reach, and submit the task there`,
)

// errUnproven is the error of an agent with approvers, where the server proves
// no sender.
var errUnproven = errors.New(
	`approve.by names users that the server has to prove, and this one proves none: ` +
		`start workers on a bus whose users have permissions, and submit the task there`,
)

// supervision returns the supervision in an agent's definition.
func supervision(c configs.Supervision) run.Supervision {
	c = c.WithDefaults()
	switch c.Mode {
	case configs.Supervised:
		return run.Supervision{Agent: c.Agent, Mode: run.Supervised}
	case configs.SupervisedHuman:
		approves := c.OnTimeout == configs.Approve
		return run.Supervision{Agent: c.Agent, Mode: run.Human, Timeout: c.Timeout, OnTimeout: approves}
	case configs.Unsupervised:
	}
	return run.Supervision{}
}

// review returns the call of the supervisor that reviews a turn, nil if the
// turn needs no review. The call fails if no worker serves the supervisor.
func (x *execution) review(ctx context.Context, e run.Entry) (*run.Call, error) {
	s := x.start.Supervision
	if s.Mode == run.Unsupervised || !e.HasEffect() {
		return nil, nil
	}
	c := run.Call{Op: run.OpReview, Agent: s.Agent, Deadline: x.clock().Now().Add(reviewTimeout)}
	if c.Deadline.After(x.deadline()) {
		c.Deadline = x.deadline()
	}
	card, known, err := x.w.directory.find(ctx, c.Agent)
	if err != nil {
		return nil, err
	}
	if !known || card.CallProblem() != "" {
		c.Kind = run.KindUnknownAgent
		c.Error = tool.NoSupervisor(c.Agent, card.CallProblem())
	}
	return &c, nil
}

// logInterrupt ends the turn of a run that was interrupted before its model
// answered. The run becomes idle.
func (x *execution) logInterrupt(ctx context.Context) (result, error) {
	if res, ok, err := x.resolveStart(ctx); !ok {
		return res, err
	}
	if err := x.releaseTokens(ctx); err != nil {
		return result{}, err
	}
	end := run.EndInterrupted()
	return x.appendTurn(ctx, run.Entry{Kind: run.EntryIdle, Answer: &provider.Response{}, End: &end})
}

// holdTurn bounds the wait for a person. If the person has until the run's
// deadline, the run ends with the wait. A run without its own timer gets one
// for that.
func (r *loadedRun) holdTurn(ctx context.Context, e run.HoldTurn) error {
	until := r.onPresentClock(e.Timer)
	ms := []bus.Message{heldTimer(r.run, until, run.HeldTurn{Turn: e.Turn, Why: e.Why})}
	if !r.hasOwnTimer() && !until.Before(r.deadline()) {
		ms = append(ms, timer(r.run, 0, r.deadline()))
	}
	return r.w.writeAll(ctx, ms)
}
