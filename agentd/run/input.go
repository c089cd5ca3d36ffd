package run

import (
	"time"

	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// Input is the body of a call.
type Input struct {
	Task string `json:"task"`
	// Context is the caller's addition to the task, empty for a root.
	Context string `json:"context,omitzero"`
	// Spawned is set for a run that spawn_agent or spawn_agents has
	// started. It is also set for a fork of an ad hoc run, and for a root
	// that continues any of these.
	Spawned *Spawned `json:"spawned,omitempty"`
	// Forked is set for a run that fork has started.
	Forked *Forked `json:"forked,omitempty"`
	// Copy is set for a root that continues the conversation of another
	// run.
	Copy *Copy `json:"copy,omitempty"`
	// Policy permits an agent or a tool only if every run above permits it.
	Policy Policy `json:"policy,omitzero"`
	// AllowedHosts are the hosts that the caller's url_fetch may ask. Hosts
	// in the file of the run's own agent replace them. An empty list allows
	// every public host.
	AllowedHosts []string `json:"allowed_hosts,omitempty"`
	// Tool is set for a tool run.
	Tool *ToolInput `json:"tool,omitempty"`
	// By is the user that submitted the task of a root, zero if it is not
	// known. The worker that took the submission has written it.
	By subjects.By `json:"by,omitzero"`
	// Review marks a supervisor's run: its task is to review a turn.
	Review bool `json:"review,omitzero"`
	// Supervision is the caller's supervision.
	Supervision Supervision `json:"supervision,omitzero"`
}

// AdHoc reports whether the run is an ad hoc run.
func (in Input) AdHoc() bool { return in.Spawned != nil && in.Spawned.AdHoc != nil }

// Forked marks a fork. It works beside its parent and reports its answers as
// mail. After each answer it is idle.
type Forked struct {
	// Inherit gives the fork its parent's conversation up to the turn that
	// forked.
	Inherit bool `json:"inherit,omitzero"`
}

// Copy names a run of any tree, for a root that continues its conversation. The
// tokens are text until subjects.Space.ParseRun parses them: a call may come
// from any client.
type Copy struct {
	Agent string `json:"agent"`
	Tree  string `json:"tree"`
	Path  string `json:"path"`
	// Turn is the last turn that is copied, 0 for the whole conversation.
	Turn int `json:"turn"`
}

// CopyOf returns the Copy of a run up to a turn.
func CopyOf(r subjects.Run, turn int) *Copy {
	return &Copy{Agent: r.Agent.String(), Tree: r.Tree.String(), Path: r.Path.String(), Turn: turn}
}

// Spawned has the settings that a spawned run gets from its parent.
type Spawned struct {
	// Cwd is the working directory, below the agent's own.
	Cwd string `json:"cwd,omitzero"`
	// Turns is the number of turns in which the run may use all of its
	// tools. In one more turn it has to answer. If Turns is 0, only
	// MaxTurns bounds the run, and no turn is such a last one.
	Turns int `json:"turns,omitzero"`
	// AdHoc is set for an ad hoc run.
	AdHoc *AdHoc `json:"ad_hoc,omitempty"`
}

// AdHoc makes a spawned run an ad hoc run: it has no definition of its own. It
// gets the model and the rights of its parent, and nothing of the parent's
// prompt or knowledge. The agent in its subject is the parent's, so that every
// worker that serves the parent can serve it. The fields are those of Start.
type AdHoc struct {
	Model       string   `json:"model"`
	Temperature *float64 `json:"temperature,omitzero"`
	MaxTokens   int      `json:"max_tokens,omitzero"`
	SubAgents   []string `json:"sub_agents,omitempty"`
	// Tools names the tools that the run may use.
	Tools   []string     `json:"tools,omitempty"`
	Served  []ServedTool `json:"served,omitempty"`
	Approve []string     `json:"approve,omitempty"`
	// Approvers are those of Start.
	Approvers  subjects.Approvers `json:"approvers,omitempty"`
	Slash      []string           `json:"slash,omitempty"`
	Sequential bool               `json:"sequential,omitzero"`
	Timeout    time.Duration      `json:"timeout_ns,omitzero"`
	MaxBatch   int                `json:"max_batch,omitzero"`
	ChildTurns int                `json:"child_turns,omitzero"`
	Retry      *Retry             `json:"retry,omitempty"`
}

// InputFor returns the body of a call: everything that the child gets from its
// parent. The parent's Start is nil if no turn is on its log. Then the child
// gets the task and the context alone.
func (s *Start) InputFor(c Call) Input {
	in := Input{Task: c.Task, Context: c.Context}
	if s == nil {
		return in
	}
	if c.Op == OpTool {
		in.Tool = &ToolInput{
			Name: c.Tool, Arguments: c.Arguments, OnUnknown: c.OnUnknown, Cwd: s.Cwd,
			AllowedHosts: s.AllowedHosts, Approvers: s.Approvers,
		}
		if c.OnUnknown == UnknownAsk {
			// The run may wait for a person. The patience bounds
			// the tool alone.
			in.Tool.Timeout = c.Patience
		}
		return in
	}
	in.Policy, in.Supervision = s.Policy, s.Supervision
	in.AllowedHosts = s.AllowedHosts
	if c.Op == OpReview {
		in.Review, in.Supervision = true, Supervision{}
	}
	if c.Op == OpFork {
		in.Forked = &Forked{Inherit: c.Task == ""}
	}
	if c.Spawn || c.AdHoc {
		in.Spawned = &Spawned{Cwd: c.Cwd, Turns: s.ChildTurns}
	}
	if c.AdHoc {
		in.Spawned.AdHoc = &AdHoc{
			Model: s.Model, Temperature: s.Temperature, MaxTokens: s.MaxTokens, SubAgents: s.SubAgents,
			Tools: provider.ToolNames(s.Tools), Served: s.Served, Approve: s.Approve,
			Approvers: s.Approvers, Slash: s.Slash, Sequential: s.Sequential,
			Timeout: s.Timeout, MaxBatch: s.MaxBatch, ChildTurns: s.ChildTurns, Retry: s.Retry,
		}
	}
	return in
}
