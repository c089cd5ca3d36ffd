package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// HeldTurn is a turn that is held until a person approves or denies it.
type HeldTurn struct {
	Run subjects.Run `json:"-"`
	// Turn counts from 1.
	Turn int `json:"turn"`
	// Reason says why the turn is held.
	Reason string `json:"why"`
	// Supervisor is the agent that gave the reason, empty if the agent's
	// own file did.
	Supervisor string `json:"supervisor,omitzero"`
	// Text is the model's text beside the tool calls.
	Text string `json:"said,omitzero"`
	// Calls are the tool calls that were not refused.
	Calls []ToolCall `json:"calls"`
	// Since is the time at which the turn was stored.
	Since time.Time `json:"since"`
	// Until is the time at which the agent's on_timeout decides instead. If
	// it is the run's deadline, the run times out.
	Until time.Time `json:"until"`
}

// ToolCall is one tool call of a held turn.
type ToolCall struct {
	Tool      string            `json:"tool"`
	Arguments map[string]string `json:"arguments"`
}

// HeldTurns lists the turns that are held for a person, the oldest first. The
// zero tree means all trees. The error is ErrUnknownTree for a tree that is not
// found.
func (c *Client) HeldTurns(ctx context.Context, tree subjects.Tree) ([]HeldTurn, error) {
	var all []HeldTurn
	err := c.eachHeld(ctx, tree, func(r subjects.Run, held run.HeldTurn) error {
		if held.Turn == 0 {
			return nil
		}
		h, ok, err := c.heldTurn(ctx, r, held.Turn)
		if ok {
			all = append(all, h)
		}
		return err
	})
	slices.SortStableFunc(all, func(a, b HeldTurn) int { return a.Since.Compare(b.Since) })
	return all, err
}

// heldTurn reads the turn of a run for which a timer is set. Ok is false if the
// turn is no longer held.
func (c *Client) heldTurn(ctx context.Context, r subjects.Run, turn int) (h HeldTurn, ok bool, err error) {
	s, err := c.readState(ctx, r)
	if err != nil || s.Phase != run.Held || len(s.Turns) != turn {
		return h, false, err
	}
	if _, ended, err := c.readEnd(ctx, r); err != nil || ended {
		return h, false, err
	}
	t := s.Turns[turn-1]
	h = HeldTurn{Run: r, Turn: turn, Reason: t.Why, Text: t.Entry.Answer.Content, Since: t.Time, Until: t.Entry.Timer}
	if t.Entry.Approve == "" {
		h.Supervisor = t.Entry.Review.Agent
	}
	for i, tc := range t.Entry.Answer.ToolCalls {
		if !t.Entry.CallsOf(i)[0].Failed() {
			h.Calls = append(h.Calls, ToolCall{tc.Name, tc.Arguments})
		}
	}
	return h, true, nil
}

// Decide sends a person's decision about the turn that a run holds: the turn is
// carried out, or no call of it is, and the model reads the reason. Decide sets
// the turn of the approval. The error is ErrUnknownTree, ErrUnknownRun,
// ErrNotStarted, ErrEnded, ErrCancelled or ErrNotHeld if there is nothing to
// decide.
func (c *Client) Decide(ctx context.Context, tree subjects.Tree, path subjects.Path, approval run.Approval) error {
	r, err := c.findActive(ctx, tree, path)
	if err != nil {
		return err
	}
	s, err := c.readState(ctx, r)
	if err != nil {
		return err
	}
	if s.Phase != run.Held || s.Hold != nil {
		return fmt.Errorf("%s: %w", describe(r), ErrNotHeld)
	}
	approval.Turn = len(s.Turns)
	return c.writeTo(ctx, r.Approve, approval)
}
