package run_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// oldLog is a run as an older version stored it, and the state to which it
// folds. A file of testdata/logs is never changed: a new form of message gets a
// new file.
type oldLog struct {
	About    string `json:"about"`
	Schema   string `json:"schema"`
	Messages []struct {
		// Subject is without the run's prefix.
		Subject string          `json:"subject"`
		Seq     uint64          `json:"seq"`
		Time    time.Time       `json:"time"`
		Body    json.RawMessage `json:"body"`
	} `json:"messages"`
	// State has the lines that describe and describeTurns print.
	State []string `json:"state"`
	// Conversation is shown to the model.
	Conversation []provider.Message `json:"conversation"`
}

// TestOldLogs: a run of an older version still folds to the same state, and its
// model is shown the same conversation.
func TestOldLogs(t *testing.T) {
	files, err := filepath.Glob("testdata/logs/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d files in testdata/logs, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var l oldLog
			if err := json.Unmarshal(text, &l); err != nil {
				t.Fatal(err)
			}
			s := l.fold(t)
			if diff := cmp.Diff(l.State, lines(describe(s)+describeTurns(s))); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(stored(t, l.Conversation), stored(t,
				tool.Conversation(subjects.Root, s.Start().User, s.Turns))); diff != "" {
				t.Errorf("conversation (-want +got):\n%s", diff)
			}
		})
	}
}

// fold folds the messages of the run.
func (l oldLog) fold(t *testing.T) run.State {
	t.Helper()
	var s run.State
	for _, m := range l.Messages {
		meta := run.Meta{Seq: m.Seq, Time: m.Time}
		s = apply(t, s, oldEvent(t, meta, m.Subject, m.Body))
	}
	return s
}

// oldEvent decodes a message. Its subject is without the run's prefix.
func oldEvent(t *testing.T, meta run.Meta, subject string, body []byte) run.Event {
	t.Helper()
	full := "axe.run.lead.T.r." + subject
	if subject == "result" {
		full = "axe.result.lead.T"
	}
	at, err := subjects.Space{}.Parse(full)
	if err != nil {
		t.Fatal(err)
	}
	e, err := run.Decode(at, meta, body)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// stored returns each message of a conversation as JSON, with tool calls as the
// model wrote them.
func stored(t *testing.T, ms []provider.Message) []string {
	t.Helper()
	var out []string
	for _, m := range ms {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(text))
	}
	return out
}

// lines splits a text into its lines.
func lines(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") }
