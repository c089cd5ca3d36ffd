package tool_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
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

// TestCutAnswersAreMarked: the answers of a fork, of a spawned run and of a
// called one were cut. The models that read them are told so.
func TestCutAnswersAreMarked(t *testing.T) {
	const want = "half\n\n[This answer was cut at its limit of output tokens. It is not complete.]"
	resp := &provider.Response{Content: "half", StopReason: "length"}
	o := run.Outcome{Status: run.StatusCompleted, Result: "half", Truncated: true}
	s := run.State{Turns: []run.Turn{{Entry: run.Entry{Kind: run.EntryIdle, Answer: resp}}}}
	if got := tool.Completed(s).Summary; got != want {
		t.Errorf("the summary of a fork is %q, want %q", got, want)
	}
	if got, _ := tool.Text(run.Call{Op: run.OpCall}, &o); got != want {
		t.Errorf("the result of a call is %q, want %q", got, want)
	}
	result := func(t run.Turn) string {
		t.Entry.Answer = &provider.Response{ToolCalls: []provider.ToolCall{{}}}
		return tool.Results(subjects.Root, 1, t)[0].Content
	}
	for name, got := range map[string]string{
		"a spawned run": result(run.Turn{
			Entry: run.Entry{Calls: []run.Call{{Op: run.OpCall, Spawn: true}}}, Outcomes: []*run.Outcome{&o},
		}),
		"a fork that has ended": result(run.Turn{
			Entry: run.Entry{Calls: []run.Call{{Op: run.OpMail}}}, Took: [][]run.Mail{{{From: "r-1-0", Outcome: &o}}},
		}),
	} {
		if !strings.Contains(got, `half\n\n[This answer was cut`) {
			t.Errorf("%s: %s, want the mark of an answer that was cut", name, got)
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
