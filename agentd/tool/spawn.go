package tool

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/provider"
)

// The names of the tools that make spawned runs, and of those that such a run
// ends with.
const (
	SpawnAgentToolName   = "spawn_agent"
	SpawnAgentsToolName  = "spawn_agents"
	SubmitResultToolName = "submit_result"
	SubmitErrorToolName  = "submit_error"
)

// SpawnTools defines spawn_agent and spawn_agents for an agent that may give
// tasks to the given ones, and to agents of nobody's definition.
func SpawnTools(allowedAgents []string, maxBatch int) []provider.Tool {
	task := provider.ToolParameter{Type: "string", Description: "Task description for the sub-agent", Required: true}
	cwd := provider.ToolParameter{Type: "string", Description: "Working directory (defaults to parent's cwd)"}
	agent := provider.ToolParameter{
		Type: "string",
		Description: "Agent definition to use: " + strings.Join(
			allowedAgents,
			", ",
		) + ". Without one, a fresh agent with your model works on the task",
	}
	context := provider.ToolParameter{
		Type:        "string",
		Description: "Additional context from your conversation to pass along",
	}
	one := map[string]provider.ToolParameter{"task": task, "cwd": cwd, "context": context}
	if len(allowedAgents) > 0 {
		one["agent"] = agent
	}
	return []provider.Tool{
		{
			Name:        SpawnAgentToolName,
			Description: "Spawn a sub-agent for one task and wait for its result. It runs independently, with nothing of your conversation but the task.",
			Parameters:  one,
		},
		{
			Name: SpawnAgentsToolName,
			Description: "Spawn sub-agents to execute tasks in parallel. Each sub-agent runs independently and returns a result. Use for: multiple perspectives on code review, " +
				"exploring unfamiliar parts of a codebase, parallel research or analysis tasks, or divide-and-conquer problem solving.",
			Parameters: map[string]provider.ToolParameter{
				"tasks": {
					Type:        "array",
					Description: "List of tasks to execute in parallel",
					Required:    true,
					Schema:      tasksSchema(one, maxBatch),
				},
			},
		},
	}
}

// Offer defines the tools of some names with which work is given to the given
// agents.
func Offer(names, agents []string, maxBatch int) []provider.Tool {
	var tools []provider.Tool
	if len(agents) > 0 && slices.Contains(names, CallAgentToolName) {
		tools = append(tools, CallAgentTool(agents))
	}
	if slices.Contains(names, SpawnAgentToolName) || slices.Contains(names, SpawnAgentsToolName) {
		for _, t := range SpawnTools(agents, maxBatch) {
			if slices.Contains(names, t.Name) {
				tools = append(tools, t)
			}
		}
	}
	if slices.ContainsFunc(names, func(name string) bool { return slices.Contains(mailNames, name) }) {
		for _, t := range MailTools() {
			if slices.Contains(names, t.Name) {
				tools = append(tools, t)
			}
		}
	}
	return tools
}

// tasksSchema describes the elements of tasks. Encoding sorts the keys: it is
// the same bytes in every turn.
func tasksSchema(one map[string]provider.ToolParameter, maxBatch int) json.RawMessage {
	properties := map[string]any{}
	for name, p := range one {
		properties[name] = map[string]any{"type": p.Type, "description": p.Description}
	}
	// strings and numbers always marshal
	schema, _ := json.Marshal(map[string]any{
		"minItems": 1, "maxItems": maxBatch,
		"items": map[string]any{"type": "object", "required": []string{"task"}, "properties": properties},
	})
	return schema
}

// SubmitTools defines what a spawned run ends with.
func SubmitTools() []provider.Tool {
	return []provider.Tool{
		{
			Name:        SubmitResultToolName,
			Description: "Submit your final result to the parent conversation. Call this when you have completed your assigned task. After calling this, your conversation ends.",
			Parameters: map[string]provider.ToolParameter{
				"result": {Type: "string", Description: "Your final result, summary, or output", Required: true},
			},
		},
		{
			Name: SubmitErrorToolName,
			Description: "Report that you cannot complete the assigned task. Call this if you encounter an unrecoverable error or determine the task is impossible. " +
				"After calling this, your conversation ends.",
			Parameters: map[string]provider.ToolParameter{
				"error": {
					Type:        "string",
					Description: "Description of why the task could not be completed",
					Required:    true,
				},
			},
		},
	}
}

