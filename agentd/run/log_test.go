package run_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// oldLog is a run as a version of this project stored it, and what it has to
// mean for ever. A file of testdata/logs is never changed: a new form of
// message gets a new file.
type oldLog struct {
	About    string `json:"about"`
	Schema   string `json:"schema"`
	Messages []struct {
		Subject string          `json:"subject"` // without the run's prefix
		Seq     uint64          `json:"seq"`
		Time    time.Time       `json:"time"`
		Body    json.RawMessage `json:"body"`
	} `json:"messages"`
	State []string `json:"state"` // as describe has it
	// what the model is shown
	Conversation []provider.Message `json:"conversation"`
}

func TestOldLogs(t *testing.T) {
	files, err := filepath.Glob("testdata/logs/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no logs: %v", err)
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
			if diff := cmp.Diff(stored(t, l.Conversation), stored(t, tool.Conversation(subjects.Root, s.Start().User, s.Turns))); diff != "" {
				t.Errorf("conversation (-want +got):\n%s", diff)
			}
		})
	}
}

func (l oldLog) fold(t *testing.T) run.State {
	t.Helper()
	var s run.State
	for _, m := range l.Messages {
		meta := run.Meta{Seq: m.Seq, Time: m.Time}
		s = apply(t, s, oldEvent(t, meta, m.Subject, m.Body))
	}
	return s
}

// oldEvent reads a message as agentd's history does.
func oldEvent(t *testing.T, meta run.Meta, subject string, body []byte) run.Event {
	t.Helper()
	var turn, index int
	switch {
	case subject == "call":
		e := run.Called{Meta: meta}
		if err := json.Unmarshal(body, &e.Input); err != nil {
			t.Fatal(err)
		}
		return e
	case subject == "cancel":
		e := run.Cancelled{Meta: meta}
		if err := json.Unmarshal(body, &e.End); err != nil {
			t.Fatal(err)
		}
		return e
	case subject == "log":
		entry, err := run.DecodeEntry(body)
		if err != nil {
			t.Fatal(err)
		}
		if entry.Kind == run.EntryEnded {
			return run.Ended{Meta: meta, Entry: entry}
		}
		return run.Answered{Meta: meta, Entry: entry}
	case scan(subject, "in.timer.%d", &turn):
		return run.TimedOut{Meta: meta, Turn: turn}
	case scan(subject, "in.%d.%d", &turn, &index):
		o, err := run.DecodeOutcome(body)
		if err != nil {
			t.Fatal(err)
		}
		return run.Replied{Meta: meta, Turn: turn, Index: index, Outcome: o}
	case subject == "result":
		o, err := run.DecodeOutcome(body)
		if err != nil {
			t.Fatal(err)
		}
		return run.OutcomeStored{Meta: meta, Outcome: o}
	}
	t.Fatalf("subject %q", subject)
	return nil
}

func scan(s, format string, args ...any) bool {
	n, err := fmt.Sscanf(s, format, args...)
	return err == nil && n == len(args)
}

// stored is a conversation as it is kept: tool calls as the model wrote them.
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

func lines(s string) []string { return strings.Split(strings.TrimSuffix(s, "\n"), "\n") }
