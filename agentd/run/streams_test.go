package run_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/subjects"
)

// storedLine is a line of a file in testdata/streams. Such a file holds the
// messages of a stream as commit 0d57a3b stored them, each with the state that
// this commit folded after it. The last lines hold the final state of each run.
// A file is never changed: a new form of message gets a new file.
type storedLine struct {
	Subject string          `json:"subject"`
	Seq     uint64          `json:"seq"`
	Time    time.Time       `json:"time"`
	Body    json.RawMessage `json:"body"`
	Text    string          `json:"text"` // a body that is no JSON
	// State is a string after a message, and a list of strings for a run.
	State json.RawMessage `json:"state"`

	Run   string `json:"run"`
	Reply string `json:"reply"` // subject of the run's outcome

	Error string `json:"error"` // the run cannot be folded
}

// TestStoredStreams: messages that an older version stored fold to the states
// that it folded.
func TestStoredStreams(t *testing.T) {
	files, err := filepath.Glob("testdata/streams/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d files in testdata/streams, error %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			newStoredStream().replay(t, string(text))
		})
	}
}

// storedStream holds the runs of a stream, folded so far.
type storedStream struct {
	messages map[string]storedLine // the first of each subject
	runs     map[string]run.State
	errors   map[string]error
}

func newStoredStream() *storedStream {
	return &storedStream{map[string]storedLine{}, map[string]run.State{}, map[string]error{}}
}

// replay folds the messages of a file, and compares the states after each of
// them and at the end.
func (s *storedStream) replay(t *testing.T, text string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l storedLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		if l.Run != "" {
			s.compare(t, l)
			continue
		}
		if _, second := s.messages[l.Subject]; !second {
			s.messages[l.Subject] = l
		}
		s.fold(t, l)
	}
}

// fold applies a message to its run, and compares the state after it.
func (s *storedStream) fold(t *testing.T, l storedLine) {
	t.Helper()
	at, err := subjects.Space{}.Parse(l.Subject)
	if err != nil {
		t.Fatal(err)
	}
	name := at.Run.String()
	if at.Kind == subjects.Result || at.Kind == subjects.Other || s.errors[name] != nil {
		return
	}
	state := s.runs[name]
	e, err := run.Decode(at, run.Meta{Seq: l.Seq, Time: l.Time}, l.body())
	if err == nil && e != nil {
		state, err = state.Apply(e)
	}
	if err != nil {
		s.errors[name] = err
	} else {
		state.Seq = max(state.Seq, l.Seq)
	}
	s.runs[name] = state
	var want string
	if err := json.Unmarshal(l.State, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, stateLine(state)); diff != "" {
		t.Errorf("%s, after message %d (-want +got):\n%s", name, l.Seq, diff)
	}
}

// compare folds a run's own outcome, which its stream may hold, and compares
// the run's final state.
func (s *storedStream) compare(t *testing.T, l storedLine) {
	t.Helper()
	state := s.runs[l.Run]
	if end, ok := s.messages[l.Reply]; ok {
		at := subjects.Address{Kind: subjects.Result}
		e, err := run.Decode(at, run.Meta{Seq: end.Seq, Time: end.Time}, end.body())
		if err != nil {
			t.Fatal(err)
		}
		state = apply(t, state, e)
	}
	if got := s.errors[l.Run]; (got != nil) != (l.Error != "") || got != nil && !errors.Is(got, run.ErrCorrupt) {
		t.Errorf("%s: error %v, want %q", l.Run, got, l.Error)
	}
	var want []string
	if err := json.Unmarshal(l.State, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, stateText(state)); diff != "" {
		t.Errorf("%s at the end (-want +got):\n%s", l.Run, diff)
	}
}

// body is the body of the message.
func (l storedLine) body() []byte {
	if l.Body == nil {
		return []byte(l.Text)
	}
	return l.Body
}

// effectLine shows an effect in a line. Commit 0d57a3b had no tools.
func effectLine(e run.Effect) string {
	switch e := e.(type) {
	case run.CallModel:
		return fmt.Sprintf("model.%d", e.Turn)
	case run.CallTool:
		return "tool"
	case run.CallChildren:
		return fmt.Sprintf("call.%d timer=%s", e.Turn, timeLine(e.Timer)) + childrenLine("child", e.Children) +
			childrenLine("fork", e.Forks) + childrenLine("post", e.Posts) + childrenLine("kill", e.Kills)
	case run.CancelBelow:
		return "cancel" + forksLine(e.Below)
	case run.NotifyIdle:
		return fmt.Sprintf("idle.%d seen=%d", e.Turn, e.Seen)
	case run.PublishAnswer:
		return fmt.Sprintf("answer.%d", e.Turn)
	case run.LogEnd:
		return fmt.Sprintf("logend %s %q", e.End.Kind, e.End.Text)
	case run.PublishFailure:
		return fmt.Sprintf("failure %s %q", e.End.Kind, e.End.Text)
	case run.StopBelow:
		return fmt.Sprintf("stop.%d timer=%s", e.Turn, timeLine(e.Timer)) + forksLine(e.Below)
	case run.LogInterrupt:
		return fmt.Sprintf("loginterrupt.%d", e.Turn)
	case run.HoldTool:
		return fmt.Sprintf("holdtool until=%s %q", timeLine(e.Until), e.Why)
	case run.AwaitTask:
		return "awaittask"
	case run.CancelTask:
		return "canceltask " + e.ID
	case run.PublishSettled:
		return fmt.Sprintf("settled %q", e.Result)
	case run.HoldTurn:
		return fmt.Sprintf("hold.%d timer=%s %q", e.Turn, timeLine(e.Timer), e.Why)
	}
	return "?"
}