// spawn decides on the tasks of one tool call: all of them may be carried out,
// or none is.
func spawn(tc provider.ToolCall, l Caller, known find) []run.Call {
	refuse := func(k run.Kind, format string, args ...any) []run.Call {
		return []run.Call{refused(tc, k, format, args...)}
	}
	if _, several := tc.Arguments["tasks"]; tc.Name == SpawnAgentsToolName && !several {
		return refuse(run.KindError, `"tasks" argument is required`)
	}
	tasks, err := run.ParseTasks(tc)
	switch {
	case err != nil:
		return refuse(run.KindError, `"tasks" argument: %v`, err)
	case len(tasks) == 0:
		return refuse(run.KindError, `"tasks" argument is empty: want at least one task`)
	case len(tasks) > l.MaxBatch:
		return refuse(
			run.KindError,
			"%d tasks, and at most %d may be spawned at once: none was started",
			len(tasks),
			l.MaxBatch,
		)
	}
	var calls []run.Call
	for i, t := range tasks {
		c := run.Call{Agent: t.Agent, Spawn: true}
		if t.Agent == "" {
			c.Agent, c.AdHoc = l.Agent, true
		}
		k, why := l.spawnable(t, known)
		if why == "" {
			asked := c
			asked.Task, asked.Context, asked.Cwd = t.Task, t.Context, t.Cwd
			k, why = run.KindError, l.tooLarge(asked)
		}
		if why != "" && len(tasks) > 1 {
			why = fmt.Sprintf("task %d of %d: %s; none was started", i+1, len(tasks), why)
		}
		if why != "" {
			return refuse(k, "%s", why)
		}
		calls = append(calls, c)
	}
	return calls
}

// spawnable says why a task may not be carried out, "" if it may.
func (l Caller) spawnable(t run.Task, known find) (run.Kind, string) {
	switch {
	case t.Task == "":
		return run.KindError, `"task" argument is required`
	case outside(t.Cwd):
		return run.KindError, fmt.Sprintf("cwd %q is not below the working directory", t.Cwd)
	case t.Agent != "":
		return l.check(t, known)
	case l.Depth >= l.MaxDepth:
		return run.KindDepth, l.tooDeep()
	}
	return run.KindError, ""
}

// outside reports whether a path cannot be below the directory that it is
// relative to. (Where it leads is looked at when the run begins: prompt.Below.)
func outside(cwd string) bool {
	c := path.Clean(cwd)
	return path.IsAbs(c) || c == ".." || strings.HasPrefix(c, "../")
}

// Submitted is the outcome of an answer whose one tool call ends the run, nil
// if it is none.
func Submitted(resp *provider.Response, tools []provider.Tool) *run.Outcome {
	if len(resp.ToolCalls) != 1 || submitProblem(resp.ToolCalls[0]) != "" ||
		!slices.Contains(Names(tools), resp.ToolCalls[0].Name) {
		return nil
	}
	if tc := resp.ToolCalls[0]; tc.Name == SubmitErrorToolName {
		return new(run.Failure(run.KindSubAgentError, "%s", tc.Arguments["error"]))
	}
	return &run.Outcome{Status: run.StatusCompleted, Result: resp.ToolCalls[0].Arguments["result"]}
}

// submitProblem says why a tool call does not end the run.
func submitProblem(tc provider.ToolCall) string {
	want := map[string]string{SubmitResultToolName: "result", SubmitErrorToolName: "error"}[tc.Name]
	switch {
	case want == "":
		return "does not end the run"
	case tc.Arguments[want] == "":
		return fmt.Sprintf("%q argument is required", want)
	}
	return ""
}

// ends reports whether a tool ends a run.
func ends(tool string) bool { return tool == SubmitResultToolName || tool == SubmitErrorToolName }

// premature says why nothing of an answer is carried out that would end the run
// and go on with it, "" if that is not so.
func premature(calls []provider.ToolCall, l Caller) string {
	for _, tc := range calls {
		if len(calls) > 1 && ends(tc.Name) && slices.Contains(l.Offered, tc.Name) {
			return tc.Name + " has to be the only call of its turn: nothing of this turn was carried out"
		}
	}
	return ""
}

// Ending are the tools, of those that a run has, with which it may end.
func Ending(tools []provider.Tool) []provider.Tool {
	var ending []provider.Tool
	for _, t := range tools {
		if ends(t.Name) {
			ending = append(ending, t)
		}
	}
	return ending
}

// Names are the names of tools.
func Names(tools []provider.Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return names
}

// Finally is what a run is told that has one turn left.
const Finally = "This is your last turn. Answer now with what you have: what you found out, and what is missing."

// AdHocSystem is the system text of an agent of nobody's definition.
const AdHocSystem = "You are a sub-agent that was given one task by another agent. You know nothing of its conversation but the task. " +
	"Work on the task alone. When it is done, call submit_result with all that the other agent needs to know; if it cannot be done, call submit_error and say why."
