package agentd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/budget"
	"github.com/axebus/axe/internal/prompt"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// origin is the way in which a run came to be. Every run has exactly one.
type origin int

const (
	// called: by call_agent, or by a submission.
	called origin = iota
	// spawned: by spawn_agent or spawn_agents. The run is offered the
	// submit tools.
	spawned
	// forked: by fork. The run goes on beside its parent.
	forked
	// continued: by axe fork. The run is a root, and goes on from another
	// run.
	continued
	// reviewing: the run is a supervisor's review of a turn.
	reviewing
)

// originOf returns the origin of a run with this input. Spawned comes last: a
// fork of an ad hoc run has it too, and so has a continued run that goes on
// from a spawned one.
func originOf(in run.Input) origin {
	switch {
	case in.Copy != nil:
		return continued
	case in.Forked != nil:
		return forked
	case in.Review:
		return reviewing
	case in.Spawned != nil:
		return spawned
	}
	return called
}

// errNotServed gives a call back, for a worker that has the agent.
var errNotServed = errors.New("this worker does not have the agent any more")

// removedGrace is the time for which an agent has to be gone before its calls
// are refused. A deployment may remove the file and bring it back.
const removedGrace = 5 * time.Second

// resolveStart sets x.start, unless the log has the run's start. It returns
// false after an error, and after it has published a failed outcome.
func (x *execution) resolveStart(ctx context.Context) (res result, ok bool, err error) {
	if x.start != nil {
		return result{}, true, nil
	}
	in := x.state.Input
	name := x.run.Agent.String()
	if by := originOf(in); (by == called || by == spawned) && !in.AdHoc() && !in.Policy.MayCall(name) {
		res, err = x.publishOutcome(ctx, run.Failure(run.KindPolicy, "%s", tool.NotPermitted(name)))
		return res, false, err
	}
	start, err := x.newStart(ctx)
	switch {
	case err == nil:
		x.start = start
		return result{}, true, nil
	case errors.Is(err, errUnread):
		return result{}, false, err
	case errors.Is(err, errNotServed):
		res, err = x.releaseCall(ctx)
		return res, false, err
	}
	o := run.Failure(run.KindError, "%v", err)
	o.Category = run.CategoryConfig
	res, err = x.publishOutcome(ctx, o)
	return res, false, err
}

// releaseCall handles the call of an agent that this worker no longer serves.
// It returns errNotServed, which gives the call back, if the directory says
// that another worker serves the agent, or if the agent was removed here less
// than removedGrace ago. Otherwise it refuses the call.
func (x *execution) releaseCall(ctx context.Context) (result, error) {
	name := x.run.Agent.String()
	c, known, err := x.w.directory.find(ctx, name)
	if err != nil {
		return result{}, err
	}
	since, removed := x.w.agents.removedAgents()[x.run.Agent]
	served := known && c.Problem == "" && (c.Toolset == "" || x.state.Input.Tool != nil)
	if served || removed && time.Since(since) < removedGrace {
		return result{}, errNotServed
	}
	return x.publishOutcome(ctx, notServed(name, c))
}

// notServed returns the outcome of a run of an agent that no worker serves.
func notServed(name string, c Card) run.Outcome {
	problem := c.CallProblem()
	if problem == "" {
		return run.Failure(run.KindUnknownAgent, "%s", tool.NotFound(name))
	}
	o := run.Failure(run.KindError, "%s", tool.NotLoaded(name, problem))
	o.Category = run.CategoryConfig
	return o
}

// newStart resolves the start of a run, within the bounds of its call.
func (x *execution) newStart(ctx context.Context) (*run.Start, error) {
	s, own, err := x.baseStart(ctx)
	if err != nil {
		return nil, err
	}
	in := x.state.Input
	s.User = x.firstUserText()
	s.MaxDepth = min(s.MaxDepth, x.header.MaxDepth)
	s.Scopes = budget.Scopes(x.header.Scopes, own, x.run.Path)
	s.Policy = s.Policy.Within(in.Policy)
	if len(s.AllowedHosts) == 0 {
		s.AllowedHosts = in.AllowedHosts
	}
	s.Supervision = s.Supervision.Within(in.Supervision)
	if in.Spawned != nil {
		s.Turns = in.Spawned.Turns
	}
	switch originOf(in) {
	case reviewing:
		// Reviews of reviews would have no end.
		s.Supervision = run.Supervision{}
	case forked, continued:
		if in.AdHoc() {
			// The system text of an ad hoc run tells it to submit.
			// This run is not offered the submit tools.
			s.System = ""
		}
	case called, spawned:
	}
	waits := s.Supervision.Mode == run.Human || len(s.Approve) > 0
	switch {
	case x.w.cfg.Unproven && waits && len(s.Approvers) > 0:
		return nil, errUnproven
	case !x.w.cfg.Unattended:
	case s.Supervision.Mode == run.Human:
		return nil, errUnattended
	case len(s.Approve) > 0:
		return nil, errUnapproved
	}
	x.offerTools(s)
	return s, nil
}

// baseStart returns a run's start before its call narrows it, and its own
// budget. They come from the run whose conversation it continues (axe fork, or
// a fork without a prompt), from its parent if it is ad hoc, or from this
// worker's definition of its agent.
func (x *execution) baseStart(ctx context.Context) (*run.Start, subjects.Budget, error) {
	s, own, err := x.inheritedStart(ctx)
	switch in := x.state.Input; {
	case err != nil || s != nil:
		return s, own, err
	case in.AdHoc():
		s := adHocStart(*in.Spawned.AdHoc)
		s.Definitions = definitionsOf(x.w, s.Served)
		s.Cwd = in.Spawned.Cwd
		return s, subjects.Budget{}, nil
	}
	return x.definedStart(ctx)
}

