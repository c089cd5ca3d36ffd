package agentd

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/subjects"
)

// peer looks up another run of a tree, with everything that is stored by now.
// It returns false if there is none.
func (w *Worker) peer(ctx context.Context, r subjects.Run, id subjects.Path) (p tool.Peer, ok bool, err error) {
	call, ok, err := w.runs.FirstAt(ctx, r.Space.CallOf(r.Tree, id))
	if err != nil || !ok {
		return p, false, err
	}
	at, err := r.Space.Parse(call.Subject)
	if err != nil {
		return p, false, nil //nolint:nilerr // no worker takes such a call
	}
	p.Agent = at.Run.Agent.String()
	p.Ended, err = hasEnded(ctx, w, at.Run, call)
	return p, err == nil, err
}

// hasEnded reports whether the run of a call has an outcome that counts, or a
// cancel message. It reads both at the same time.
func hasEnded(ctx context.Context, w *Worker, r subjects.Run, call bus.Stored) (bool, error) {
	var ended, cancelled bool
	group, ctx := errgroup.WithContext(ctx)
	of := &loadedRun{w: w, run: r}
	of.parseCall(call, false)
	if reply, ok := of.replySubject(); ok {
		group.Go(func() (err error) {
			_, ended, err = w.runs.OutcomeAt(ctx, r, reply)
			return err
		})
	}
	group.Go(func() (err error) {
		_, cancelled, err = w.runs.FirstAt(ctx, r.Cancel())
		return err
	})
	err := group.Wait()
	return ended || cancelled, err
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
