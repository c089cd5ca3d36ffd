package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// ErrNotHeld is the error of a word on a run that does not wait for one.
var ErrNotHeld = errors.New("does not wait for anybody's approval")

// Interrupt stops what a run is doing, and not the run: a request to its model
// is aborted, those that it waits for or has forked are cancelled, and when
// they have ended, or ten seconds later, it is idle and can be written to. It
// returns when the message is stored; a run that is idle stays so. Errors are
// those of Send.
func (c *Client) Interrupt(ctx context.Context, tree subjects.Tree, path subjects.Path) error {
	r, err := c.live(ctx, tree, path)
	if err != nil {
		return err
	}
	return c.say(ctx, r.Interrupt, []byte("{}"))
}

// live finds a run that has been called and has not ended.
func (c *Client) live(ctx context.Context, tree subjects.Tree, path subjects.Path) (subjects.Run, error) {
	r, call, err := c.findCalled(ctx, tree, path)
	if err != nil {
		return r, err
	}
	// what stands before the call would be no part of the run for a worker
	// that reads the call alone
	if call == 0 {
		return r, fmt.Errorf("%s %w", name(r), ErrNotCalled)
	}
	return r, c.reachable(ctx, r)
}

// say stores a message to a run under a new key.
func (c *Client) say(ctx context.Context, subject func(subjects.Key) string, body []byte) error {
	k, err := subjects.ParseKey(bus.NewID())
	if err != nil {
		return err
	}
	_, err = c.conn.Write(ctx, bus.Message{
		Subject: subject(
			k,
		), Body: body, Fence: bus.After(subject(k), 0), Header: [][2]string{{subjects.HeaderSchema, subjects.Schema}},
	})
	return err
}

// Pending is a turn that a person is to approve of.
type Pending struct {
	Run  subjects.Run
	Turn int    // from 1
	Why  string // its supervisor wants to pause
	// beside what the run is about to do
	Said  string
	Calls []Act     // which is this
	Since time.Time // when the turn was stored
	Until time.Time // when it is decided without anybody
}

// Act is one tool call that a run is about to make.
type Act struct {
	Tool      string            `json:"tool"`
	Arguments map[string]string `json:"arguments"`
}

// Pending lists the turns that wait for a person, of all trees or, unless it is
// zero, of one, the oldest first. The error is ErrUnknownTree for one that is
// nowhere.
func (c *Client) Pending(ctx context.Context, tree subjects.Tree) ([]Pending, error) {
	if err := c.conn.Provisioned(ctx); err != nil {
		return nil, err
	}
	if !tree.IsZero() {
		if _, err := c.find(ctx, tree); err != nil {
			return nil, err
		}
	}
	space := c.conn.Space()
	var all []Pending
	for m, err := range c.conn.Scan(ctx, space.Timers(), 0) {
		if err != nil {
			return nil, fmt.Errorf("what waits for people: %w", err)
		}
		var held run.HeldTurn
		r, _, err := space.ParseTimer(m.Subject)
		if err != nil || json.Unmarshal(m.Body, &held) != nil || held.Turn == 0 || !tree.IsZero() && r.Tree != tree {
			continue
		}
		p, ok, err := c.pending(ctx, r, held.Turn)
		if err != nil {
			return nil, err
		}
		if ok {
			all = append(all, p)
		}
	}
	slices.SortStableFunc(all, func(a, b Pending) int { return a.Since.Compare(b.Since) })
	return all, nil
}

// pending is the turn of a run that waits for a person, of which a timer tells;
// ok is false if it does not any more.
func (c *Client) pending(ctx context.Context, r subjects.Run, turn int) (p Pending, ok bool, err error) {
	s, err := c.state(ctx, r)
	if err != nil || s.Phase != run.Held || len(s.Turns) != turn {
		return p, false, err
	}
	t := s.Turns[turn-1]
	p = Pending{Run: r, Turn: turn, Why: t.Why, Said: t.Entry.Answer.Content, Since: t.Time, Until: t.Entry.Timer}
	for i, tc := range t.Entry.Answer.ToolCalls {
		if !t.Entry.CallsOf(i)[0].Failed() {
			p.Calls = append(p.Calls, Act{tc.Name, tc.Arguments})
		}
	}
	return p, true, nil
}

// state folds a run; one that has ended is said to be concluded.
func (c *Client) state(ctx context.Context, r subjects.Run) (run.State, error) {
	s, err := c.fold(ctx, r, func(run.Event) {})
	if err != nil {
		return s, err
	}
	if ended, err := c.ended(ctx, r); err != nil || ended {
		s.Phase = run.Completed
		return s, err
	}
	return s, nil
}

// Decide is a person's word on the turn that a run holds: it is carried out, or
// nothing of it is, for a reason that the run is told. Errors are those of
// Send, and ErrNotHeld.
func (c *Client) Decide(ctx context.Context, tree subjects.Tree, path subjects.Path, word run.Approval) error {
	r, err := c.live(ctx, tree, path)
	if err != nil {
		return err
	}
	s, err := c.state(ctx, r)
	if err != nil {
		return err
	}
	if s.Phase != run.Held {
		return fmt.Errorf("%s %w", name(r), ErrNotHeld)
	}
	word.Turn = len(s.Turns) // and of no other
	body, err := json.Marshal(word)
	if err != nil {
		return err
	}
	return c.say(ctx, r.Approve, body)
}

