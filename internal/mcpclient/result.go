package mcpclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/axebus/axe/internal/toolset"
)

// answer is the result of a call as the server sent it.
type answer struct {
	// Type is empty in results of older protocols.
	Type       string          `json:"resultType"`
	Content    []content       `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
	// Requests and State are those of a result that asks for input.
	Requests map[string]inputRequest `json:"inputRequests"`
	State    string                  `json:"requestState"`
	// Task is the task of a result of the protocol 2025-11-25. In the
	// protocol after it, the result is the task.
	Task *task `json:"task"`
}

// content is one part of a result.
type content struct {
	Type        string   `json:"type"`
	Text        string   `json:"text"`
	MIMEType    string   `json:"mimeType"`
	Data        []byte   `json:"data"`
	Resource    resource `json:"resource"`
	URI         string   `json:"uri"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
}

// resource is a resource inside a result. It has a text or a blob.
type resource struct {
	URI      string `json:"uri"`
	MIMEType string `json:"mimeType"`
	Text     string `json:"text"`
	Blob     []byte `json:"blob"`
}

// resultOf turns the JSON of a result into the result of a call of a tool.
func resultOf(tool string, raw json.RawMessage) (toolset.Result, error) {
	var a answer
	if err := json.Unmarshal(raw, &a); err != nil {
		return toolset.Result{}, fmt.Errorf("the tool was called, and its result is malformed: %w", err)
	}
	if err := a.unfinished(raw); err != nil {
		return toolset.Result{}, err
	}
	res := a.parts(tool)
	if a.IsError {
		if res.Text == "" {
			res.Text = "the tool failed, and gave no reason"
		}
		return res, errors.New(res.Text)
	}
	return res, nil
}

// unfinished is the error of a result that is not the end of its call: a
// toolset.InputError or a toolset.TaskError if axe can go on with the call.
func (a *answer) unfinished(raw json.RawMessage) error {
	switch {
	case a.Type == "input_required":
		return inputError(a.Requests, a.State)
	case a.Type == "task":
		var t task
		if err := json.Unmarshal(raw, &t); err != nil {
			return fmt.Errorf("the tool goes on as a task that is malformed: %w", err)
		}
		return t.goesOn()
	case a.Type == "" && a.Task != nil && a.Content == nil:
		return a.Task.goesOn()
	case a.Type != "" && a.Type != "complete":
		return fmt.Errorf("the tool gave a result of the type %q, which axe does not know: "+
			"it may have taken effect", a.Type)
	case a.Content == nil && a.Structured == nil && !a.IsError:
		return errors.New("the tool gave a result without content, which the protocol does not allow: " +
			"it may have taken effect")
	}
	return nil
}

// parts joins the texts of a result and collects its files. The text of a
// result mirrors its structured content, by the protocol. So the structured
// content counts only where no text is.
func (a *answer) parts(tool string) toolset.Result {
	n := namer{tool: tool}
	var lines []string
	hasText := false
	for _, c := range a.Content {
		text := n.part(c)
		hasText = hasText || c.Type == "text"
		if text != "" {
			lines = append(lines, text)
		}
	}
	if len(a.Structured) > 0 && string(a.Structured) != "null" && !hasText {
		lines = append([]string{string(a.Structured)}, lines...)
	}
	return toolset.Result{Text: strings.Join(lines, "\n\n"), Files: n.files}
}
