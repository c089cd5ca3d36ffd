package client

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// HeldCall is a call of a tool that is held until a person settles it: it may
// have taken effect, or its tool asks for input.
type HeldCall struct {
	// Run is the tool run of the call.
	Run subjects.Run `json:"-"`
	// ID is the id of the attempt or of the form that it is held for.
	ID string `json:"-"`
	// Tool is the name of the tool, and Arguments are those of the call.
	Tool      string            `json:"tool"`
	Arguments map[string]string `json:"arguments"`
	// Key is the key under which the tool was called.
	Key string `json:"key"`
	// Worker is the worker that began the call and did not report. It is
	// empty if the tool asks for input.
	Worker string `json:"worker,omitzero"`
	// Began is the time at which it began, zero if the tool asks for input.
	Began time.Time `json:"began,omitzero"`
	// Reason says that the call may have taken effect, or what the tool
	// asks.
	Reason string `json:"why"`
	// Form is what the tool asks, nil if the call may have taken effect.
	Form *run.Form `json:"form,omitempty"`
	// Since is the time at which the call was held.
	Since time.Time `json:"since"`
	// Until is the time at which the call times out.
	Until time.Time `json:"until"`
	// Approvers are the users of which a decision counts. Without any, each
	// one counts.
	Approvers subjects.Approvers `json:"approvers,omitempty"`
}

// HeldCalls lists the calls of tools that are held for a person, the oldest
// first. The zero tree means all trees. The error is ErrUnknownTree for a tree
// that is not found.
func (c *Client) HeldCalls(ctx context.Context, tree subjects.Tree) ([]HeldCall, error) {
	var all []HeldCall
	err := c.eachHeld(ctx, tree, true, func(r subjects.Run, s run.State) { all = append(all, heldCallOf(r, s)) })
	slices.SortStableFunc(all, func(a, b HeldCall) int { return a.Since.Compare(b.Since) })
	return all, err
}

// HeldCall returns the call of a tool run that is held. The error is
// ErrUnknownTree, ErrUnknownRun, ErrNotStarted, ErrEnded, ErrCancelled or
// ErrNothingToSettle if it is not.
func (c *Client) HeldCall(ctx context.Context, tree subjects.Tree, path subjects.Path) (HeldCall, error) {
	r, s, err := c.activeState(ctx, tree, path)
	if err != nil {
		return HeldCall{}, err
	}
	if s.Phase != run.Held || s.Hold == nil {
		return HeldCall{}, fmt.Errorf("%s: %w", describe(r), ErrNothingToSettle)
	}
	return heldCallOf(r, s), nil
}

// heldCallOf describes the call of a tool run that is held.
func heldCallOf(r subjects.Run, s run.State) HeldCall {
	in := s.Input.Tool
	h := HeldCall{
		Run:       r,
		ID:        s.Hold.ID,
		Tool:      in.Name,
		Arguments: provider.NewToolCall("", in.Name, in.Arguments).Arguments,
		Key:       run.ToolKey(r),
		Reason:    s.Hold.Why,
		Form:      s.Hold.Form,
		Since:     s.Hold.Since,
		Until:     s.Hold.Until,
		Approvers: in.Approvers,
	}
	if s.Attempt != nil {
		h.Worker, h.Began = s.Attempt.Worker, s.Attempt.Time
	}
	return h
}

// eachHeld calls fn for each tool run that is held or, without tools, for each
// run that holds a turn.
func (c *Client) eachHeld(
	ctx context.Context, tree subjects.Tree, tools bool, fn func(subjects.Run, run.State),
) error {
	if err := c.conn.Provisioned(ctx); err != nil {
		return err
	}
	space := c.conn.Space()
	var filters []string
	if tree.IsZero() {
		for p := range space.Partitions() {
			filters = append(filters, space.Stream(p).Timers)
		}
	} else {
		if _, err := c.find(ctx, tree); err != nil {
			return err
		}
		filters = []string{space.TimersOf(tree)}
	}
	// Of the messages about a held run, only its timer can be found without
	// knowing the run. A timer is removed when it fires.
	for _, filter := range filters {
		timers, err := bus.LastOfMany(ctx, c.conn, filter)
		if err != nil {
			return fmt.Errorf("held runs: %w", err)
		}
		for _, m := range timers {
			r, held, ok := heldBy(space, m)
			if !ok || (held.Tool != "") != tools {
				continue
			}
			s, err := c.readState(ctx, r)
			if err != nil {
				return err
			}
			if s.Phase != run.Held || (s.Hold != nil) != tools || len(s.Turns) != held.Turn {
				continue // it is held no longer
			}
			if _, ended, err := c.readEnd(ctx, r); err != nil {
				return err
			} else if !ended {
				fn(r, s)
			}
		}
	}
	return nil
}

