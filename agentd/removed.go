package agentd

import (
	"context"
	"errors"
	"log/slog"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// errNoCall says that the stream has no call of a run.
var errNoCall = errors.New("the run has no call")

// failRemoved ends a run whose call is not on the stream any more. No worker
// can go on with it, and the caller is told so.
func failRemoved(ctx context.Context, w *Worker, t *trigger, lost error) error {
	r := t.at.Run
	w.log.ErrorContext(ctx, "run lost by removal",
		slog.String(keyRun, r.String()), slog.Uint64(keySeq, t.Seq), slog.Any(keyError, lost))
	const text = "%v: the beginning of the run is not on the stream any more"
	return failUnread(ctx, w, r, run.Failure(run.KindError, text, run.ErrRemoved))
}

// replyOfParent returns the subject at which the parent of a run awaits the
// outcome. The run's own call named it and is gone; the path names the turn and
// the call, and the parent's call has the parent's agent. Without that call the
// result is false: the parent is lost too, and its timer ends its wait.
func replyOfParent(ctx context.Context, w *Worker, r subjects.Run) (reply string, ok bool, err error) {
	path, turn, index, ok := r.Path.Parent()
	if !ok {
		return "", false, nil
	}
	ms, err := w.conn.LastPerSubject(ctx, r.Space.CallOf(r.Tree, path))
	for _, m := range ms {
		if at, err := r.Space.Parse(m.Subject); err == nil {
			return at.Run.Reply(turn, index), true, nil
		}
	}
	return "", false, err
}
