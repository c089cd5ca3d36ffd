package agentd

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/agentd/prompt"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// What goes wrong with an agent's memory is logged, and never the end of a run.

// recall is what an agent is told of what it has done, empty if it has no
// memory.
func (w *Worker) recall(ctx context.Context, a subjects.Agent, m configs.Memory) string {
	if !m.Enabled || w.cfg.Memory == nil {
		return ""
	}
	log := w.cfg.Memory.Open(a, m.Path)
	text, err := log.Read(ctx)
	if err != nil {
		w.log.WarnContext(ctx, "memory is not read", slog.String(keyAgent, a.String()), slog.Any(keyError, err))
		return ""
	}
	if n := memory.Count(text); m.MaxEntries > 0 && n >= m.MaxEntries {
		w.log.WarnContext(ctx, "memory is full: axe gc trims it", slog.String(keyAgent, a.String()),
			slog.Int(keyEntries, n), slog.Int(keyMaxEntries, m.MaxEntries))
	}
	return memory.Last(text, m.LastN)
}

// remember appends what a run has done to its agent's memory, after its outcome
// is stored: of two workers only one stores it. After a redelivery the entry
// may be there already. It is the same one then, since its time follows from
// messages alone.
func (w *Worker) remember(ctx context.Context, h *history, m run.Memory, o run.Outcome, again bool) {
	if w.cfg.Memory == nil {
		return
	}
	log := w.cfg.Memory.Open(h.run.Agent, m.Path)
	e := memory.Entry{
		Time: h.state.CalledAt.Add(
			time.Duration(o.DurationMS) * time.Millisecond,
		), Task: h.state.Input.Task, Result: o.Result,
	}
	if h.run.Path.IsRoot() {
		e.Task = prompt.RootUser(e.Task)
	}
	var err error
	if again {
		var text string
		if text, err = log.Read(ctx); strings.Contains(text, e.String()) {
			return
		}
	}
	if err == nil {
		err = log.Append(ctx, e)
	}
	if err != nil {
		w.log.WarnContext(
			ctx,
			"a run is not remembered",
			slog.String(keyRun, h.run.String()),
			slog.Any(keyError, err),
		)
	}
}

// rememberAgain does what a worker that died may have left undone: its trigger
// comes again, and the run has ended well.
func (w *Worker) rememberAgain(ctx context.Context, h *history, t *trigger) {
	if t.Count < 2 || !h.state.OutcomeStored || h.state.Phase != run.Completed || h.state.Owner != t.Seq ||
		w.cfg.Memory == nil {
		return
	}
	m := run.Memory{}
	if start := h.state.Start(); start != nil {
		if start.Memory == nil {
			return
		}
		m = *start.Memory
	} else {
		if h.state.Input.AdHoc() {
			return
		}
		def, ok := w.definition(h.run)
		if !ok || !def.Memory.Enabled {
			return
		}
		m.Path = def.Memory.Path
	}
	reply, ok := h.reply()
	if !ok {
		return
	}
	end, ok, err := w.outcomeAt(ctx, reply)
	if err != nil || !ok {
		return
	}
	if o, err := w.runs.Outcome(ctx, end); err == nil && o.Outcome.Status == run.StatusCompleted {
		w.remember(ctx, h, m, o.Outcome, true)
	}
}
