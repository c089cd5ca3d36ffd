package client

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// ForkTask is a request to continue the conversation of a run in a new tree.
type ForkTask struct {
	// Tree and Path name the run to continue.
	Tree subjects.Tree
	Path subjects.Path
	// Turn is the last turn of the conversation, with the results of its
	// calls. Zero: the whole conversation.
	Turn int
	// Prompt is the next message that the model reads.
	Prompt string
	// Timeout bounds the whole new tree. Zero: one hour.
	Timeout time.Duration
}

// Fork makes a new tree that continues the conversation of a run. The new tree
// has the run's model, tools and budget. The run itself is not touched, and may
// have ended. Fork returns the new tree's id when its call is stored. The error
// is ErrUnknownTree, ErrUnknownRun, ErrUnknownTurn or ErrNotStarted if there is
// no such conversation, and ErrInvalidMessage for a prompt that cannot be sent.
// If messages of the conversation are gone when a worker
// starts the new tree, the new tree's outcome says so.
func (c *Client) Fork(ctx context.Context, t ForkTask) (subjects.Tree, error) {
	if err := t.validate(); err != nil {
		return subjects.Tree{}, err
	}
	source, call, err := c.findRun(ctx, t.Tree, t.Path)
	if err != nil {
		return subjects.Tree{}, err
	}
	if call == 0 {
		return subjects.Tree{}, fmt.Errorf("%s: %w", describe(source), ErrNotStarted)
	}
	if err := checkTurn(ctx, c, source, t.Turn); err != nil {
		return subjects.Tree{}, err
	}
	in, head, err := c.readHeader(ctx, source)
	if err != nil {
		return subjects.Tree{}, err
	}
	if t.Timeout <= 0 {
		t.Timeout = time.Hour
	}
	head, err = rootHeader(source, head, c.conn.Clocks.Of(source).Now().Add(t.Timeout))
	if err != nil {
		return subjects.Tree{}, err
	}
	return head.Tree, callRoot(ctx, c, source, head, t.input(source, in))
}

// validate reports a task that no run can be asked.
func (t ForkTask) validate() error {
	switch {
	case strings.TrimSpace(t.Prompt) == "":
		return fmt.Errorf("%w: the prompt is empty", ErrInvalidMessage)
	case !utf8.ValidString(t.Prompt):
		return fmt.Errorf("%w: the prompt is not UTF-8 text", ErrInvalidMessage)
	case t.Turn < 0:
		return fmt.Errorf("%w: %d", ErrUnknownTurn, t.Turn)
	}
	return nil
}

// input returns the input of the new root. The policy, the supervision and the
// allowed hosts of the source hold for it too; a bound on the source's turns
// does not.
func (t ForkTask) input(source subjects.Run, in run.Input) run.Input {
	if in.Spawned != nil {
		in.Spawned.Turns = 0
	}
	return run.Input{
		Task: t.Prompt, Copy: run.CopyOf(source, t.Turn), Policy: in.Policy, Supervision: in.Supervision,
		Spawned: in.Spawned, AllowedHosts: in.AllowedHosts,
	}
}

// rootHeader returns the call header of a new root that continues a run with a
// header. The run's bounds become bounds of the new root.
func rootHeader(source subjects.Run, head subjects.Header, deadline time.Time) (subjects.Header, error) {
	id, err := samePartitionID(source)
	if err != nil {
		return subjects.Header{}, err
	}
	root := subjects.Header{
		Tree: id, Path: subjects.Root, MaxDepth: max(0, head.MaxDepth-head.Depth), Deadline: deadline,
		Reply: source.Space.Result(source.Agent, id),
	}
	if b := subjects.Narrowest(head.Scopes); b != (subjects.Budget{}) {
		root.Scopes = []subjects.Scope{{Path: subjects.Root, Budget: b}}
	}
	return root, nil
}

// samePartitionID returns an id for a tree in the partition of a run.
func samePartitionID(r subjects.Run) (subjects.Tree, error) {
	for {
		id, err := subjects.ParseTree(bus.NewID())
		if err != nil || r.Space.PartitionOf(id) == r.Partition() {
			return id, err
		}
	}
}

// callRoot stores the call of a new root of the source's agent, and the timer
// of its deadline.
func callRoot(ctx context.Context, c *Client, source subjects.Run, head subjects.Header, in run.Input) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r := source.Space.Run(source.Agent, head.Tree, subjects.Root)
	ms := []bus.Message{
		{
			Subject: r.Call(), Header: head.Pairs(), Body: body, Fence: bus.After(r.Call(), 0),
			Dated: c.conn.Clocks.Of(r).Now(),
		},
		{Subject: r.Timer(0), Body: []byte("{}"), Timer: bus.Timer{At: head.Deadline, Target: r.Fired(0)}},
	}
	for _, err := range c.conn.WriteAll(ctx, ms) {
		if err != nil {
			return fmt.Errorf("fork: %w", err)
		}
	}
	return nil
}

// readHeader reads the input and the header of a run's call.
func (c *Client) readHeader(ctx context.Context, r subjects.Run) (in run.Input, head subjects.Header, err error) {
	m, call, ok, err := c.readCall(ctx, r)
	switch {
	case err != nil:
		return in, head, err
	case !ok:
		return in, head, fmt.Errorf("%w: %s", ErrUnknownRun, describe(r))
	}
	if head, err = subjects.ParseCall(r, m.Header.Get); err == nil {
		err = call.Malformed
	}
	if err != nil {
		err = fmt.Errorf("call of %s: %w", describe(r), err)
	}
	return call.Input, head, err
}

// checkTurn returns ErrUnknownTurn for a turn that a run did not take. The
// answer that ends a run is a turn too. A run without forks has no log entry
// for it.
func checkTurn(ctx context.Context, c *Client, r subjects.Run, turn int) error {
	if turn == 0 {
		return nil
	}
	s, err := c.readState(ctx, r)
	if err != nil || turn <= len(s.Turns) {
		return err
	}
	turns := len(s.Turns)
	o, _, err := c.readOutcome(ctx, r)
	if err != nil {
		return err
	}
	if o.Result != "" && !s.Turns.LastFinal() {
		turns++
	}
	if turn > turns {
		return fmt.Errorf("%w: %s took %d turns, not %d", ErrUnknownTurn, describe(r), turns, turn)
	}
	return nil
}
