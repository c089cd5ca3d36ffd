package agentd

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// progressDelay is the duration of a model call, or of a wait for the rate
// limit or the budget, after which the worker publishes progress. So fast calls
// cost nothing.
const progressDelay = 20 * time.Millisecond

// publishProgress publishes the progress of a run, for watchers. It is not
// stored.
func (w *Worker) publishProgress(ctx context.Context, r subjects.Run, p run.Progress) {
	body, err := json.Marshal(p)
	if err == nil {
		err = w.conn.PublishEphemeral(r.Progress(), body)
	}
	if err != nil {
		w.log.DebugContext(ctx, "progress not published", slog.String(keyRun, r.String()), slog.Any(keyError, err))
	}
}
