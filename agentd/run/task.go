package run

import (
	"encoding/json"
	"errors"

	"github.com/axebus/axe/provider"
)

// Task is the task of one run in the arguments of a tool call.
type Task struct {
	Agent   string `json:"agent"`
	Task    string `json:"task"`
	Context string `json:"context"`
	Cwd     string `json:"cwd"`
}

// ParseTasks reads the tasks of a tool call: those in its argument "tasks", an
// array of objects, or else the one task that its arguments are. It does not
// check whether a task is complete.
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
