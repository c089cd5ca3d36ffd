package agentd

import (
	"context"
	"slices"
	"time"

	"github.com/axebus/axe/agentd/budget"
	"github.com/axebus/axe/agentd/prompt"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// start resolves what a run is started with: from this worker's definition of
// its agent, or from its parent if it is of nobody's definition; and within
// what its call allows.
func (w *Worker) start(ctx context.Context, h *history) (s *run.Start, err error) {
	in := h.state.Input
	var own subjects.Budget
	if s, own, err = w.inherit(ctx, h); err != nil {
		return nil, err
	}
	switch {
	case s != nil:
	case in.AdHoc():
		s = adHoc(*in.Spawned.AdHoc)
	default:
		if s, own, err = w.resolve(ctx, h); err != nil {
			return nil, err
		}
	}
	if in.AdHoc() && (in.Forked != nil || in.Copy != nil) {
		s.System = "" // which tells to submit
	}
	switch {
	case in.Forked != nil && in.Forked.Inherit:
		s.User = ""
	case h.run.Path.IsRoot() || in.Forked != nil || in.Spawned != nil && in.Context == "":
		s.User = prompt.RootUser(in.Task)
	default:
		s.User = prompt.User(in.Task, in.Context)
	}
	s.MaxDepth = min(s.MaxDepth, h.head.MaxDepth)
	s.Scopes = budget.Scopes(h.head.Scopes, own, h.run.Path)
	s.Policy, s.Supervision = s.Policy.Within(in.Policy), s.Supervision.Within(in.Supervision)
	if in.Review {
		s.Supervision = run.Supervision{} // it would have no end
	}
	if s.Supervision.Mode == run.Human && w.cfg.Unattended {
		return nil, errUnattended
	}
	callable := slices.DeleteFunc(slices.Clone(s.SubAgents), func(a string) bool { return !s.Policy.MayCall(a) })
	s.Tools = tool.Offer(s.Delegates, callable, s.MaxBatch)
	withheld := func(name string) bool {
		// its supervisor would be too deep
		deepest := h.head.Depth >= subjects.MaxDepth && s.Supervision.Mode != run.Unsupervised
		return deepest || h.head.Depth >= s.MaxDepth && tool.MakesRun(name) || !s.Policy.MayUse(name)
	}
	s.Tools = slices.DeleteFunc(s.Tools, func(t provider.Tool) bool { return withheld(t.Name) })
	s.Slash = slices.DeleteFunc(slices.Clone(s.Slash), withheld)
	if in.Spawned != nil {
		s.Turns = in.Spawned.Turns
	}
	if in.Spawned != nil && in.Forked == nil && in.Copy == nil {
		s.Tools = append(s.Tools, tool.SubmitTools()...)
	}
	return s, nil
}

// adHoc is what a run of nobody's definition has from its parent.
func adHoc(a run.AdHoc) *run.Start {
	return &run.Start{
		Model: a.Model, System: tool.AdHocSystem, Temperature: a.Temperature, MaxTokens: a.MaxTokens, SubAgents: a.SubAgents, Delegates: a.Tools, Slash: a.Slash,
		MaxDepth: subjects.MaxDepth, Sequential: a.Sequential, Timeout: a.Timeout, MaxBatch: a.MaxBatch, ChildTurns: a.ChildTurns, Retry: a.Retry,
	}
}

// resolve is what a run has from its agent's definition.
func (w *Worker) resolve(ctx context.Context, h *history) (*run.Start, subjects.Budget, error) {
	def, ok := w.definition(h.run)
	if !ok {
		return nil, def.Budget, errElsewhere
	}
	if spawned := h.state.Input.Spawned; spawned != nil {
		var err error
		if def.Workdir, err = prompt.Below(def.Workdir, spawned.Cwd); err != nil {
			return nil, def.Budget, err
		}
	}
	about, err := prompt.Resolve(def)
	if err != nil {
		return nil, def.Budget, err
	}
	// which begins with its prompt and nothing else
	if h.state.Input.Forked == nil {
		about.Memory = w.recall(ctx, h.run.Agent, def.Memory)
	}
	s := &run.Start{
		Model: def.Model, System: about.Text(), Temperature: def.Params.Temperature, MaxTokens: def.Params.MaxTokens,
		SubAgents: def.SubAgents, Delegates: def.Delegation.Tools(), Slash: def.Delegation.Commands(), MaxDepth: def.MaxDepth(), Sequential: !def.SubAgentsConf.Parallel,
		Timeout: time.Duration(def.SubAgentsConf.Timeout) * time.Second, Retry: retry(def.Retry),
		Policy: run.Policy{
			Agents: def.Policy.Agents,
			Tools:  def.Policy.Tools,
		}, Supervision: supervision(def.Supervision),
	}
	if def.Delegation.Has(configs.StyleSpawn) {
		s.MaxBatch, s.ChildTurns = def.Delegation.Batch(), def.Delegation.MaxTurns
	}
	if def.Memory.Enabled && w.cfg.Memory != nil {
		s.Memory = &run.Memory{Path: def.Memory.Path}
	}
	return s, def.Budget, nil
}
