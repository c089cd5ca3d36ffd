package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/axebus/axe/agentd/prompt"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/bus"
	stored "github.com/axebus/axe/internal/history"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// post is a letter to a run. Its key follows from the log of who writes, so
// writing it again changes nothing.
func post(to subjects.Run, k subjects.Key, m run.Mail) (bus.Message, error) {
	body, err := json.Marshal(m)
	return bus.Message{Subject: to.Mail(k), Body: body, Fence: bus.After(to.Mail(k), 0), Header: schema()}, err
}

// beside is what a turn sends out that nobody waits for.
func (w *Worker) beside(h *history, e run.CallChildren) (ms []bus.Message, _ error) {
	for _, c := range e.Forks {
		call, child, err := w.call(h, e.Turn, c)
		if err != nil {
			return nil, err
		}
		ms = append(ms, call, timer(child, 0, c.Deadline))
	}
	for _, c := range e.Posts {
		to, err := peerRun(h.run, c.Call)
		if err != nil {
			return nil, err
		}
		m, err := post(to, h.run.Path.MailKey(e.Turn, c.Index), run.Mail{From: h.run.Path.String(), Text: c.Call.Task})
		if err != nil {
			return nil, err
		}
		ms = append(ms, m)
	}
	for _, c := range e.Kills {
		to, err := peerRun(h.run, c.Call)
		if err != nil {
			return nil, err
		}
		body, err := json.Marshal(run.EndKilled(h.run.Path.String()))
		if err != nil {
			return nil, err
		}
		ms = append(ms, bus.Message{Subject: to.Cancel(), Body: body, Fence: bus.After(to.Cancel(), 0)})
	}
	return ms, nil
}

// peerRun is the run that a call writes to or kills.
func peerRun(r subjects.Run, c run.Call) (subjects.Run, error) {
	agent, err := subjects.ParseAgent(c.Agent)
	if err != nil {
		return subjects.Run{}, err
	}
	path, err := subjects.ParsePath(c.To)
	return r.Space.Run(agent, r.Tree, path), err
}

// tellIdle tells the parent of a forked run that it is idle. One that is waited
// for, and was stopped by a person, needs a timer of its own now.
func (w *Worker) tellIdle(ctx context.Context, h *history, e run.NotifyIdle) error {
	if !h.lone() {
		return w.writeAll(ctx, []bus.Message{timer(h.run, 0, h.head.Deadline)})
	}
	path, _, _, below := h.run.Path.Parent()
	if !below {
		return nil
	}
	text, err := json.Marshal(tool.Completed(h.state))
	if err != nil {
		return err
	}
	took := h.state.Subtree()
	word := run.Mail{From: h.run.Path.String(), Text: string(text), Idle: true, Subtree: &took, Seen: e.Seen}
	m, err := post(h.run.Space.Run(h.head.Parent, h.run.Tree, path), h.run.Path.IdleKey(e.Turn), word)
	if err != nil {
		return err
	}
	return w.writeAll(ctx, []bus.Message{m})
}

// lone reports whether nobody's timer waits for a run: it has one of its own,
// turn 0, from its call on.
func (h *history) lone() bool { return h.run.Path.IsRoot() || h.state.Input.Forked != nil }

// peer looks for another run of a tree.
func (w *Worker) peer(ctx context.Context, r subjects.Run, id subjects.Path) (p tool.Peer, ok bool, err error) {
	var must uint64
	subject := r.Space.CallOf(r.Tree, id)
	if w.conn.Replicas() > 1 {
		if must, err = w.conn.LastSeq(ctx, subject); err != nil {
			return p, false, err
		}
	}
	err = stored.CatchUp(ctx, func(ctx context.Context) (bool, error) {
		ms, err := w.conn.LastPerSubject(ctx, append(r.Space.EndsOf(r.Tree, id), subject)...)
		for _, m := range ms {
			if at, err := r.Space.Parse(m.Subject); err == nil && at.Kind == subjects.Call {
				p.Agent, ok = at.Run.Agent.String(), true
			} else {
				p.Ended = true
			}
		}
		return ok || must == 0, err
	}, "%s", subject)
	return p, ok && err == nil, err
}