// firstUserText returns the first user text of a run that starts.
func (x *execution) firstUserText() string {
	in := x.state.Input
	switch originOf(in) {
	case forked:
		if in.Forked.Inherit {
			// The conversation that the run inherits ends with the
			// fork.
			return ""
		}
	case spawned:
		if in.Context != "" {
			return prompt.User(in.Task, in.Context)
		}
	case called, reviewing:
		if !x.run.Path.IsRoot() {
			return prompt.User(in.Task, in.Context)
		}
	case continued:
	}
	return prompt.RootUser(in.Task)
}

// offerTools sets the tools and commands that the run's model is offered: those
// that policy and depth permit. They name all permitted sub-agents, and
// describe those that this worker has heard of. A supervised run at the depth
// subjects.MaxDepth is offered none: the review of its turn would be a run one
// level deeper. A spawned run is offered the submit tools in any case.
func (x *execution) offerTools(s *run.Start) {
	tooDeep := x.header.Depth >= subjects.MaxDepth && s.Supervision.Mode != run.Unsupervised
	hidden := func(name string) bool {
		full := name
		if t, ok := s.ServedTool(name); ok {
			full = t.FullName()
		}
		return tooDeep || x.header.Depth >= s.MaxDepth && tool.MakesRun(name) || !s.Policy.MayUse(full)
	}
	var callees []tool.Callee
	for _, agent := range s.SubAgents {
		if s.Policy.MayCall(agent) {
			c, _, _ := x.w.directory.heard(agent)
			callees = append(callees, tool.Callee{Name: agent, Description: c.Description})
		}
	}
	offered := append(slices.Clone(s.Definitions), tool.Offer(s.Delegates, callees, s.MaxBatch)...)
	s.Tools = slices.DeleteFunc(offered, func(t provider.Tool) bool { return hidden(t.Name) })
	s.Slash = slices.DeleteFunc(slices.Clone(s.Slash), hidden)
	if originOf(x.state.Input) == spawned {
		s.Tools = append(s.Tools, tool.SubmitTools()...)
	}
}

// adHocStart returns the start that an ad hoc run has from its parent.
func adHocStart(a run.AdHoc) *run.Start {
	return &run.Start{
		Model: a.Model, System: tool.AdHocSystem, Temperature: a.Temperature, MaxTokens: a.MaxTokens,
		SubAgents: a.SubAgents, Served: a.Served, Approve: a.Approve, Delegates: a.Tools,
		Approvers: a.Approvers, Slash: a.Slash, MaxDepth: subjects.MaxDepth,
		Sequential: a.Sequential, Timeout: a.Timeout, Retry: a.Retry, MaxBatch: a.MaxBatch, ChildTurns: a.ChildTurns,
	}
}

// definedStart returns the start that an agent's definition gives.
func (x *execution) definedStart(ctx context.Context) (*run.Start, subjects.Budget, error) {
	def, ok := x.w.definition(x.run)
	if !ok {
		return nil, subjects.Budget{}, errNotServed
	}
	in := x.state.Input
	if in.Spawned != nil {
		var err error
		if def.Workdir, err = prompt.Below(def.Workdir, in.Spawned.Cwd); err != nil {
			return nil, subjects.Budget{}, err
		}
	}
	text, err := prompt.Resolve(def)
	if err != nil {
		return nil, subjects.Budget{}, err
	}
	// A fork has no memory of the agent's earlier runs. It has the system
	// prompt, the skill and the files of its agent.
	if in.Forked == nil {
		text.Memory = x.w.recall(ctx, x.run.Agent, def.Memory)
	}
	tools, err := toolsFor(ctx, x.w, def)
	if err != nil {
		return nil, subjects.Budget{}, err
	}
	system := text.Text()
	if missing := tool.Unavailable(tools.missing); missing != "" {
		system = strings.TrimLeft(system+"\n\n"+missing, "\n")
	}
	s := &run.Start{
		Model: def.Model, System: system, Temperature: def.Params.Temperature, MaxTokens: def.Params.MaxTokens,
		FailTruncated: def.Params.OnTruncated == configs.FailTruncated,
		Served:        tools.served, Definitions: tools.definitions, Approve: approvals(def.Approve, tools.served),
		Approvers:    def.Approvers,
		AllowedHosts: def.AllowedHosts,
		SubAgents:    def.SubAgents, Delegates: def.Delegation.Tools(), Slash: def.Delegation.Commands(),
		MaxDepth: def.MaxDepth(), Sequential: !def.SubAgentsConf.Parallel,
		Timeout:     time.Duration(def.SubAgentsConf.Timeout) * time.Second,
		Policy:      run.Policy{Agents: def.Policy.Agents, Tools: def.Policy.Tools},
		Supervision: supervision(def.Supervision),
		Retry:       retryPolicy(def.Retry),
	}
	if in.Spawned != nil {
		s.Cwd = in.Spawned.Cwd
	}
	if def.Delegation.Has(configs.StyleSpawn) {
		s.MaxBatch = def.Delegation.Batch()
		s.ChildTurns = def.Delegation.MaxTurns
	}
	if def.Memory.Enabled && x.w.cfg.Memory != nil {
		s.Memory = &run.Memory{Path: def.Memory.Path}
	}
	return s, def.Budget, nil
}