// stateLine sums up a state in a line.
func stateLine(s run.State) string {
	var owed []string
	for _, e := range s.Outstanding().All() {
		owed = append(owed, effectLine(e))
	}
	var line strings.Builder
	add := func(format string, args ...any) { fmt.Fprintf(&line, format, args...) }
	add("%s owner=%d log=%d@%d pending=%d awaited=%d",
		s.Phase, s.Owner, s.LogIndex, s.LogSeq, s.Pending(), s.OutcomesAwaited())
	if s.End.Kind != "" {
		add(" end=%s,%q,%s", s.End.Kind, s.End.Text, s.End.Category)
	}
	if s.OutcomeStored {
		add(" stored")
	}
	for _, m := range s.Inbox {
		add(" inbox=%d,%s", m.Seq, m.From)
	}
	for _, m := range s.Notice() {
		add(" notice=%d,%t", m.Seq, m.Inline)
	}
	for _, f := range s.Turns.Forks() {
		add(" fork=%d.%d,%t", f.Turn, f.Index, s.SaidIdle(f.Call.To))
	}
	add(" owes=%s", strings.Join(owed, "; "))
	return line.String()
}

// childrenLine shows children in a line, each under a name.
func childrenLine(name string, cs []run.Child) string {
	var line strings.Builder
	for _, c := range cs {
		fmt.Fprintf(&line, " %s=%d,%s,%s,%s", name, c.Index, c.Call.Agent, c.Call.To, timeLine(c.Deadline))
	}
	return line.String()
}

// forksLine shows the calls of forks in a line.
func forksLine(fs []run.Fork) string {
	var line strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&line, " %d.%d", f.Turn, f.Index)
	}
	return line.String()
}

// timeLine shows a time of day; "-" for the zero time.
func timeLine(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("15:04:05.999")
}

// stateText shows a state as lines. It leaves out the fields that commit
// 0d57a3b did not have: the attempt of a tool run, the returns, and the tokens of
// other models.
func stateText(s run.State) []string {
	lines := []string{stateLine(s)}
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	add("seq %d called %s input %s", s.Seq, timeLine(s.CalledAt), short(s.Input))
	own := s.Turns.Totals()
	add("usage %s tools %d model_ms %d retries %d last %t",
		short(own.Usage), own.ToolCalls, own.ModelMS, s.Turns.Retries(), s.LastTurn())
	sum := s.Subtree()
	sum.Others = nil
	add("subtree %s", short(sum))
	add("partial %s", short(s.Partial()))
	for _, m := range s.Inbox {
		add("inbox %s", mailText(m))
	}
	for i, t := range s.Turns {
		add("turn %d at %s timer %s carried %t withheld %q why %q grant %t runs %d read %d verdict %s",
			i+1, timeLine(t.Time), timeLine(t.Entry.Timer), t.CarriedOut(), t.Withheld(), t.Why,
			t.HasUnusedGrant(), t.RunCount(), t.ReadTo(), short(t.Verdict))
		for j, c := range t.Entry.Calls {
			add(" call %d %s task %q context %q cwd %q", j, short(c), c.Task, c.Context, c.Cwd)
			add("  outcome %s", short(t.Outcomes[j]))
			if j < len(t.Took) {
				for _, m := range t.Took[j] {
					add("  took %s", mailText(m))
				}
			}
			if j < len(t.Found) {
				add("  found %v", t.Found[j])
			}
		}
		for _, m := range t.Notice {
			add(" notice %s", mailText(m))
		}
	}
	return lines
}

// mailText shows a message with its outcome, if it has one.
func mailText(m run.Mail) string {
	return fmt.Sprintf("%d key %s inline %t %s outcome %s", m.Seq, m.Key, m.Inline, short(m), short(m.Outcome))
}

// short shows a value as JSON, or a long one by its length and checksum.
func short(v any) string {
	if o, ok := v.(*run.Outcome); ok && o != nil {
		// commit 0d57a3b had no reasons
		old := *o
		old.Reason = ""
		v = &old
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if len(b) <= 160 {
		return string(b)
	}
	sum := fnv.New64a()
	_, _ = sum.Write(b)
	return fmt.Sprintf("%d bytes, sum %x", len(b), sum.Sum64())
}
