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
	infos := map[subjects.Path]RunInfo{}
	for _, e := range s.Events {
		infos[e.Run.Path] = infos[e.Run.Path].with(e)
	}
	all := slices.Collect(maps.Values(infos))
	slices.SortFunc(all, func(a, b RunInfo) int { return ComparePaths(a.Run.Path, b.Run.Path) })
	for i, r := range all {
		if r.Ended.IsZero() {
			all[i] = r.atWork(s.State(r.Run.Path))
		}
	}
	return all
}

// with adds an event.
func (r RunInfo) with(e Event) RunInfo {
	r.Run = e.Run
	r.Worker = cmp.Or(e.Worker, r.Worker)
	r.Model = cmp.Or(modelOf(e), r.Model)
	switch e.Kind { //nolint:exhaustive // the state has the rest
	case Called:
		r.Input, r.Called, r.Deadline = e.Input, e.Time, e.Deadline
	case ChildEnded, TreeEnded:
		o := e.Outcome
		r.Ended, r.Outcome, r.Model = e.Time, o, cmp.Or(o.Model, r.Model)
		r.Own = run.Totals{
			Usage: o.Usage, Runs: 1, ModelCalls: o.Turns, ToolCalls: o.ToolCalls, ModelMS: o.ModelMS,
		}
		r.Retries = o.Retries
	}
	return r
}

// atWork completes a run that has not ended.
func (r RunInfo) atWork(s run.State) RunInfo {
	r.State = s
	r.Own = s.Turns.Totals()
	r.Own.Runs = 1
	r.Retries = s.Turns.Retries()
	return r
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