// ErrUnknownTurn says that a run has no turn of a number: it has not come so
// far, or not yet.
var ErrUnknownTurn = errors.New("unknown turn")

// Branch is where a new tree goes on from.
type Branch struct {
	Tree subjects.Tree
	Path subjects.Path
	// after which, with the results of its calls; 0: the end
	Turn   int
	Prompt string // what it is told next
	// for the whole new tree; 0: 1 h
	Within time.Duration
}

// asked is what a run was asked, and within which bounds.
func (c *Client) asked(ctx context.Context, r subjects.Run) (in run.Input, head subjects.Header, err error) {
	call, ok, err := c.conn.First(ctx, r.Call())
	if err != nil {
		return in, head, err
	}
	if !ok {
		return in, head, fmt.Errorf("%w: %s", ErrUnknownRun, name(r))
	}
	body, err := c.conn.Load(ctx, call)
	if err != nil {
		return in, head, err
	}
	if head, err = subjects.ParseCall(r, call.Header.Get); err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		err = fmt.Errorf("the call of %s: %w", name(r), err)
	}
	return in, head, err
}

// Fork makes a new tree that goes on from a run of another one, whatever has
// become of that: with its conversation, its model and what it may do, within
// the bounds that it was in. It returns the new tree's id when its call is
// stored, and ErrUnknownTree, ErrUnknownRun or ErrUnknownTurn where there is
// nothing to go on from. What is not there any more when a worker looks, the
// new tree's outcome says.
func (c *Client) Fork(ctx context.Context, b Branch) (subjects.Tree, error) {
	var none subjects.Tree
	switch {
	case strings.TrimSpace(b.Prompt) == "":
		return none, fmt.Errorf("%w: the prompt is empty", ErrBadMail)
	case !utf8.ValidString(b.Prompt):
		return none, fmt.Errorf("%w: the prompt is not UTF-8 text", ErrBadMail)
	case b.Turn < 0 || b.Turn > run.MaxTurns:
		return none, fmt.Errorf("%w: %d", ErrUnknownTurn, b.Turn)
	}
	of, call, err := c.findCalled(ctx, b.Tree, b.Path)
	if err != nil {
		return none, err
	}
	if call == 0 {
		return none, fmt.Errorf("%s %w", name(of), ErrNotCalled)
	}
	if err := c.hasTurn(ctx, of, b.Turn); err != nil {
		return none, err
	}
	in, above, err := c.asked(ctx, of)
	if err != nil {
		return none, err
	}
	id, err := beside(of)
	if err != nil {
		return none, err
	}
	if b.Within <= 0 {
		b.Within = time.Hour
	}
	r := of.Space.Run(of.Agent, id, subjects.Root)
	head := subjects.Header{
		Tree: id, Path: subjects.Root, MaxDepth: max(0, above.MaxDepth-above.Depth), Deadline: time.Now().Add(b.Within), Reply: of.Space.Result(of.Agent, id),
	}
	if l := subjects.Together(above.Scopes); l != (subjects.Budget{}) {
		head.Scopes = []subjects.Scope{{Path: subjects.Root, Budget: l}}
	}
	in = run.Input{
		Task: b.Prompt, Copy: &run.Copy{Agent: of.Agent.String(), Tree: of.Tree.String(), Path: of.Path.String(), Turn: b.Turn},
		Policy: in.Policy, Supervision: in.Supervision, Spawned: in.Spawned,
	}
	if in.Spawned != nil {
		in.Spawned.Turns = 0
	}
	body, err := json.Marshal(in)
	if err != nil {
		return none, err
	}
	ms := []bus.Message{
		{Subject: r.Call(), Header: head.Pairs(), Body: body, Fence: bus.After(r.Call(), 0)},
		{Subject: r.Timer(0), Body: []byte("{}"), Timer: bus.Timer{At: head.Deadline, Target: r.Fired(0)}},
	}
	for _, err := range c.conn.WriteAll(ctx, ms) {
		if err != nil {
			return none, fmt.Errorf("fork: %w", err)
		}
	}
	return id, nil
}

// beside makes an id for a tree in the same partition as a run.
func beside(r subjects.Run) (subjects.Tree, error) {
	for {
		id, err := subjects.ParseTree(bus.NewID())
		if err != nil || r.Space.PartitionOf(id) == r.Partition() {
			return id, err
		}
	}
}

// hasTurn is the error of a run that has not had a turn. An answer that ends it
// is a turn too, though none on its log.
func (c *Client) hasTurn(ctx context.Context, r subjects.Run, turn int) error {
	if turn == 0 {
		return nil
	}
	s, err := c.fold(ctx, r, func(run.Event) {})
	if err != nil || turn <= len(s.Turns) {
		return err
	}
	turns := len(s.Turns)
	end, ok, err := c.end(ctx, r)
	if err != nil {
		return err
	}
	if ok {
		o, err := c.outcome(ctx, end)
		if err != nil {
			return err
		}
		if o.Result != "" {
			turns++
		}
	}
	if turn > turns {
		return fmt.Errorf("%w: %s has had %d, and no turn %d", ErrUnknownTurn, name(r), turns, turn)
	}
	return nil
}
