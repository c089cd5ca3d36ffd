package tool_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/provider"
)

// TestCompleted: an answer that is the completion message itself is that, in a
// fence or not; any other answer, JSON or not, is what the fork's parent reads,
// with nothing left out.
func TestCompleted(t *testing.T) {
	const other = `{"success":true,"items":[1,2]}`
	for answer, want := range map[string]tool.Completion{
		"All is well.":                    {Success: true, Summary: "All is well."},
		`{"success":true,"summary":"ok"}`: {Success: true, Summary: "ok"},
		" {\"success\":false, \"error\":\"no disk\", \"partial\":\"half\"}\n":    {Error: "no disk", Partial: "half"},
		"```json\n{\"status\":\"idle\",\"success\":false,\"error\":\"no\"}\n```": {Error: "no"},
		"```\n{\"success\":true}\n```":                                           {Success: true},
		other:                                                                    {Success: true, Summary: other},
		`{"success":"yes"}`:                                                      {Success: true, Summary: `{"success":"yes"}`},
		`{"summary":"no word on success"}`:                                       {Success: true, Summary: `{"summary":"no word on success"}`},
		`{"success":false} and more`:                                             {Success: true, Summary: `{"success":false} and more`},
		"```json\n{\"success\":false}":                                           {Success: true, Summary: "```json\n{\"success\":false}"},
		"```{\"success\":false}```":                                              {Success: true, Summary: "```{\"success\":false}```"},
		"Done:\n```json\n{\"a\":1}\n```\nBye.":                                   {Success: true, Summary: "Done:\n```json\n{\"a\":1}\n```\nBye."},
	} {
		want.Status = "idle"
		s := run.State{
			Turns: []run.Turn{{Entry: run.Entry{Kind: run.EntryIdle, Answer: &provider.Response{Content: answer}}}},
		}
		if diff := cmp.Diff(want, tool.Completed(s)); diff != "" {
			t.Errorf("%s:\n%s", answer, diff)
		}
	}
}
