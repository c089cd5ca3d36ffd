package run_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
)

// task puts a task of the server on the log.
func (h *toolEvents) task(id string) {
	h.index++
	h.apply(run.TaskMade{Meta: h.meta(), Entry: run.Entry{
		Index: h.index, Kind: run.EntryTask, Trigger: 1, Until: epoch.Add(time.Hour), Task: &run.ServerTask{ID: id},
	}})
}

// TestTaskPolled: a run with a task polls it, whatever its timer says, until it
// asks. After the answers it goes on with the task, of which it knows the
// beginning and the questions. A cancel message makes it owe the end of the
// task before its own.
func TestTaskPolled(t *testing.T) {
	h := &toolEvents{t: t}
	h.called()
	h.begun("one")
	h.task("7")
	h.apply(run.TimedOut{Meta: h.meta()})
	h.want(run.Polling, 1, run.AwaitTask{})
	h.asked(run.Form{ID: "f1", Questions: []run.Question{{Key: "a"}, {Key: "b"}}})
	if h.state.Attempt == nil || h.state.Task == nil {
		t.Fatalf("held with the attempt %v and the task %v, want both kept", h.state.Attempt, h.state.Task)
	}
	h.apply(run.Settled{Meta: h.meta(), Settlement: run.Settlement{
		As: run.SettleAnswer, Answers: map[string]json.RawMessage{"a": json.RawMessage(`{}`)},
	}})
	h.want(run.Polling, h.seq, run.AwaitTask{})
	if f := h.state.Task.Filled; f == nil || f.ID != "f1" || h.state.Filled != nil || h.state.Hold != nil {
		t.Fatalf("the task has the answers %+v, the tool %+v, want them for the task alone", f, h.state.Filled)
	}
	h.task("7")
	want := run.AwaitedTask{
		ServerTask: run.ServerTask{ID: "7"}, Since: epoch.Add(3 * time.Second), Until: epoch.Add(time.Hour),
	}
	got := *h.state.Task
	if !slices.Equal(got.Answered, []string{"a", "b"}) || got.Filled != nil || !got.Since.Equal(want.Since) ||
		got.ServerTask != want.ServerTask || !got.Until.Equal(want.Until) {
		t.Errorf("the task is %+v, want %+v with two questions", got, want)
	}
	end := run.End{Kind: run.KindCancelled, Text: "cancelled"}
	h.apply(run.Cancelled{Meta: h.meta(), End: end})
	h.want(run.Failed, h.seq, run.LogEnd{End: end})
	if owed := h.state.Outstanding().SideEffects; len(owed) != 1 || owed[0] != (run.CancelTask{ID: "7"}) {
		t.Errorf("the side effects are %+v, want the end of the task", owed)
	}
}

// TestTaskForgotten: a call with a forgotten task is held as any that may have
// taken effect. Another attempt knows nothing of the task.
func TestTaskForgotten(t *testing.T) {
	h := &toolEvents{t: t}
	h.called()
	h.begun("one")
	h.task("7")
	h.held()
	again := h.settled(run.SettleAgain, "one")
	h.want(run.Ready, again, run.CallTool{})
	if s := h.state; s.Task != nil || !s.MayBeginAgain {
		t.Errorf("the task is %+v, another attempt is allowed: %t, want none and true", s.Task, s.MayBeginAgain)
	}
	if _, err := h.state.Apply(run.TaskMade{Meta: h.meta(), Entry: run.Entry{
		Index: h.index + 2, Kind: run.EntryTask, Task: &run.ServerTask{ID: "8"},
	}}); err == nil {
		t.Error("an entry about a task that leaves a hole was folded")
	}
}

// TestNextPoll: the pause grows with the age of a task, between a second and a
// minute. The server may ask for a longer one.
func TestNextPoll(t *testing.T) {
	for _, test := range []struct{ poll, age, want time.Duration }{
		{0, 0, time.Second},
		{50 * time.Millisecond, 5 * time.Second, time.Second},
		{5 * time.Second, 30 * time.Second, 5 * time.Second},
		{5 * time.Second, 2 * time.Minute, 12 * time.Second},
		{0, 24 * time.Hour, time.Minute},
		{5 * time.Minute, 24 * time.Hour, 5 * time.Minute},
	} {
		now := epoch.Add(test.age)
		if got := (run.ServerTask{Poll: test.poll}).NextPoll(epoch, now).Sub(now); got != test.want {
			t.Errorf("a task of the age %v that wants a poll every %v is polled in %v, want %v",
				test.age, test.poll, got, test.want)
		}
	}
}