// heldBy decodes the timer of a held run. Ok is false for any other timer.
func heldBy(space subjects.Space, m bus.Stored) (r subjects.Run, held run.HeldTurn, ok bool) {
	r, _, err := space.ParseTimer(m.Subject)
	if err != nil || json.Unmarshal(m.Body, &held) != nil {
		return r, held, false
	}
	return r, held, held.Turn > 0 || held.Tool != ""
}

// Settle sends a person's decision about a held call of a tool. The path is
// that of the tool run, or of the run that made the call and has no other held
// one. Settle sets the attempt of a settlement without one. The error is
// ErrUnknownTree, ErrUnknownRun, ErrNotStarted, ErrEnded, ErrCancelled or
// ErrNothingToSettle if there is nothing to settle, ErrManyToSettle for a run
// with several held calls, ErrSettledOtherwise for a call that is not settled
// so, and ErrNotApprover if the decision would not count.
func (c *Client) Settle(
	ctx context.Context, tree subjects.Tree, path subjects.Path, settlement run.Settlement,
) error {
	r, s, err := c.activeState(ctx, tree, path)
	if err != nil {
		return err
	}
	if s.Input.Tool == nil {
		if r, s, err = onlyHeldBelow(ctx, c, r, s); err != nil {
			return err
		}
	}
	switch {
	case s.Phase != run.Held:
		return fmt.Errorf("%s: %w: the run is %s", describe(r), ErrNothingToSettle, s.Phase)
	case settlement.Attempt != "" && settlement.Attempt != s.Hold.ID:
		return fmt.Errorf("%s: %w: the call that was to be settled waits no longer", describe(r), ErrNothingToSettle)
	case settlement.As.FillsForm() && s.Hold.Form == nil:
		return fmt.Errorf("%s: %w: %s (axe settle)", describe(r), ErrSettledOtherwise, s.Hold.Why)
	case !settlement.As.FillsForm() && s.Hold.Form != nil:
		return fmt.Errorf("%s: %w: %s (axe answer)", describe(r), ErrSettledOtherwise, s.Hold.Why)
	}
	if by, in := bus.By(c.conn), s.Input.Tool; !in.Counts(by) {
		return fmt.Errorf("%s: %w: needs %s", describe(r), ErrNotApprover, in.Approvers)
	}
	settlement.Attempt = s.Hold.ID
	return c.writeTo(ctx, r.Settle, settlement)
}

// HeldForm returns the held call of a tool that asks for input: that of the
// tool run with the path, or of the run that made the call. The path of the
// root stands for all runs of the tree. The error is ErrUnknownTree or
// ErrNothingToSettle if there is none, and ErrManyToSettle if there are
// several.
func (c *Client) HeldForm(ctx context.Context, tree subjects.Tree, path subjects.Path) (HeldCall, error) {
	held, err := c.HeldCalls(ctx, tree)
	if err != nil {
		return HeldCall{}, err
	}
	held = slices.DeleteFunc(held, func(h HeldCall) bool {
		above, _, _, _ := h.Run.Path.Parent()
		return h.Form == nil || !path.IsRoot() && path != h.Run.Path && path != above
	})
	switch len(held) {
	case 0:
		return HeldCall{}, fmt.Errorf("%s %s: %w: no tool asks for input there", tree, path, ErrNothingToSettle)
	case 1:
		return held[0], nil
	}
	var runs []subjects.Run
	for _, h := range held {
		runs = append(runs, h.Run)
	}
	return HeldCall{}, fmt.Errorf("%s %s: %w", tree, path, manyToSettle(runs))
}

// manyToSettle is ErrManyToSettle with the paths of the runs.
func manyToSettle(held []subjects.Run) error {
	var paths []string
	for _, r := range held {
		paths = append(paths, r.Path.String())
	}
	return fmt.Errorf("%w: name one of the paths %s", ErrManyToSettle, strings.Join(paths, ", "))
}

// onlyHeldBelow returns the held tool run of a call of the run's last turn. The
// error is ErrNothingToSettle if there is none, and ErrManyToSettle if there
// are several.
func onlyHeldBelow(ctx context.Context, c *Client, r subjects.Run, s run.State) (subjects.Run, run.State, error) {
	var held []subjects.Run
	var of run.State
	call, _ := s.Outstanding().Then.(run.CallChildren)
	for _, child := range call.Children {
		below, err := r.At(child.Call.Agent, r.Path.Child(call.Turn, child.Index))
		if err != nil || child.Call.Op != run.OpTool {
			continue
		}
		state, err := c.readState(ctx, below)
		if err != nil {
			return r, s, err
		}
		if state.Phase == run.Held {
			held, of = append(held, below), state
		}
	}
	switch len(held) {
	case 0:
		return r, s, fmt.Errorf("%s: %w", describe(r), ErrNothingToSettle)
	case 1:
		return held[0], of, nil
	}
	return r, s, fmt.Errorf("%s: %w", describe(r), manyToSettle(held))
}
