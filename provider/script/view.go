package script

import (
	"strings"

	"github.com/axebus/axe/provider"
)

// view is a request as templates see it. Item and Index are set only while a
// call is made.
type view struct {
	Model, System string
	Turn          int
	ID, Parent    string
	User          string
	Said          string // by the user last
	Task, Context string
	Files         []file
	Results       []result
	AllResults    []result
	Item          any
	Index         int
}

// result is the answer to a call of an earlier turn. Agent and Task are that
// call's arguments.
type result struct {
	Content string
	IsError bool
	Index   int
	Agent   string
	Task    string
}

// String returns the content.
func (r result) String() string { return r.Content }

func newView(req *provider.Request) view {
	v := view{Model: req.Model, System: req.System, Turn: 1, Files: parseFiles(req.System)}
	v.ID, v.Parent = named("Your id is ", req.System), named(" Your parent's id is ", req.System)
	calls := map[string]provider.ToolCall{}
	for _, m := range req.Messages {
		switch m.Role {
		case provider.User:
			if v.User == "" {
				v.User = m.Content
			}
			v.Said = m.Content
		case provider.Assistant:
			v.Turn++
			v.Results = nil
			for _, c := range m.ToolCalls {
				calls[c.ID] = c
			}
		case provider.ToolRole:
			results := newResults(m.ToolResults, calls)
			v.AllResults = append(v.AllResults, results...)
			v.Results = results
		}
	}
	v.Task, v.Context = parseUser(v.User)
	return v
}

// named is the id that a run is told after some words, empty if it is told
// none.
func named(words, system string) string {
	_, after, _ := strings.Cut(system, words)
	id, _, _ := strings.Cut(after, ".")
	return id
}

func newResults(from []provider.ToolResult, calls map[string]provider.ToolCall) []result {
	results := make([]result, len(from))
	for i, r := range from {
		asked := calls[r.CallID].Arguments
		results[i] = result{
			Content: r.Content,
			IsError: r.IsError,
			Index:   i,
			Agent:   asked["agent"],
			Task:    asked["task"],
		}
	}
	return results
}

// parseUser takes apart the first user message of a run that an agent called;
// other text is all task.
func parseUser(user string) (task, context string) {
	rest, ok := strings.CutPrefix(user, "Task: ")
	if !ok {
		return user, ""
	}
	task, context, _ = strings.Cut(rest, "\n\nContext:\n")
	return task, context
}
