package agentd

import (
	"context"
	"errors"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/history"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/subjects"
)

// peerRun returns the run that a call writes to or kills.
func peerRun(r subjects.Run, c run.Call) (subjects.Run, error) {
	agent, err := subjects.ParseAgent(c.Agent)
	return r.Space.Run(agent, r.Tree, c.To), err
}

// peer looks up another run of a tree. It returns false if there is none.
func (w *Worker) peer(ctx context.Context, r subjects.Run, id subjects.Path) (p tool.Peer, ok bool, err error) {
	var minSeq uint64
	subject := r.Space.CallOf(r.Tree, id)
	if w.conn.Replicas() > 1 {
		if minSeq, err = w.conn.LastSeq(ctx, subject); err != nil {
			return p, false, err
		}
	}
	err = history.CatchUp(ctx, func(ctx context.Context) (bool, error) {
		ms, err := bus.MessagePerSubject(ctx, w.conn, append(r.Space.EndsOf(r.Tree, id), subject)...)
		for _, m := range ms {
			if at, err := r.Space.Parse(m.Subject); err == nil && at.Kind == subjects.Call {
				p.Agent = at.Run.Agent.String()
				ok = true
			} else {
				p.Ended = true
			}
		}
		if ok || minSeq == 0 || err != nil {
			return true, err
		}
		// The replica lags, or all that is there are answers of the server.
		var seen uint64
		for m, err := range bus.MessagesAndAnswers(ctx, w.conn, subject) {
			if err != nil || !m.IsAnswer() {
				return false, err // the next read has the call
			}
			seen = m.Seq
		}
		return seen >= minSeq, nil
	}, "%s", subject)
	return p, ok && err == nil, err
}

// readsMail reports whether a peer can read mail: the first entry of its log
// says with which tools it was started. A run without a log, or with a
// malformed one, counts as one that can.
func (w *Worker) readsMail(ctx context.Context, r subjects.Run, id subjects.Path, p tool.Peer) (bool, error) {
	agent, err := subjects.ParseAgent(p.Agent)
	if err != nil {
		return false, err
	}
	m, ok, err := w.conn.First(ctx, r.Space.Run(agent, r.Tree, id).Log())
	if err != nil || !ok {
		return true, err
	}
	body, err := w.runs.Load(ctx, m)
	if err != nil {
		return false, err
	}
	e, err := run.DecodeEntry(body)
	if err != nil {
		return true, nil //nolint:nilerr // the peer's own worker reports it
	}
	return e.Start == nil || e.Start.HasInboxTools(), nil
}

// noteBusyPeers notes, in the calls that wait for peers, which of them are busy
// again though they have said that they are idle: a sibling or a person has
// written to them.
func (x *execution) noteBusyPeers(ctx context.Context, calls []run.Call) error {
	for i, c := range calls {
		for _, from := range c.From {
			if c.Failed() || !x.state.SaidIdle(from) {
				continue
			}
			r := x.run.Space.Run(x.run.Agent, x.run.Tree, from)
			ms, err := x.w.runs.Latest(ctx, r, "")
			if err != nil {
				return err
			}
			fork := &loadedRun{w: x.w, run: r}
			if err := fork.fold(ctx, ms); err != nil && !errors.Is(err, run.ErrCorrupt) {
				return err
			}
			if fork.state.Phase != run.Idle {
				calls[i].Busy = append(calls[i].Busy, from)
			}
		}
	}
	return nil
}
