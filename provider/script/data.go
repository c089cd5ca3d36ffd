package script

import (
	"cmp"
	"strings"

	"github.com/axebus/axe/provider"
)

// templateData is the data of the templates, taken from a request. The package
// comment describes the fields.
type templateData struct {
	Model, System string
	Turn          int
	ID, Parent    string
	User, Said    string
	Task, Context string
	Files         []file
	Results       []result
	AllResults    []result

	// Item and Index are those of the templates of a call with each or
	// repeat.
	Item  any
	Index int
}

// result is the result of a call of an earlier turn.
type result struct {
	Content string
	IsError bool
	Index   int
	// Agent and Task are arguments of the call.
	Agent, Task string
}

// String returns the content.
func (r result) String() string { return r.Content }

func newTemplateData(req *provider.Request) templateData {
	data := templateData{Model: req.Model, System: req.System, Turn: 1, Files: parseFiles(req.System)}
	data.ID = idAfter("Your id is ", req.System)
	data.Parent = idAfter(" Your parent's id is ", req.System)
	calls := map[string]provider.ToolCall{}
	for _, m := range req.Messages {
		switch m.Role {
		case provider.User:
			data.User = cmp.Or(data.User, m.Content)
			data.Said = m.Content
		case provider.Assistant:
			data.Turn++
			data.Results = nil
			for _, c := range m.ToolCalls {
				calls[c.ID] = c
			}
		case provider.ToolRole:
			data.Results = make([]result, len(m.ToolResults))
			for i, r := range m.ToolResults {
				args := calls[r.CallID].Arguments
				data.Results[i] = result{r.Content, r.IsError, i, args["agent"], args["task"]}
			}
			data.AllResults = append(data.AllResults, data.Results...)
		}
	}
	data.Task, data.Context = parseUser(data.User)
	return data
}

// idAfter returns the id that follows some words in a system text, or "".
func idAfter(words, system string) string {
	_, after, _ := strings.Cut(system, words)
	id, _, _ := strings.Cut(after, ".")
	return id
}

// parseUser splits the first user message of a called run into task and
// context. Another text is the task as a whole.
func parseUser(user string) (task, context string) {
	rest, ok := strings.CutPrefix(user, "Task: ")
	if !ok {
		return user, ""
	}
	task, context, _ = strings.Cut(rest, "\n\nContext:\n")
	return task, context
}
