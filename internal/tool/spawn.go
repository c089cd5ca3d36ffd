package tool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// The names of the tools that make spawned runs.
const (
	SpawnAgentToolName  = "spawn_agent"
	SpawnAgentsToolName = "spawn_agents"
)

// spawnTools defines spawn_agent and spawn_agents for an agent that may give
// tasks to the given agents, which about describes, and to ad hoc runs.
func spawnTools(agents []string, about string, maxBatch int) []provider.Tool {
	parameters := map[string]provider.ToolParameter{
		"task":    required("Task description for the sub-agent"),
		"cwd":     optional("Working directory (defaults to parent's cwd)"),
		"context": optional("Additional context from your conversation to pass along"),
	}
	if len(agents) > 0 {
		parameters["agent"] = optional("Agent definition to use: " + strings.Join(agents, ", ") +
			". Without one, a fresh agent with your model works on the task" + about)
	}
	return []provider.Tool{
		{
			Name: SpawnAgentToolName,
			Description: "Spawn a sub-agent for one task and wait for its result. " +
				"It runs independently, with nothing of your conversation but the task.",
			Parameters: parameters,
		},
		{
			Name: SpawnAgentsToolName,
			Description: "Spawn sub-agents to execute tasks in parallel. Each sub-agent runs independently and " +
				"returns a result. Use for: multiple perspectives on code review, exploring unfamiliar parts of a " +
				"codebase, parallel research or analysis tasks, or divide-and-conquer problem solving.",
			Parameters: map[string]provider.ToolParameter{
				"tasks": {
					Type: "array", Description: "List of tasks to execute in parallel", Required: true,
					Schema: tasksSchema(parameters, maxBatch),
				},
			},
		},
	}
}

// tasksSchema describes the elements of tasks. Encoding sorts the keys, so the
// schema has the same bytes in every turn.
func tasksSchema(parameters map[string]provider.ToolParameter, maxBatch int) json.RawMessage {
	properties := map[string]any{}
	for name, p := range parameters {
		properties[name] = map[string]any{"type": p.Type, "description": p.Description}
	}
	// Strings and numbers always marshal.
	schema, _ := json.Marshal(map[string]any{
		"minItems": 1, "maxItems": maxBatch,
		"items": map[string]any{"type": "object", "required": []string{"task"}, "properties": properties},
	})
	return schema
}

// Offer defines the tools with the given names that delegate work to the
// callees. A name of any other tool has no effect, nor has call_agent without
// callees. A call of spawn_agents may have at most maxBatch tasks.
func Offer(names []string, callees []Callee, maxBatch int) []provider.Tool {
	named := func(name string) bool { return slices.Contains(names, name) }
	var agents []string
	for _, c := range callees {
		agents = append(agents, c.Name)
	}
	about := describe(callees)
	var tools []provider.Tool
	if named(CallAgentToolName) && len(agents) > 0 {
		call := CallAgentTool(agents)
		call.Description += about
		tools = append(tools, call)
	}
	if named(SpawnAgentToolName) || named(SpawnAgentsToolName) {
		tools = append(tools, spawnTools(agents, about, maxBatch)...)
	}
	if slices.ContainsFunc(mailNames, named) {
		tools = append(tools, mailTools()...)
	}
	return slices.DeleteFunc(tools, func(t provider.Tool) bool { return !named(t.Name) })
}

// spawn decides on the tasks of one tool call. Either all tasks are accepted,
// or one refusal stands for all.
func (c Caller) spawn(tc provider.ToolCall, l Lookup) []run.Call {
	refuse := func(k run.Kind, format string, args ...any) []run.Call {
		return []run.Call{refused(tc, k, format, args...)}
	}
	if _, ok := tc.Arguments["tasks"]; tc.Name == SpawnAgentsToolName && !ok {
		return refuse(run.KindError, `"tasks" argument is required`)
	}
	tasks, err := run.ParseTasks(tc)
	switch {
	case err != nil:
		return refuse(run.KindError, `"tasks" argument: %v`, err)
	case len(tasks) == 0:
		return refuse(run.KindError, `"tasks" argument is empty: want at least one task`)
	case len(tasks) > c.Start.MaxBatch:
		const text = "%d tasks, and at most %d may be spawned at once: none was started"
		return refuse(run.KindError, text, len(tasks), c.Start.MaxBatch)
	}
	var calls []run.Call
	for i, t := range tasks {
		call := run.Call{Agent: cmp.Or(t.Agent, c.Agent), AdHoc: t.Agent == "", Spawn: true}
		k, why := c.mayGive(call, t, l)
		if why != "" && len(tasks) > 1 {
			why = fmt.Sprintf("task %d of %d: %s; none was started", i+1, len(tasks), why)
		}
		if why != "" {
			return refuse(k, "%s", why)
		}
		calls = append(calls, call)
	}
	return calls
}

// mayGive checks whether a call with a task may be made. It returns the
// refusal, "" if there is none.
func (c Caller) mayGive(call run.Call, t run.Task, l Lookup) (run.Kind, string) {
	switch {
	case t.Task == "":
		return run.KindError, `"task" argument is required`
	case escapes(t.Cwd):
		return run.KindError, fmt.Sprintf("cwd %q is not below the working directory", t.Cwd)
	}
	if t.Agent != "" {
		if k, why := c.mayCall(t.Agent, l); why != "" {
			return k, why
		}
	} else if why := c.tooDeep(); why != "" {
		return run.KindDepth, why
	}
	call.Task = t.Task
	call.Context = t.Context
	call.Cwd = t.Cwd
	return run.KindError, c.tooLarge(call)
}

// escapes reports whether a path cannot be below the directory that it is
// relative to. Where its links lead is checked when the run begins
// (prompt.Below).
func escapes(cwd string) bool {
	c := path.Clean(cwd)
	return path.IsAbs(c) || c == ".." || strings.HasPrefix(c, "../")
}

// AdHocSystem is the system text of an ad hoc run.
const AdHocSystem = "You are a sub-agent that was given one task by another agent. " +
	"You know nothing of its conversation but the task. " +
	"Work on the task alone. When it is done, call submit_result with all that the other agent needs to know; " +
	"if it cannot be done, call submit_error and say why."
