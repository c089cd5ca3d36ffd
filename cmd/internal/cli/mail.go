package cli

import (
	"encoding/json"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/tool"
)

// MailText returns a message as a person reads it.
func MailText(m run.Mail) string {
	switch {
	case m.Outcome != nil && m.Outcome.Status == run.StatusCompleted:
		return "(ended) " + m.Outcome.Result
	case m.Outcome != nil:
		return "(ended, " + string(m.Outcome.Kind) + ") " + m.Outcome.Error
	case !m.Idle:
		return m.Text
	}
	var c tool.Completion
	switch err := json.Unmarshal([]byte(m.Text), &c); {
	case err != nil:
		return m.Text
	case c.Success:
		return "(idle) " + c.Summary
	}
	return "(idle, failed) " + c.Error
}
