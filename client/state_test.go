package client_test

import (
	"errors"
	"testing"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// TestRootReadsAsAWorker: a client folds a root as a worker does. It keeps the
// reason of a cancel message, also of one that is stored before the call. An
// outcome whose object is gone is a failed outcome, such mail is left out, and
// such an entry of the log is an error.
func TestRootReadsAsAWorker(t *testing.T) {
	const turn = `{"index": 1, "kind": "turn", "trigger": 1, "start": {"model": "m"}, "calls": [{"agent": "echo"}],
		"answer": {"tool_calls": [{"id": "c", "name": "call_agent", "arguments": "{\"agent\": \"echo\"}"}]}}`
	gone := [][2]string{{"Axe-Object", "gone"}, {"Axe-Size", "10"}}
	checkTimedOut := func(t *testing.T, s run.State) {
		t.Helper()
		timeout := run.End{Kind: run.KindTimeout, Text: "timeout after 5s"}
		if s.Phase != run.Failed || s.End != timeout {
			t.Errorf("phase %s, end %+v, want failed with %+v", s.Phase, s.End, timeout)
		}
	}
	for name, test := range map[string]struct {
		messages func(r subjects.Run) []bus.Message
		check    func(t *testing.T, s run.State)
		corrupt  bool
	}{
		"reason of a cancellation": {
			messages: func(r subjects.Run) []bus.Message {
				return []bus.Message{
					{Subject: r.Call(), Body: []byte(`{"task": "x"}`)},
					{Subject: r.Cancel(), Body: []byte(`{"kind": "timeout", "text": "timeout after 5s"}`)},
				}
			},
			check: checkTimedOut,
		},
		"cancel message before the call": {
			messages: func(r subjects.Run) []bus.Message {
				return []bus.Message{
					{Subject: r.Cancel(), Body: []byte(`{"kind": "timeout", "text": "timeout after 5s"}`)},
					{Subject: r.Call(), Body: []byte(`{"task": "x"}`)},
				}
			},
			check: checkTimedOut,
		},
		"outcome whose object is gone": {
			messages: func(r subjects.Run) []bus.Message {
				return []bus.Message{
					{Subject: r.Call(), Body: []byte(`{"task": "x"}`)},
					{Subject: r.Log(), Body: []byte(turn)},
					{Subject: r.Reply(1, 0), Header: gone},
				}
			},
			check: func(t *testing.T, s run.State) {
				t.Helper()
				if o := s.Turns[0].Outcomes[0]; s.Phase != run.Ready || o == nil || o.Kind != run.KindError {
					t.Errorf("phase %s, outcome %+v, want ready with a failed outcome", s.Phase, o)
				}
			},
		},
		"mail whose object is gone": {
			messages: func(r subjects.Run) []bus.Message {
				return []bus.Message{
					{Subject: r.Call(), Body: []byte(`{"task": "x"}`)},
					{Subject: r.Mail(subjects.Root.MailKey(1, 0)), Header: gone},
				}
			},
			check: func(t *testing.T, s run.State) {
				t.Helper()
				if s.Phase != run.Ready || len(s.Inbox) > 0 {
					t.Errorf("phase %s with %d messages, want ready with none", s.Phase, len(s.Inbox))
				}
			},
		},
		"log entry whose object is gone": {
			messages: func(r subjects.Run) []bus.Message {
				return []bus.Message{
					{Subject: r.Call(), Body: []byte(`{"task": "x"}`)},
					{Subject: r.Log(), Header: gone},
				}
			},
			corrupt: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				t := h.t
				tree, err := subjects.ParseTree("T")
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range test.messages(h.conn.Space().Run(h.agent("echo"), tree, subjects.Root)) {
					if _, err := h.conn.Write(t.Context(), m); err != nil {
						t.Fatal(err)
					}
				}
				got, err := h.RootState(t.Context(), tree)
				if test.corrupt {
					if !errors.Is(err, run.ErrCorrupt) {
						t.Errorf("error %v, want %v", err, run.ErrCorrupt)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				test.check(t, got)
			})
		})
	}
}
