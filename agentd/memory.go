package agentd

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/memory"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/prompt"
	"github.com/axebus/axe/subjects"
)

// A failure of an agent's memory is logged. It never ends a run.

// recall returns the text about an agent's earlier runs, "" if it has no
// memory.
func (w *Worker) recall(ctx context.Context, a subjects.Agent, m configs.Memory) string {
	if !m.Enabled || w.cfg.Memory == nil {
		return ""
	}
	text, err := w.cfg.Memory.Open(a, m.Path).Read(ctx)
	if err != nil {
		w.log.WarnContext(ctx, "memory not read", slog.String(keyAgent, a.String()), slog.Any(keyError, err))
		return ""
	}
	if n := memory.Count(text); m.MaxEntries > 0 && n >= m.MaxEntries {
		w.log.WarnContext(ctx, "memory is full: axe gc trims it", slog.String(keyAgent, a.String()),
			slog.Int(keyEntries, n), slog.Int(keyMaxEntries, m.MaxEntries))
	}
	return memory.Last(text, m.LastN)
}

// remember appends a run to its agent's memory. The caller has stored the run's
// outcome.
func (x *execution) remember(ctx context.Context, m run.Memory, o run.Outcome) {
	if x.w.cfg.Memory == nil {
		return
	}
	if err := x.w.cfg.Memory.Open(x.run.Agent, m.Path).Append(ctx, x.memoryEntry(o)); err != nil {
		x.notRemembered(ctx, err)
	}
}

// memoryEntry returns the entry of a run. Its time follows from messages alone,
// so every worker makes the same entry.
func (r *loadedRun) memoryEntry(o run.Outcome) memory.Entry {
	e := memory.Entry{
		Time: r.state.CalledAt.Add(time.Duration(o.DurationMS) * time.Millisecond), Task: r.state.Input.Task,
		Result: o.Result,
	}
	if r.run.Path.IsRoot() {
		e.Task = prompt.RootUser(e.Task)
	}
	return e
}

// notRemembered logs that a run is missing from its agent's memory.
func (x *execution) notRemembered(ctx context.Context, err error) {
	x.w.log.WarnContext(ctx, "run not remembered", runAttr(x.run), slog.Any(keyError, err))
}

// rememberAgain does the work of a worker that died between the outcome and the
// memory: its trigger comes again, and the run has completed. The entry may be
// there already.
func (x *execution) rememberAgain(ctx context.Context) {
	if x.t.Count < 2 || !x.state.OutcomeStored || x.state.Phase != run.Completed || x.state.Owner != x.t.Seq {
		return
	}
	m, remembers := x.memory()
	reply, ok := x.replySubject()
	if !remembers || !ok {
		return
	}
	stored, ok, err := x.w.runs.OutcomeAt(ctx, x.run, reply)
	if err != nil || !ok {
		return
	}
	o, err := x.w.runs.Outcome(ctx, stored)
	if err != nil || o.Outcome.Status != run.StatusCompleted {
		return
	}
	text, err := x.w.cfg.Memory.Open(x.run.Agent, m.Path).Read(ctx)
	switch {
	case err != nil:
		x.notRemembered(ctx, err)
	case !strings.Contains(text, x.memoryEntry(o.Outcome).String()):
		x.remember(ctx, m, o.Outcome)
	}
}

// memory returns the memory of the run's agent. It returns false if the run is
// not to be remembered. For a run without a log, this worker's definition
// decides.
func (x *execution) memory() (run.Memory, bool) {
	if x.w.cfg.Memory == nil {
		return run.Memory{}, false
	}
	if start := x.state.Start(); start != nil {
		if start.Memory == nil {
			return run.Memory{}, false
		}
		return *start.Memory, true
	}
	def, ok := x.w.definition(x.run)
	return run.Memory{Path: def.Memory.Path}, ok && def.Memory.Enabled && !x.state.Input.AdHoc()
}
