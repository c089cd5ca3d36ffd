package agentd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
)

// judgement is how long a supervisor may take.
const judgement = 5 * time.Minute

// errUnattended is the error of an agent that needs a person where there is
// none.
var errUnattended = errors.New(
	`supervision.mode is "human", and nobody can answer here: start workers on a bus that people can reach, and submit the task there`,
)

// supervision is what a definition says of who watches over its agent.
func supervision(c configs.Supervision) run.Supervision {
	c = c.WithDefaults()
	s := run.Supervision{Agent: c.Agent}
	switch c.Mode {
	case configs.Supervised:
		s.Mode = run.Supervised
	case configs.SupervisedHuman:
		s.Mode, s.Timeout, s.OnTimeout = run.Human, c.Timeout, c.OnTimeout == configs.Approve
	case configs.Unsupervised:
		return run.Supervision{}
	}
	return s
}

// supervise has a turn that would act looked at first, if the run is watched
// over.
func (w *Worker) supervise(ctx context.Context, h *history, start *run.Start, e *run.Entry) error {
	if start.Supervision.Mode == run.Unsupervised || !e.HasEffect() {
		return nil
	}
	c := run.Call{Op: run.OpReview, Agent: start.Supervision.Agent, Deadline: time.Now().Add(judgement)}
	if c.Deadline.After(h.head.Deadline) {
		c.Deadline = h.head.Deadline
	}
	card, known, err := w.directory.find(ctx, c.Agent)
	if err != nil {
		return err
	}
	if !known || card.Problem != "" {
		c.Error, c.Kind = fmt.Sprintf(
			"the supervisor %s cannot be asked: %s",
			c.Agent,
			cmp.Or(card.Problem, "no worker serves it"),
		), run.KindUnknownAgent
	}
	e.Review, e.Cut = &c, tool.Truncated(*e)
	return nil
}

// ask is what a call asks of the run that it makes. What a supervisor is asked
// follows from the run.
func (h *history) ask(c run.Call) run.Input {
	if c.Op == run.OpReview {
		c.Task = tool.Review(h.run, h.state)
	}
	return h.state.Start().InputFor(c)
}

// stop tells those that an interrupted run waits for to end, and bounds that
// wait.
func (w *Worker) stop(ctx context.Context, h *history, e run.StopBelow) error {
	if err := w.cancelBelow(ctx, h, e.Below, e.End); err != nil {
		return err
	}
	if e.Timer.IsZero() {
		return nil
	}
	return w.writeAll(ctx, []bus.Message{timer(h.run, e.Turn, e.Timer)})
}

// logStop ends the turn of an interrupted run whose model has not answered.
func (w *Worker) logStop(ctx context.Context, h *history, t *trigger) (step, error) {
	start := h.state.Start()
	if start == nil {
		var next step
		var err error
		if start, next, err = w.started(ctx, h); start == nil {
			return next, err
		}
	}
	return w.finishIdle(ctx, h, t, start, run.EndInterrupted())
}

// hold bounds the wait for a person. Who looks for what waits for people finds
// it in the timer. Where the person has until the end of the run, that ends it,
// and one that is waited for has no timer of its own for it.
func (w *Worker) hold(ctx context.Context, h *history, e run.HoldTurn) error {
	m := timer(h.run, e.Turn, e.Timer)
	var err error
	if m.Body, err = json.Marshal(run.HeldTurn{Turn: e.Turn, Why: e.Why}); err != nil {
		return err
	}
	ms := []bus.Message{m}
	if !h.lone() && !e.Timer.Before(h.head.Deadline) {
		ms = append(ms, timer(h.run, 0, h.head.Deadline))
	}
	return w.writeAll(ctx, ms)
}