// rouse notes, of the runs that a turn waits for, which are at work again
// though they have told that they are idle: a sibling or a person has written
// to them.
func (w *Worker) rouse(ctx context.Context, h *history, calls []run.Call) error {
	for i, c := range calls {
		for _, from := range c.From {
			if c.Failed() || !h.state.SaidIdle(from) {
				continue
			}
			r, err := peerRun(h.run, run.Call{Agent: h.run.Agent.String(), To: from})
			if err != nil {
				return err
			}
			ms, err := w.runs.Latest(ctx, r, "")
			if err != nil {
				return err
			}
			fork := &history{run: r}
			if err := w.fold(ctx, fork, ms); err != nil && !errors.Is(err, run.ErrCorrupt) {
				return err
			}
			if fork.state.Phase != run.Idle {
				calls[i].Busy = append(calls[i].Busy, from)
			}
		}
	}
	return nil
}

// deaf reports whether another run of a tree cannot look for mail: its first
// entry says with which tools it was started. Of one that has none yet nobody
// knows.
func (w *Worker) deaf(ctx context.Context, r subjects.Run, id subjects.Path, p tool.Peer) (bool, error) {
	agent, err := subjects.ParseAgent(p.Agent)
	if err != nil {
		return false, err
	}
	m, ok, err := w.conn.First(ctx, r.Space.Run(agent, r.Tree, id).Log())
	if err != nil || !ok {
		return false, err
	}
	body, err := w.runs.Load(ctx, m)
	if err != nil {
		return false, err
	}
	e, err := run.DecodeEntry(body)
	// what is malformed is its own worker's to say
	return err == nil && e.Start != nil && !e.Start.HasInboxTools(), nil
}

// errPast is wrapped by the error of a run that goes on from where another one
// was, and whose history is not there.
var errPast = errors.New("the conversation to go on from cannot be read")

// errUnread is wrapped by the error of a read that failed. The trigger is given
// back.
var errUnread = errors.New("not read")

// past is a run as it was, up to a turn.
type past struct {
	run   subjects.Run
	head  subjects.Header // of its call
	state run.State
	msgs  []provider.Message // its conversation
}

// recallPast reads what a run knows from another one, unless it was read
// before.
func (w *Worker) recallPast(ctx context.Context, h *history) error {
	if h.inherited != nil {
		return nil
	}
	p, err := w.origin(ctx, h)
	if err != nil || p == nil {
		return err
	}
	h.inherited = p.msgs
	for _, m := range p.msgs {
		h.size += weight(len(m.Content))
	}
	return nil
}

// failPast ends a run that has nothing to go on from. What the bus could not
// read it may read yet.
func (w *Worker) failPast(ctx context.Context, h *history, t *trigger, start *run.Start, err error) (step, error) {
	if !errors.Is(err, errPast) {
		return step{}, err
	}
	return w.finish(ctx, h, t, start, run.Failure(run.KindError, "%v", err), nil, spent{})
}

// origin is the run that another one goes on from, at the turn where it does;
// nil if there is none.
func (w *Worker) origin(ctx context.Context, h *history) (*past, error) {
	in := h.state.Input
	switch {
	case in.Forked != nil && in.Forked.Inherit:
		path, turn, _, _ := h.run.Path.Parent()
		p, err := w.until(ctx, h.run.Space.Run(h.head.Parent, h.run.Tree, path), turn)
		if err != nil {
			return nil, err
		}
		p.msgs = tool.Inherited(p.state, p.run.Path, h.run.Path, p.msgs)
		return p, nil
	case in.Copy != nil:
		r, err := copied(h.run.Space, *in.Copy)
		// what was there when it was called is known by its place in
		// one stream
		if err == nil && r.Partition() != h.run.Partition() {
			err = fmt.Errorf("%s is of partition %d, its copy of %d", r, r.Partition(), h.run.Partition())
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errPast, err)
		}
		return w.copyOf(ctx, r, in.Copy.Turn, h.called)
	}
	return nil, nil
}

func copied(space subjects.Space, c run.Copy) (r subjects.Run, _ error) {
	agent, err := subjects.ParseAgent(c.Agent)
	if err != nil {
		return r, err
	}
	tree, err := subjects.ParseTree(c.Tree)
	if err != nil {
		return r, err
	}
	path, err := subjects.ParsePath(c.Path)
	return space.Run(agent, tree, path), err
}

