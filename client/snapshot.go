package client

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// Snapshot is a tree as it is now: its events so far, as Follow reports them,
// and the answers of the workers about its runs.
type Snapshot struct {
	Root subjects.Run
	// Events has the events of all stored messages. Live events of the runs
	// in hand follow, each with the time of its report. A Stalled event says
	// why no worker goes on with a run. They are the last.
	Events []Event
	// Queued says that no worker has taken the submission yet. There are no
	// events of stored messages then.
	Queued bool
	// Since is the time of the submission or of the root's call.
	Since time.Time

	fold Fold
	// untaken are the runs that Untaken returns.
	untaken []subjects.Run
}

// State returns the state of a run.
func (s *Snapshot) State(path subjects.Path) run.State { return s.fold.State(path) }

// Has reports whether the tree has a run.
func (s *Snapshot) Has(path subjects.Path) bool {
	return slices.ContainsFunc(s.Events, func(e Event) bool { return e.Run.Path == path })
}

// Conversation returns the messages of the conversation of a run.
func (s *Snapshot) Conversation(path subjects.Path) (all []Message) {
	var cs Conversations
	for _, e := range s.Events {
		for _, m := range cs.Messages(e) {
			if m.Run.Path == path {
				all = append(all, m)
			}
		}
	}
	return all
}

// Untaken returns the runs that a worker has to go on with and that no worker
// has in hand.
func (s *Snapshot) Untaken() []subjects.Run { return s.untaken }

// Snapshot reads a tree. Its cost depends on the tree alone, not on the length
// of the stream. The error is ErrUnknownTree for a tree that is not found.
func (c *Client) Snapshot(ctx context.Context, tree subjects.Tree) (*Snapshot, error) {
	f, err := c.find(ctx, tree)
	if err != nil {
		return nil, err
	}
	s, err := look(ctx, c, f)
	if err != nil || s.Stalled() == 0 {
		return s, err
	}
	// A run may have moved between the read and the answers of the workers.
	if err := pause.For(ctx, confirmDelay); err != nil {
		return nil, err
	}
	return look(ctx, c, f)
}

// confirmDelay is the time after which a tree is read again if a run of it
// seems to have no worker.
const confirmDelay = 100 * time.Millisecond

// look reads a tree, and asks the workers about it if it has not ended.
func look(ctx context.Context, c *Client, f found) (*Snapshot, error) {
	s, err := readSnapshot(ctx, c, f)
	if err != nil || s.Ended() {
		return s, err
	}
	s.observe(ctx, askFleet(ctx, c, f.root.Tree))
	return s, nil
}

// readSnapshot reads the stored messages of a tree.
func readSnapshot(ctx context.Context, c *Client, f found) (*Snapshot, error) {
	s := &Snapshot{Root: f.root}
	// The outcome is read first, so that everything before it is read.
	outcome, ended, err := c.readResult(ctx, f.root)
	if err != nil {
		return nil, err
	}
	var ms []bus.Stored
	if f.call != 0 {
		if ms, err = bus.ReadWhole(ctx, c.conn, f.root.Space.TreeOf(f.root.Tree)); err != nil {
			return nil, fmt.Errorf("tree %s: %w", f.root.Tree, err)
		}
	} else if !ended {
		return s, readQueued(ctx, c, s)
	}
	if ended {
		ms = append(ms, outcome)
	}
	t := &tail{c: c, root: f.root, fn: func(e Event) { s.Events = append(s.Events, e) }}
	for i, m := range ms {
		// Only a cancel message counts before the root's call, and the
		// record of its sender.
		if m.Seq < f.call && !f.root.Cancels(m.Subject) {
			continue
		}
		if err := t.apply(ctx, m, ms[i+1:]); err != nil {
			return nil, err
		}
	}
	s.fold = t.fold
	if len(s.Events) > 0 {
		s.Since = s.Events[0].Time
	}
	return s, nil
}

// readQueued completes the snapshot of a tree without a root.
func readQueued(ctx context.Context, c *Client, s *Snapshot) error {
	m, ok, err := c.conn.QueuedSubmission(ctx, s.Root.Space.SubmissionOf(s.Root.Tree)...)
	s.Queued, s.Since = ok, m.Time.Add(c.toLocalClock())
	return err
}

// Ended reports whether the tree has an outcome.
func (s *Snapshot) Ended() bool { return s.State(subjects.Root).OutcomeStored }

// Stalled returns the number of runs that need a worker, and that no worker has
// in hand.
func (s *Snapshot) Stalled() (n int) {
	for _, e := range s.Events {
		if e.Kind == Stalled {
			n++
		}
	}
	return n
}

// observe adds the answers of the workers about the runs that need a worker.
func (s *Snapshot) observe(ctx context.Context, fl *fleet) {
	if s.Queued {
		s.stall(s.Root, fl.untaken(ctx))
		return
	}
	for _, r := range s.fold.needWorker() {
		state := s.State(r.Path)
		h, inHand := fl.hands[placeOf(r)]
		switch {
		case !inHand:
			s.untaken = append(s.untaken, r)
			s.stall(r, fl.whyNot(ctx, r, state))
		case h.waitsForSlot(state):
			s.stall(r, h.noSlot())
		default:
			s.add(h.event(r, state, fl.shift))
		}
	}
}

// stall adds a Stalled event, unless the reason is empty.
func (s *Snapshot) stall(r subjects.Run, reason string) {
	if reason != "" {
		s.add(Event{Kind: Stalled, Run: r, Time: time.Now(), Reason: reason})
	}
}

// add adds a live event.
func (s *Snapshot) add(e Event) {
	e.State = s.State(e.Run.Path)
	s.Events = append(s.Events, e)
}
