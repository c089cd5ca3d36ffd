package mcpserver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// reportInterval is the shortest time between two reports of one call.
const reportInterval = 500 * time.Millisecond

// report is one report of a tree's progress.
type report struct {
	// value grows from one report to the next. Its whole part is the number
	// of runs that have ended.
	value float64
	// total is the number of runs that are known so far.
	total   float64
	message string
}

// progress follows a tree for its reports.
type progress struct {
	tree    subjects.Tree
	changed chan struct{}

	mu sync.Mutex
	// known has the runs that were called, with true for those that have
	// ended.
	known map[subjects.Path]bool
	ended int
	// reports is the number of reports since a run has ended.
	reports int
	// line says what has happened last.
	line string
	// held has the runs that wait for a person.
	held map[subjects.Path]hold
}

// hold is the state of a run that waits for a person.
type hold struct {
	// verb is the command of axe by which the person decides.
	verb string
	// reason says why the run waits. It may be empty.
	reason string
}

// holdOf returns the hold of an event of the kind client.Held: of a turn, of a
// call of a tool that may have taken effect, or of one whose tool asks.
func holdOf(e client.Event) hold {
	switch {
	case e.Entry.Kind != run.EntryHeld:
		return hold{"approve", e.Reason}
	case e.Entry.Form != nil:
		return hold{"answer", e.Reason}
	}
	return hold{"settle", e.Reason}
}

func newProgress(tree subjects.Tree) *progress {
	return &progress{
		tree: tree, changed: make(chan struct{}, 1), known: map[subjects.Path]bool{}, held: map[subjects.Path]hold{},
	}
}

// report passes a report to send after each change, at most two a second, until
// stop is called. Stop waits for the last one.
func (p *progress) report(ctx context.Context, send func(context.Context, report)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var reporter sync.WaitGroup
	reporter.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-p.changed:
				send(ctx, p.next())
			}
			_ = pause.For(ctx, reportInterval)
		}
	})
	return func() {
		cancel()
		reporter.Wait()
	}
}

// next makes the next report.
func (p *progress) next() report {
	p.mu.Lock()
	defer p.mu.Unlock()
	// 0, 1/2, 2/3, …: the value grows and stays below the next whole
	// number.
	part := 1 - 1/float64(p.reports+1)
	p.reports++
	return report{float64(p.ended) + part, float64(len(p.known)), p.message()}
}

// message describes the tree. A run that waits for a person comes first. The
// caller holds the lock.
func (p *progress) message() string {
	line := p.line
	paths := slices.SortedFunc(maps.Keys(p.held), client.ComparePaths)
	if len(paths) > 0 {
		h := p.held[paths[0]]
		line = fmt.Sprintf("held: %s with axe %s %s", h.verb, h.verb, p.tree)
		if !paths[0].IsRoot() {
			line += " " + paths[0].String()
		}
		if h.reason != "" {
			line += " (" + h.reason + ")"
		}
	}
	return fmt.Sprintf("%s, %d of %d runs done", line, p.ended, len(p.known))
}

// see takes an event of the tree into account.
func (p *progress) see(e client.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	path := e.Run.Path
	if _, known := p.known[path]; !known {
		p.known[path] = false
	}
	switch e.Kind { //nolint:exhaustive // no other event changes these
	case client.Held:
		p.held[path] = holdOf(e)
	case client.Approved, client.Denied, client.Settled, client.TimedOut, client.Interrupted, client.Cancelled:
		delete(p.held, path)
	case client.ChildEnded, client.TreeEnded:
		delete(p.held, path)
		if !p.known[path] {
			p.known[path] = true
			p.ended++
			p.reports = 0
		}
	}
	if text := activity(e); text != "" {
		p.line = e.Run.Agent.String() + " " + path.String() + ": " + text
	}
	pause.Notify(p.changed)
}

// activity describes the event of a run, "" for one that is not worth a report.
func activity(e client.Event) string {
	turn := fmt.Sprintf("turn %d", e.Turn)
	switch e.Kind {
	case client.Called:
		return "called"
	case client.Asking:
		return turn
	case client.Running:
		return "at work"
	case client.Retrying:
		return fmt.Sprintf("%s, request %d of %d after an error (%s)", turn, e.Progress.Attempt, e.Progress.Attempts,
			e.Progress.Reason)
	case client.RateLimited:
		return turn + " waits (" + e.Progress.Reason + ")"
	case client.Stalled:
		return e.Reason
	case client.Answered:
		return turn + " has called tools"
	case client.BecameIdle:
		return "waits for mail"
	case client.ChildEnded, client.TreeEnded:
		if e.Outcome.Status != run.StatusCompleted {
			return "failed"
		}
		return "done"
	case client.Approved:
		return turn + " was approved"
	case client.Denied:
		return turn + " was denied"
	case client.Cancelled, client.Interrupted, client.Settled:
		return string(e.Kind)
	case client.Held, client.MailReceived, client.TimedOut, client.NotCounted, client.CancelSent:
	}
	return ""
}
