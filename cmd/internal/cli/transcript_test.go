package cli

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestTranscript prints events as --verbose does. The messages are written as
// in TestTree. The time for the calls of a turn is 5 s.
func TestTranscript(t *testing.T) {
	datadriven.RunTest(t, "testdata/transcript.txt", func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		var out strings.Builder
		printed := newTranscript(&out)
		s := &scriptedTree{}
		for line := range strings.Lines(d.Input) {
			for _, e := range s.apply(t, line) {
				printed.apply(e)
			}
		}
		return out.String()
	})
}
