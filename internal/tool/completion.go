package tool

import (
	"encoding/json"
	"strings"

	"github.com/axebus/axe/agentd/run"
)

// Completion is the message in which a forked run reports to its parent (the
// structured completion message of the document "Sub-Agent Tools").
type Completion struct {
	// Status is "idle", or "dead" for a run that has ended.
	Status  string `json:"status"`
	Success bool   `json:"success"`
	// Summary is the answer of a success.
	Summary string `json:"summary,omitzero"`
	Error   string `json:"error,omitzero"`
	// Kind is the error kind of a run that has ended.
	Kind string `json:"error_kind,omitzero"`
	// Partial is the work from before a failure.
	Partial string `json:"partial,omitzero"`
}

// Completed returns the report of a fork that has become idle: its answer, or
// why it has none. A model that knows of its failure may answer with the report
// itself.
func Completed(s run.State) Completion {
	last := s.Turns[len(s.Turns)-1].Entry
	if last.End != nil || len(last.Calls) > 0 {
		c := Completion{Status: string(run.PeerIdle), Error: run.TextInterrupted, Partial: partialText(s.Partial())}
		if last.End != nil {
			c.Error = last.End.Text
		}
		return c
	}
	if c, ok := parseCompletion(last.Answer.Content); ok {
		return c
	}
	summary := marked(last.Answer.Content, last.Answer.Truncated())
	return Completion{Status: string(run.PeerIdle), Success: true, Summary: summary}
}

// parseCompletion reads an answer that is a Completion, with or without a fence
// around it. Any other JSON is just an answer.
func parseCompletion(text string) (c Completion, ok bool) {
	text = strings.TrimSpace(text)
	if fenced, open := strings.CutPrefix(text, "```"); open {
		// The language stands behind the opening fence.
		_, fenced, _ = strings.Cut(fenced, "\n")
		if fenced, open = strings.CutSuffix(fenced, "```"); !open {
			return c, false
		}
		text = strings.TrimSpace(fenced)
	}
	var answer struct {
		Completion
		Success *bool `json:"success"`
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&answer) != nil || answer.Success == nil || d.InputOffset() < int64(len(text)) {
		return c, false
	}
	c = answer.Completion
	c.Status = string(run.PeerIdle)
	c.Success = *answer.Success
	return c, true
}

// endOf returns the report of a forked run that has ended.
func endOf(o run.Outcome) Completion {
	c := Completion{
		Status: string(run.PeerDead), Success: o.Status == run.StatusCompleted,
		Summary: answerOf(o), Error: o.Error, Partial: partialText(o.Partial),
	}
	if !c.Success {
		c.Kind = errorKind(o.Kind)
	}
	return c
}

// partialText returns the text of the work from before a failure, "" if there
// is none.
func partialText(p *run.Partial) string {
	if p == nil {
		return ""
	}
	return p.Text
}
