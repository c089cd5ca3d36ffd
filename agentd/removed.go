package agentd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// errNoCall is the error of a run without a call on the stream.
var errNoCall = errors.New("the run has no call")

// failRemoved ends a run after its call was removed from the stream: no worker
// can go on with it. The caller gets a failed outcome. Seq is the sequence of
// the message that showed it.
func failRemoved(ctx context.Context, w *Worker, r subjects.Run, seq uint64, lost error) error {
	w.log.ErrorContext(ctx, "run lost by removal",
		runAttr(r), slog.Uint64(keySeq, seq), slog.Any(keyError, lost))
	const text = "%v: the beginning of the run is not on the stream any more"
	return failUnread(ctx, w, r, run.Failure(run.KindError, text, run.ErrRemoved))
}

// errCallRemoved is the error of a tree without the call of its root, of which
// other messages are on the stream.
var errCallRemoved = fmt.Errorf("%w: the tree has messages, but not the call of its root", run.ErrRemoved)

// checkNotRemoved returns an error that wraps run.ErrRemoved if workers have
// carried out a part of a tree whose root has no call any more. A tree that
// began anew would meet the logs and outcomes of its runs from before, and wait
// for outcomes that are there already. A cancel message, or one for the root,
// may come before the call.
func checkNotRemoved(ctx context.Context, w *Worker, root subjects.Run) error {
	for m, err := range bus.Messages(ctx, w.conn, root.Space.TreeOf(root.Tree)) {
		if err != nil {
			return err
		}
		at, err := root.Space.Parse(m.Subject)
		if err != nil {
			continue // a later version may write it
		}
		switch {
		case at.Run == root && at.Kind == subjects.Call:
			return nil
		case at.Kind == subjects.Call, at.Kind == subjects.Tool, at.Kind == subjects.Log, at.Kind == subjects.Reply:
			return errCallRemoved
		}
	}
	return nil
}

// replyOfParent returns the reply subject of a run without its call. The run's
// path has the turn and the index of the call in its parent, and the subject of
// the parent's own call has the parent's agent. If that is gone too, the result
// is false: a timer ends the wait of the parent, which is lost too.
func replyOfParent(ctx context.Context, w *Worker, r subjects.Run) (reply string, ok bool, err error) {
	parent, turn, index, ok := r.Path.Parent()
	if !ok {
		return "", false, nil
	}
	calls, err := bus.MessagePerSubject(ctx, w.conn, r.Space.CallOf(r.Tree, parent))
	if err != nil {
		return "", false, err
	}
	for _, call := range calls {
		if at, err := r.Space.Parse(call.Subject); err == nil {
			return at.Run.Reply(turn, index), true, nil
		}
	}
	return "", false, nil
}
