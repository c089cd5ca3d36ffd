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
	// treeLogWindow is the time over which lines about trees are counted.
	treeLogWindow = 10 * time.Second
	// treeLogLines is the number of lines about trees in a window after
	// which a worker logs sums.
	treeLogLines = 100
	// maxLoggedError is the length in bytes to which an error is cut in the
	// log.
	maxLoggedError = 300
)

// treeLog logs the begin and the end of each tree, and each failed run. Above
// treeLogLines lines in a window it counts them, and logs the sums at the end
// of the window.
type treeLog struct {
	log    *slog.Logger
	prices price.Table

	mu sync.Mutex
	// lines is the number of lines in this window.
	lines int
	// windowEnd is set while a window is open.
	windowEnd *time.Timer
	sums      treeSums
}

// treeSums counts lines that were not logged.
type treeSums struct {
	begun int
	// completed includes the trees that were cancelled.
	completed, failed int
	// failedRuns are the failed runs that are no roots.
	failedRuns int
	totals     run.Totals
}

// begun logs the begin of a tree.
func (l *treeLog) begun(ctx context.Context, root subjects.Run) {
	if l.admit(ctx, func(s *treeSums) { s.begun++ }) {
		l.log.InfoContext(ctx, "tree begun", runAttr(root))
	}
}

// ended logs the end of a run: that of a root, and that of any other run that
// has failed. A run that was cancelled has not failed by itself.
func (l *treeLog) ended(ctx context.Context, r subjects.Run, o run.Outcome) {
	switch {
	case r.Path.IsRoot():
		l.treeEnded(ctx, r, o)
	case o.Status == run.StatusCompleted:
	case o.Kind == run.KindCancelled:
		l.log.DebugContext(ctx, "run cancelled", runAttrs(r, o)...)
	case l.admit(ctx, func(s *treeSums) { s.failedRuns++ }):
		l.log.WarnContext(ctx, "run failed", runAttrs(r, o)...)
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

// runAttr names a run. Every log line about a run has it.
func runAttr(r subjects.Run) slog.Attr {
	return slog.Group("", slog.String(keyTree, r.Tree.String()), slog.String(keyAgent, r.Agent.String()),
		slog.String(keyPath, r.Path.String()))
}

func runAttrs(r subjects.Run, o run.Outcome) []any {
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

// admit reports whether a line may be logged. If not, it counts the line.
func (l *treeLog) admit(ctx context.Context, count func(*treeSums)) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.windowEnd == nil {
		l.windowEnd = time.AfterFunc(treeLogWindow, func() { l.endWindow(context.WithoutCancel(ctx)) })
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
	if l.windowEnd != nil {
		l.windowEnd.Stop()
		l.windowEnd = nil
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
