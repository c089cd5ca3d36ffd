package agentd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// mailed reads what was written to a run. What is malformed is nothing, on every worker.
func (w *Worker) mailed(ctx context.Context, m bus.Stored, meta run.Meta) (run.Event, error) {
	body, err := w.load(ctx, m)
	if err != nil {
		return nil, err
	}
	letter, err := run.DecodeMail(body)
	if err != nil {
		return nil, nil //nolint:nilerr // as any other message that says nothing (rule 7)
	}
	return run.Mailed{Meta: meta, Mail: letter}, nil
}

// post is a letter to a run. Its key follows from the log of who writes, so writing it again changes nothing.
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
		m, err := post(to, h.run.Path.Letter(e.Turn, c.Index), run.Mail{From: h.run.Path.String(), Text: c.Call.Task})
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
		body, err := json.Marshal(run.End{Kind: run.KindCancelled, Text: "killed by " + h.run.Path.String()})
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

// tellIdle tells the parent of a forked run that it is idle. One that is waited for, and was stopped by a person, needs a
// timer of its own now.
func (w *Worker) tellIdle(ctx context.Context, h *history, e run.Rest) error {
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
	m, err := post(h.run.Space.Run(h.head.Parent, h.run.Tree, path), h.run.Path.Rest(e.Turn), run.Mail{From: h.run.Path.String(), Text: string(text), Idle: true})
	if err != nil {
		return err
	}
	return w.writeAll(ctx, []bus.Message{m})
}

// lone reports whether nobody's timer waits for a run: it has one of its own, turn 0, from its call on.
func (h *history) lone() bool { return h.run.Path.IsRoot() || h.state.Input.Forked != nil }

// peer looks for another run of a tree.
func (w *Worker) peer(ctx context.Context, r subjects.Run, id subjects.Path) (p tool.Peer, ok bool, err error) {
	var must uint64
	subject := r.Space.CallOf(r.Tree, id)
	if w.conn.Replicas() > 1 {
		if must, err = w.conn.Last(ctx, subject); err != nil {
			return p, false, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lagging, errLagging)
	defer cancel()
	for {
		ms, err := w.conn.Snapshot(ctx, append(r.Space.EndsOf(r.Tree, id), subject)...)
		if err != nil {
			return p, false, err
		}
		for _, m := range ms {
			if at, err := r.Space.Parse(m.Subject); err == nil && at.Kind == subjects.Call {
				p.Agent, ok = at.Run.Agent.String(), true
			} else {
				p.Ended = true
			}
		}
		if ok || must == 0 {
			return p, ok, nil
		}
		if err := bus.Pause(ctx, 10*time.Millisecond); err != nil {
			return p, false, fmt.Errorf("read %s: %w", subject, err)
		}
	}
}

// errPast is wrapped by the error of a copy whose parent's history is not there any more, or not whole.
var errPast = errors.New("the history of the parent cannot be read")

// recallParent reads what a copy of its parent knows from there, unless it was read before.
func (w *Worker) recallParent(ctx context.Context, h *history) error {
	if f := h.state.Input.Forked; f == nil || !f.Inherit || h.inherited != nil {
		return nil
	}
	msgs, _, err := w.past(ctx, h.run, h.head.Parent)
	if err == nil {
		h.inherited = msgs
		for _, m := range msgs {
			h.size += len(m.Content)
		}
	}
	return err
}

// inherit is what a copy has of its parent, as that was started.
func (w *Worker) inherit(ctx context.Context, h *history) (*run.Start, error) {
	msgs, parent, err := w.past(ctx, h.run, h.head.Parent)
	if err != nil {
		return nil, err
	}
	h.inherited = msgs
	s := *parent.Start()
	s.Delegates, s.Memory, s.Turns = tool.Names(s.Tools), nil, 0
	return &s, nil
}

// past is the conversation and the state of a run's parent, at the turn that made the run.
func (w *Worker) past(ctx context.Context, r subjects.Run, agent subjects.Agent) ([]provider.Message, run.State, error) {
	path, turn, _, _ := r.Path.Parent()
	h := &history{run: r.Space.Run(agent, r.Tree, path)}
	ctx, cancel := context.WithTimeoutCause(ctx, lagging, errLagging)
	defer cancel()
	for {
		ms, err := w.readWhole(ctx, h.run, "")
		if err != nil {
			return nil, run.State{}, err
		}
		at := slices.IndexFunc(ms, func(m bus.Stored) bool { return w.isEntry(ctx, h.run, m, turn) })
		if at < 0 {
			if err := bus.Pause(ctx, 10*time.Millisecond); err != nil { // a follower may lag
				return nil, run.State{}, fmt.Errorf("%w: %w", errPast, err)
			}
			continue
		}
		if err := w.fold(ctx, h, ms[:at+1]); err != nil {
			return nil, run.State{}, fmt.Errorf("%w: %w", errPast, err)
		}
		var before []provider.Message
		if f := h.state.Input.Forked; f != nil && f.Inherit {
			if before, _, err = w.past(ctx, h.run, h.head.Parent); err != nil {
				return nil, run.State{}, err
			}
		}
		return tool.Inherited(h.state, h.run.Path, r.Path, before), h.state, nil
	}
}

// isEntry reports whether a message is the entry of a turn.
func (w *Worker) isEntry(ctx context.Context, r subjects.Run, m bus.Stored, turn int) bool {
	if m.Subject != r.Log() {
		return false
	}
	body, err := w.load(ctx, m)
	if err != nil {
		return false
	}
	e, err := run.DecodeEntry(body)
	return err == nil && e.Index == turn
}