// until reads a run up to the entry of a turn, which is stored; msgs is what it
// had from another one itself.
func (w *Worker) until(ctx context.Context, r subjects.Run, turn int) (*past, error) {
	ms, err := w.runs.Latest(ctx, r, "")
	if err != nil {
		return nil, err
	}
	h := &history{run: r}
	for i := range ms {
		if err := w.refold(ctx, h, ms[i]); err != nil {
			return nil, err
		}
		if len(h.state.Turns) == turn {
			return w.with(ctx, h)
		}
	}
	return nil, fmt.Errorf("%w: %s has no turn %d", errPast, r, turn)
}

// refold folds a message of a run that another one goes on from. Of a history
// that is corrupt nobody can go on; what the bus did not give it may give yet.
func (w *Worker) refold(ctx context.Context, h *history, m bus.Stored) error {
	err := w.fold(ctx, h, []bus.Stored{m})
	if errors.Is(err, run.ErrCorrupt) {
		return fmt.Errorf("%w: %w", errPast, err)
	}
	return err
}

// with is a run that was read, with what it had from another one.
func (w *Worker) with(ctx context.Context, h *history) (*past, error) {
	p := &past{run: h.run, head: h.head, state: h.state}
	before, err := w.origin(ctx, h)
	if before != nil {
		p.msgs = before.msgs
	}
	return p, err
}

// copyOf is the conversation of a run after a turn, with the results of its
// calls, and all of it with 0: as it was when its copy was called, whoever
// reads it and when.
func (w *Worker) copyOf(ctx context.Context, r subjects.Run, turn int, called uint64) (*past, error) {
	h := &history{run: r}
	call, ok, err := w.conn.First(ctx, r.Call())
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%w: there is no run %s", errPast, r)
	}
	h.head, _ = subjects.ParseCall(r, call.Header.Get)
	ms, err := w.runs.Latest(ctx, r, h.head.Reply)
	if err != nil {
		return nil, err
	}
	answer := ""
	for _, m := range ms {
		if m.Seq > called {
			break
		}
		if m.Subject == h.head.Reply {
			o, err := w.runs.Outcome(ctx, m)
			if err != nil {
				return nil, err
			}
			answer = o.Outcome.Result
			break
		}
		if turn > 0 && m.Subject == r.Log() && len(h.state.Turns) == turn {
			break
		}
		if err := w.refold(ctx, h, m); err != nil {
			return nil, err
		}
	}
	turns := len(h.state.Turns)
	if turn > turns+1 || turn == turns+1 && answer == "" {
		return nil, fmt.Errorf("%w: %s has no turn %d", errPast, r, turn)
	}
	p, err := w.with(ctx, h)
	if err != nil {
		return nil, err
	}
	user := prompt.RootUser(h.state.Input.Task)
	if start := h.state.Start(); start != nil {
		user = start.User
	}
	p.msgs = tool.Continued(p.msgs, tool.Conversation(r.Path, user, h.state.Turns))
	final := turns > 0 && h.state.Turns[turns-1].Entry.Kind == run.EntryFinal
	if answer != "" && !final && (turn == 0 || turn > turns) {
		p.msgs = append(p.msgs, provider.Message{Role: provider.Assistant, Content: answer})
	}
	return p, nil
}

// inherit is what a run has of the one that it goes on from, as that was
// started, and the bounds which that was in where its caller does not pass them
// on; nil if there is none, or it has left nothing of it. The error wraps
// errPast, or errUnread where another try may do.
func (w *Worker) inherit(ctx context.Context, h *history) (*run.Start, subjects.Budget, error) {
	none := subjects.Budget{}
	p, err := w.origin(ctx, h)
	if err != nil && !errors.Is(err, errPast) {
		return nil, none, fmt.Errorf("%w: %w", errUnread, err)
	}
	if err != nil || p == nil {
		return nil, none, err
	}
	h.inherited = p.msgs
	if p.state.Start() == nil {
		return nil, none, nil
	}
	s := *p.state.Start()
	s.Delegates, s.Memory, s.Turns = tool.Names(s.Tools), nil, 0
	if h.state.Input.Copy == nil {
		return &s, none, nil
	}
	s.MaxDepth = max(0, s.MaxDepth-p.head.Depth) // it is a root
	return &s, subjects.Together(s.Scopes), nil
}
