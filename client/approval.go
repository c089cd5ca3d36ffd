package client

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
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
	// Approvers are the users of which a decision counts. Without any, each
	// one counts.
	Approvers subjects.Approvers `json:"approvers,omitempty"`
}

// ToolCall is one tool call of a held turn.
type ToolCall struct {
	Tool      string            `json:"tool"`
	Arguments map[string]string `json:"arguments"`
	// Call is the number of the call in its turn, from 0.
	Call int `json:"call"`
	// TakesArguments says that a person may approve of the call with other
	// arguments: it is a call of a tool.
	TakesArguments bool `json:"takes_arguments,omitzero"`
}

// HeldTurns lists the turns that are held for a person, the oldest first. The
// zero tree means all trees. The error is ErrUnknownTree for a tree that is not
// found.
func (c *Client) HeldTurns(ctx context.Context, tree subjects.Tree) ([]HeldTurn, error) {
	var all []HeldTurn
	err := c.eachHeld(ctx, tree, false, func(r subjects.Run, s run.State) { all = append(all, heldTurnOf(r, s)) })
	slices.SortStableFunc(all, func(a, b HeldTurn) int { return a.Since.Compare(b.Since) })
	return all, err
}

// HeldTurn returns the turn that a run holds. The error is ErrUnknownTree,
// ErrUnknownRun, ErrNotStarted, ErrEnded, ErrCancelled or ErrNotHeld if it
// holds none.
func (c *Client) HeldTurn(ctx context.Context, tree subjects.Tree, path subjects.Path) (HeldTurn, error) {
	r, s, err := c.activeState(ctx, tree, path)
	if err != nil {
		return HeldTurn{}, err
	}
	if s.Phase != run.Held || s.Hold != nil {
		return HeldTurn{}, fmt.Errorf("%s: %w", describe(r), ErrNotHeld)
	}
	return heldTurnOf(r, s), nil
}

// heldTurnOf describes the last turn of a run that holds it.
func heldTurnOf(r subjects.Run, s run.State) HeldTurn {
	turn := len(s.Turns)
	t := s.Turns[turn-1]
	h := HeldTurn{Run: r, Turn: turn, Reason: t.Why, Text: t.Entry.Answer.Content, Since: t.Time, Until: t.Entry.Timer}
	if start := s.Start(); start != nil {
		h.Approvers = start.Approvers
	}
	if t.Entry.Approve == "" {
		h.Supervisor = t.Entry.Review.Agent
	}
	for i, tc := range t.Entry.Answer.ToolCalls {
		if !t.Entry.CallsOf(i)[0].Failed() {
			from, _ := t.Entry.CallRange(i)
			h.Calls = append(h.Calls, ToolCall{tc.Name, tc.Arguments, from, t.Entry.TakesArguments(from)})
		}
	}
	return h
}

// Decide sends a person's decision about the turn that a run holds: the turn is
// carried out, or no call of it is, and the model reads the reason. Decide sets
// the turn of an approval without one. The error is ErrUnknownTree,
// ErrUnknownRun, ErrNotStarted, ErrEnded, ErrCancelled or ErrNotHeld if there
// is nothing to decide, ErrNotApprover if the decision would not count, and
// ErrNoArguments for arguments of a call that takes none.
func (c *Client) Decide(ctx context.Context, tree subjects.Tree, path subjects.Path, approval run.Approval) error {
	r, s, err := c.activeState(ctx, tree, path)
	if err != nil {
		return err
	}
	n := len(s.Turns)
	if s.Phase != run.Held || s.Hold != nil || approval.Turn != 0 && approval.Turn != n {
		return fmt.Errorf("%s: %w", describe(r), ErrNotHeld)
	}
	for _, call := range slices.Sorted(maps.Keys(approval.Arguments)) {
		if !s.Turns[n-1].Entry.TakesArguments(call) {
			return fmt.Errorf("%s: call %d of turn %d: %w", describe(r), call, n, ErrNoArguments)
		}
	}
	if by, start := bus.By(c.conn), s.Start(); !start.Counts(by) {
		return fmt.Errorf("%s: %w: needs %s", describe(r), ErrNotApprover, start.Approvers)
	}
	approval.Turn = n
	return c.writeTo(ctx, r.Approve, approval)
}
