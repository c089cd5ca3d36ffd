package tool_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
)

// TestCompleted: a fork ends its work with an answer. An answer that is a
// completion message, in a fence or not, is the report to its parent. Any other
// answer, JSON or not, becomes the summary of a success.
func TestCompleted(t *testing.T) {
	whole := func(text string) tool.Completion { return tool.Completion{Success: true, Summary: text} }
	const other = `{"success":true,"items":[1,2]}`
	for answer, want := range map[string]tool.Completion{
		"All is well.":                    whole("All is well."),
		`{"success":true,"summary":"ok"}`: whole("ok"),
		" {\"success\":false, \"error\":\"no disk\", \"partial\":\"half\"}\n":    {Error: "no disk", Partial: "half"},
		"```json\n{\"status\":\"idle\",\"success\":false,\"error\":\"no\"}\n```": {Error: "no"},
		"```\n{\"success\":true}\n```":                                           {Success: true},

		other:                                  whole(other),
		`{"success":"yes"}`:                    whole(`{"success":"yes"}`),
		`{"summary":"without success"}`:        whole(`{"summary":"without success"}`),
		`{"success":false} and more`:           whole(`{"success":false} and more`),
		"```json\n{\"success\":false}":         whole("```json\n{\"success\":false}"),
		"```{\"success\":false}```":            whole("```{\"success\":false}```"),
		"Done:\n```json\n{\"a\":1}\n```\nBye.": whole("Done:\n```json\n{\"a\":1}\n```\nBye."),
	} {
		want.Status = "idle"
		s := run.State{
			Turns: []run.Turn{{Entry: run.Entry{Kind: run.EntryIdle, Answer: &provider.Response{Content: answer}}}},
		}
		if diff := cmp.Diff(want, tool.Completed(s)); diff != "" {
			t.Errorf("report of the answer %s (-want +got):\n%s", answer, diff)
		}
	}
}

// TestMailNoticeIsBounded: a notice names the first senders, and counts the
// others. A person's text is no name.
func TestMailNoticeIsBounded(t *testing.T) {
	var mail []run.Mail
	for i := range 1000 {
		mail = append(mail, run.Mail{From: fmt.Sprint("sender ", i, strings.Repeat("x", 500))})
	}
	mail = append(mail, run.Mail{From: "ann", Text: "hello", Inline: true})
	notice := tool.MailNotice(mail)
	lines := strings.Split(notice, "\n")
	if len(lines) != 22 || lines[20] != "hello" || lines[21] != "got mail from 980 more" {
		t.Errorf("%d lines, the last ones %q, want 20 senders, the text and the count",
			len(lines), lines[len(lines)-2:])
	}
}
