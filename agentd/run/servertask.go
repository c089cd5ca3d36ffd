package run

import (
	"fmt"
	"slices"
	"time"
)

// ServerTask is a call that the tool's server goes on with after it has
// answered. A worker polls it when a timer fires, so that no worker waits.
type ServerTask struct {
	// ID is the server's name for the task.
	ID string `json:"id"`
	// Poll is the pause between two polls that the server asks for, 0 if it
	// asks for none.
	Poll time.Duration `json:"poll_ns,omitzero"`
	// TTL is the time for which the server keeps the task. The worker counts
	// it from the first entry about the task. 0 is no bound.
	TTL time.Duration `json:"ttl_ns,omitzero"`
}

// AwaitedTask is the task that a tool run waits for.
type AwaitedTask struct {
	ServerTask
	// Since is the stream's time of the first entry about the task.
	Since time.Time
	// Until is the time at which the run times out.
	Until time.Time
	// Answered has the keys of the task's questions that a person has
	// answered or declined. The server uses a key once.
	Answered []string
	// Filled is the form of the task with a person's answers that the
	// server may not have yet. It is nil if the server has all answers.
	Filled *FilledForm
}

const (
	// minPollPause and maxPollPause bound the pause between two polls that
	// grows with the age of a task.
	minPollPause = time.Second
	maxPollPause = time.Minute
)

// NextPoll returns the time of the next poll. The pause is a tenth of the
// task's age, from a second to a minute. It is longer if the server asks for
// more.
func (t ServerTask) NextPoll(since, now time.Time) time.Time {
	grown := min(now.Sub(since)/10, maxPollPause)
	return now.Add(max(grown, minPollPause, t.Poll))
}

// answered returns a task for which a person has filled in a form.
func (t AwaitedTask) answered(f *FilledForm) *AwaitedTask {
	t.Answered, t.Filled = slices.Clone(t.Answered), f
	for _, q := range f.Questions {
		t.Answered = append(t.Answered, q.Key)
	}
	return &t
}

// awaitTask folds the entry by which a tool run waits for a task. The attempt
// stays: it says that the effect may happen once. Another entry says that the
// server has a person's answers.
func awaitTask(s State, e TaskMade) (State, error) {
	before := s.Phase
	s, err := s.append(e.Meta, e.Entry)
	if err != nil || s.Ended() {
		return s, err
	}
	if before != Ready && (before != Polling || s.Task.Filled == nil) || s.Input.Tool == nil {
		return s, fmt.Errorf("%w: log message %d awaits a task while the run is %s", ErrCorrupt, e.Seq, before)
	}
	next := &AwaitedTask{ServerTask: *e.Entry.Task, Since: e.Time, Until: e.Entry.Until}
	if t := s.Task; t != nil {
		next.Since, next.Answered = t.Since, t.Answered
	}
	s.Task, s.Hold = next, nil
	s.MayBeginAgain = false
	s.Phase, s.Owner = Polling, e.Entry.Trigger
	return s, nil
}
