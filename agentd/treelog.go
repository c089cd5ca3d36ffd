package agentd

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/subjects"
)

const (
	// treeLogWindow is the time over which a worker counts lines about trees.
	treeLogWindow = 10 * time.Second
	// treeLogLines is the number of lines that a worker logs in a window. It
	// only counts the further lines.
	treeLogLines = 100
	// maxLoggedError bounds an error in a line about a run, in bytes.
	maxLoggedError = 300
)

// treeLog logs the first model call and the end of each tree, and each failed
// run, of those that this worker carries out. After treeLogLines lines in a
// window it counts the further lines, and logs the sums at the end of the
// window.
type treeLog struct {
	log    *slog.Logger
	prices price.Table

	mu sync.Mutex
	// lines is the number of lines in this window.
	lines int
	// windowTimer ends the window. It is nil while no window is open.
	windowTimer *time.Timer
	sums        treeSums
}

// treeSums counts lines that were not logged.
type treeSums struct {
	begun int
	// completed includes the trees that were cancelled.
	completed, failed int
	// failedRuns is the number of failed runs below a root.
	failedRuns int
	// totals sums the work of the ended trees.
	totals run.Totals
}

// begun logs that a tree begins. The caller calls it before the root's first
// request. A tree has no such line if the first delivery of its root ends
// without a request.
func (l *treeLog) begun(ctx context.Context, root subjects.Run) {
	if l.admit(ctx, func(s *treeSums) { s.begun++ }) {
		l.log.InfoContext(ctx, "tree begun", runAttr(root))
	}
}

// ended logs the end of a run. A root has a line in any case. Another run has a
// warning if it failed. A cancelled run below the root has a line at debug,
// which the window does not count.
func (l *treeLog) ended(ctx context.Context, r subjects.Run, o run.Outcome) {
	switch {
	case r.Path.IsRoot():
		l.treeEnded(ctx, r, o)
	case o.Status == run.StatusCompleted:
	case o.Kind == run.KindCancelled:
		l.log.DebugContext(ctx, "run cancelled", failedRunAttrs(r, o)...)
	case l.admit(ctx, func(s *treeSums) { s.failedRuns++ }):
		l.log.WarnContext(ctx, "run failed", failedRunAttrs(r, o)...)
	}
}

func (l *treeLog) treeEnded(ctx context.Context, r subjects.Run, o run.Outcome) {
	failed := o.Status != run.StatusCompleted && o.Kind != run.KindCancelled
	if !l.admit(ctx, func(s *treeSums) {
		s.totals = s.totals.Add(o.Subtree)
		if failed {
			s.failed++
		} else {
			s.completed++
		}
	}) {
		return
	}
	attrs := []any{runAttr(r), slog.String(keyStatus, string(o.Status))}
	if o.Status != run.StatusCompleted {
		attrs = append(attrs, failureAttrs(o)...)
	}
	attrs = append(attrs, totalAttrs(o.Subtree)...)
	if c := l.prices.Cost(o.Subtree.ByModel(o.Model)); c.Priced {
		attrs = append(attrs, slog.String(keyCost, c.Text()))
	}
	attrs = append(attrs, slog.Int64(keyMS, o.DurationMS))
	level := slog.LevelInfo
	if failed {
		level = slog.LevelWarn
	}
	l.log.Log(ctx, level, "tree ended", attrs...)
}

// runAttr names a run: its tree, its agent and its path.
func runAttr(r subjects.Run) slog.Attr {
	return slog.Group("", slog.String(keyTree, r.Tree.String()), slog.String(keyAgent, r.Agent.String()),
		slog.String(keyPath, r.Path.String()))
}

func failedRunAttrs(r subjects.Run, o run.Outcome) []any {
	return append([]any{runAttr(r)}, failureAttrs(o)...)
}

func failureAttrs(o run.Outcome) []any {
	return []any{slog.String(keyKind, string(o.Kind)), slog.String(keyError, text.Truncate(o.Error, maxLoggedError))}
}

func totalAttrs(t run.Totals) []any {
	return []any{
		slog.Int(keyRuns, t.Runs), slog.Int(keyTurns, t.ModelCalls), slog.Int(keyTokens, t.InputTokens+t.OutputTokens),
	}
}

// admit reports whether the worker logs a line. If not, it calls count with the
// sums. The first line opens a window.
func (l *treeLog) admit(ctx context.Context, count func(*treeSums)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.windowTimer == nil {
		l.windowTimer = time.AfterFunc(treeLogWindow, func() { l.endWindow(context.WithoutCancel(ctx)) })
	}
	if l.lines < treeLogLines {
		l.lines++
		return true
	}
	count(&l.sums)
	return false
}

// endWindow ends a window, and logs its sums if lines were left out.
func (l *treeLog) endWindow(ctx context.Context) {
	l.mu.Lock()
	s := l.sums
	l.sums = treeSums{}
	l.lines = 0
	if l.windowTimer != nil {
		l.windowTimer.Stop()
		l.windowTimer = nil
	}
	l.mu.Unlock()
	if s.begun+s.completed+s.failed+s.failedRuns == 0 {
		return
	}
	l.log.InfoContext(ctx, "trees, summed", append([]any{
		slog.Int(keyBegun, s.begun), slog.Int(keyCompleted, s.completed), slog.Int(keyFailed, s.failed),
		slog.Int(keyFailedRuns, s.failedRuns),
	}, totalAttrs(s.totals)...)...)
}
