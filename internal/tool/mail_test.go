package tool_test

import (
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
