package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/axebus/axe/client"
)

// TestTranscript tells events as --verbose does. The events are those of
// TestTree; a call's time is 5 s.
func TestTranscript(t *testing.T) {
	datadriven.RunTest(t, "testdata/transcript.txt", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		var out strings.Builder
		told := newTranscript(&out)
		for line := range strings.Lines(d.Input) {
			e := parseEvent(t, line)
			e.Tools = len(e.Calls)
			for i := range e.Calls {
				e.Calls[i].Deadline = e.Time.Add(5 * time.Second)
			}
			switch e.Kind { //nolint:exhaustive // the rest has no text of its own
			case client.Called:
				e.Input.Task = e.Reason
			case client.Answered:
				e.Stop = "tool_use"
			case client.ChildEnded, client.TreeEnded, client.BecameIdle:
				e.Outcome.Result, e.Outcome.StopReason = e.Outcome.Error, "end_turn"
			}
			told.apply(e)
		}
		return out.String()
	})
}
