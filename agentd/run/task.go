package run

import (
	"encoding/json"
	"errors"

	"github.com/axebus/axe/provider"
)

// Task is what a tool call asks of one run.
type Task struct {
	Agent   string `json:"agent"`
	Task    string `json:"task"`
	Context string `json:"context"`
	Cwd     string `json:"cwd"`
}

// ParseTasks reads the tasks of a tool call: those in its argument "tasks",
// which is an array of objects, or the one that its arguments are. What is
// missing in them is for the caller to find.
func ParseTasks(tc provider.ToolCall) ([]Task, error) {
	list, ok := tc.Arguments["tasks"]
	if !ok {
		a := tc.Arguments
		return []Task{{Agent: a["agent"], Task: a["task"], Context: a["context"], Cwd: a["cwd"]}}, nil
	}
	var tasks []Task
	if err := json.Unmarshal([]byte(list), &tasks); err != nil {
		return nil, errors.New("want an array of objects, each with a task")
	}
	return tasks, nil
}
