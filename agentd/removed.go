package agentd

import (
	"context"
	"errors"
	"log/slog"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// errNoCall is the error of a run without a call on the stream.
var errNoCall = errors.New("the run has no call")

// failRemoved ends a run after its call was removed from the stream: no worker
// can go on with it. The caller gets a failed outcome.
func failRemoved(ctx context.Context, w *Worker, t *trigger, lost error) error {
	r := t.at.Run
	w.log.ErrorContext(ctx, "run lost by removal",
		runAttr(r), slog.Uint64(keySeq, t.Seq), slog.Any(keyError, lost))
	const text = "%v: the beginning of the run is not on the stream any more"
	return failUnread(ctx, w, r, run.Failure(run.KindError, text, run.ErrRemoved))
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
