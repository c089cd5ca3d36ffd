package client

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// RunInfo is one run of a Snapshot.
type RunInfo struct {
	Run subjects.Run
	// Input is the request to the run. It has a Tool for a tool run.
	Input run.Input
	// Called is the time of the call, and Deadline the run's deadline. Both
	// are zero for a run of which the call was removed.
	Called, Deadline time.Time
	// Ended is the time of the outcome, zero before.
	Ended time.Time
	// Outcome is the outcome of a run that has ended.
	Outcome run.Outcome
	// State is the state of a run that has not ended.
	State run.State
	// Worker is the last worker that is known to have had the run in hand.
	Worker string
	// Model is the model of the run, empty if it is not known yet.
	Model string
	// Own counts the run's own work, and Retries its failed requests to its
	// model that were made again.
	Own     run.Totals
	Retries int
	// Spans divide the time from the call to the outcome, or until now.
	Spans []Span

	doing span
}

// Status is the status of a run in a word: completed, failed, or the phase of
// its state.
func (r RunInfo) Status() string {
	if !r.Ended.IsZero() {
		return string(r.Outcome.Status)
	}
	return r.State.Phase.String()
}

// Name is the name of the run's agent or tool.
func (r RunInfo) Name() string {
	if t := r.Input.Tool; t != nil {
		return cmp.Or(t.Name, r.Run.Agent.String())
	}
	return cmp.Or(r.Outcome.Tool, r.Run.Agent.String())
}

// Runs lists the runs of the tree, each before those below it, in the order of
// turns and calls.
func (s *Snapshot) Runs() []RunInfo {
	var infos RunInfos
	for _, e := range s.Events {
		infos.Apply(e)
	}
	var all []RunInfo
	for _, path := range slices.SortedFunc(maps.Keys(infos.runs), ComparePaths) {
		all = append(all, infos.Run(path))
	}
	return all
}

// RunInfos are the runs of a tree, as its events report them. The zero value is
// a tree without events.
type RunInfos struct{ runs map[subjects.Path]RunInfo }

// Apply adds an event. The events have to come in the order of the tree.
func (i *RunInfos) Apply(e Event) {
	if i.runs == nil {
		i.runs = map[subjects.Path]RunInfo{}
	}
	i.runs[e.Run.Path] = i.runs[e.Run.Path].with(e)
	if above, _, _, below := e.Run.Path.Parent(); below && e.Kind == ChildEnded {
		if caller, known := i.runs[above]; known && caller.Ended.IsZero() {
			caller.State = e.Caller
			i.runs[above] = caller.spend(e, e.Caller)
		}
	}
}

// Run returns a run. It is zero for a path without an event.
func (i *RunInfos) Run(path subjects.Path) RunInfo {
	r := i.runs[path]
	if !r.Ended.IsZero() {
		return r
	}
	r.Own = r.State.Turns.Totals()
	r.Own.Runs = 1
	r.Retries = r.State.Turns.Retries()
	if !r.doing.from.IsZero() {
		r.Spans = append(slices.Clip(r.Spans), Span{Kind: r.doing.kind, From: r.doing.from})
	}
	return r
}

// with adds an event.
func (r RunInfo) with(e Event) RunInfo {
	r.Run = e.Run
	r.Worker = cmp.Or(e.Worker, r.Worker)
	r.Model = cmp.Or(modelOf(e), r.Model)
	if !r.Ended.IsZero() {
		return r
	}
	r.State = e.State
	switch e.Kind { //nolint:exhaustive // the state has the rest
	case Called:
		r.Input, r.Called, r.Deadline = e.Input, e.Time, e.Deadline
	case ChildEnded, TreeEnded:
		o := e.Outcome
		r.Ended, r.Outcome, r.Model, r.State = e.Time, o, cmp.Or(o.Model, r.Model), run.State{}
		r.Own = run.Totals{
			Usage: o.Usage, Runs: 1, ModelCalls: o.Turns, ToolCalls: o.ToolCalls, ModelMS: o.ModelMS,
		}
		r.Retries = o.Retries
	}
	return r.spend(e, e.State)
}

// ComparePaths orders the paths of a tree: each before those below it, and
// siblings by turn and call.
func ComparePaths(a, b subjects.Path) int {
	as, bs := strings.Split(a.String(), "-"), strings.Split(b.String(), "-")
	return slices.CompareFunc(as, bs, func(x, y string) int {
		// A number without a leading zero is larger if it is longer.
		return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y))
	})
}

// UsageByModel sums the tokens of runs by the model that they have used.
func UsageByModel(runs []RunInfo) map[string]provider.Usage {
	sums := map[string]provider.Usage{}
	for _, r := range runs {
		if r.Own.Usage != (provider.Usage{}) {
			model := cmp.Or(r.Model, "unknown")
			sums[model] = sums[model].Add(r.Own.Usage)
		}
	}
	return sums
}
