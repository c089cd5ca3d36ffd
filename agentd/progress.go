package agentd

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

// progressDelay is the duration of a model call, or of a wait for the rate
// limit or the budget, after which the worker publishes progress. So fast calls
// cost nothing.
const progressDelay = 20 * time.Millisecond

// publishProgress publishes the progress of a run, for watchers, and keeps it
// for those that ask later. It is not stored. A repeated report (Again) is for
// the worker that had the run before: it is not kept, since the run may wait or
// run a tool by now.
func (w *Worker) publishProgress(ctx context.Context, r subjects.Run, p run.Progress) {
	w.mu.Lock()
	if q := w.queues[r]; q != nil && !p.Again {
		q.progress, q.progressAt = p, time.Now()
	}
	w.mu.Unlock()
	body, err := json.Marshal(p)
	if err == nil {
		err = w.conn.PublishEphemeral(r.Progress(), body)
	}
	if err != nil {
		w.log.DebugContext(ctx, "progress not published", runAttr(r), slog.Any(keyError, err))
	}
}

// workInHand returns the runs that a worker has in hand: of one tree or, for
// the empty id, of all. The oldest runs come first.
func workInHand(w *Worker, tree string) presence.Work {
	now := w.conn.Clocks.Now()
	serverTime := func(t time.Time) time.Time { return now.Add(-time.Since(t)).UTC() }
	work := presence.Work{
		Slots: w.cfg.Slots, Free: w.slots.spare(), ToolSlots: w.cfg.ToolSlots, FreeTools: w.toolSlots.spare(),
		Draining: w.draining.Load(), Trouble: w.conn.Health.Trouble(),
	}
	w.mu.Lock()
	for r, q := range w.queues {
		if tree != "" && r.Tree.String() != tree {
			continue
		}
		h := presence.InHand{Agent: r.Agent, Tree: r.Tree, Path: r.Path, Since: serverTime(q.since)}
		if !q.progressAt.IsZero() {
			h.Progress, h.At = q.progress, serverTime(q.progressAt)
		}
		work.Runs = append(work.Runs, h)
	}
	w.mu.Unlock()
	slices.SortFunc(work.Runs, func(a, b presence.InHand) int { return a.Since.Compare(b.Since) })
	return work
}
