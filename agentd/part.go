package agentd

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// worthTelling is how long a model call takes before who watches is told of it.
const worthTelling = 20 * time.Millisecond

func (w *Worker) tell(ctx context.Context, r subjects.Run, p run.Progress) {
	body, err := json.Marshal(p)
	if err == nil {
		err = w.conn.PublishEphemeral(r.Progress(), body)
	}
	if err != nil {
		w.log.DebugContext(ctx, "progress", slog.String(keyRun, r.String()), slog.Any(keyError, err))
	}
}
