package client_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// withStates describes the stored events, one a line. Each line has the
// sequence, the state of the event's run and the state of its caller.
func withStates(events []client.Event) []string {
	var lines []string
	for _, e := range events {
		if !e.Live() {
			lines = append(lines, fmt.Sprintf("%d %s: %s, %d turns, %d messages; caller %s, %d turns",
				e.Seq, describe(e),
				e.State.Phase, len(e.State.Turns), len(e.State.Inbox), e.Caller.Phase, len(e.Caller.Turns)))
		}
	}
	return lines
}

// TestFollowFromTheMiddle: four followers of one tree begin at different times,
// the last after the end. All get the same stored events and states.
func TestFollowFromTheMiddle(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		tree := h.submit("pair", "x", "")
		var wg sync.WaitGroup
		got := make([][]client.Event, 4)
		follow := func(i int) {
			wg.Go(func() {
				if err := h.Follow(t.Context(), tree, func(e client.Event) { got[i] = append(got[i], e) }); err != nil {
					t.Errorf("follower %d: got %v, want no error", i, err)
				}
			})
		}
		follow(0)
		// a worker asks the fork's model
		time.Sleep(1500 * time.Millisecond)
		follow(1)
		// the fork is idle, and the root waits
		time.Sleep(time.Minute)
		follow(2)
		h.send(tree, "r-1-0", "more")
		time.Sleep(500 * time.Millisecond)
		if err := h.Interrupt(t.Context(), tree, h.path("r-1-0")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if err := h.Cancel(t.Context(), tree, h.path("r-1-0"), "enough"); err != nil {
			t.Fatal(err)
		}
		h.answers(tree, "dead")
		follow(3)
		wg.Wait()
		for i := range got[1:] {
			if diff := cmp.Diff(withStates(got[0]), withStates(got[i+1])); diff != "" {
				t.Errorf("events (-follower 0 +follower %d):\n%s", i+1, diff)
			}
		}
		for _, e := range got[0] {
			if e.Kind == client.ChildEnded && (e.State.Phase != run.Failed || e.Caller.Phase != run.Ready) {
				t.Errorf("%s: the child is %s, its caller %s; want failed and ready",
					describe(e), e.State.Phase, e.Caller.Phase)
			}
			if e.Kind == client.Asking && e.State.Phase == run.None {
				t.Errorf("%s: the event has no state", describe(e))
			}
		}
	})
}

// TestFollowCancelledBeforeItsCall: a person cancels a submission before a
// worker takes it. The cancel message is stored before the root's call, and a
// follower gets an event for each.
func TestFollowCancelledBeforeItsCall(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		tree := h.submit("echo", "x", "")
		if err := h.Cancel(t.Context(), tree, subjects.Root, "enough"); err != nil {
			t.Fatal(err)
		}
		h.startWorker()
		h.answers(tree, "enough")
		want := []string{"cancelled enough", "called", "concluded failed"}
		if diff := cmp.Diff(want, h.rootEvents(tree)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// folded applies messages to a fold, with the sequences 1, 2 and so on. It
// returns their events, each with the phase of its run.
func folded(f *client.Fold, messages ...func(m run.Meta) (subjects.Address, run.Event)) []string {
	var lines []string
	for i, message := range messages {
		m := run.Meta{Seq: uint64(i + 1), Time: time.Unix(int64(i), 0)}
		at, e := message(m)
		for _, e := range f.Apply(at, m, e) {
			lines = append(lines, fmt.Sprintf("%s: %s", describe(e), e.State.Phase))
		}
	}
	return lines
}

// TestFold: a message that the state of its run does not accept has an event,
// and the state stays the same. A message that repeats another has no event.
func TestFold(t *testing.T) {
	agent, err := subjects.ParseAgent("echo")
	if err != nil {
		t.Fatal(err)
	}
	root := subjects.Space{}.Run(agent, client.TreeID("T"), subjects.Root)
	called := func(m run.Meta) (subjects.Address, run.Event) {
		return subjects.Address{Kind: subjects.Call, Run: root}, run.Called{Meta: m}
	}
	turn := func(index int) func(m run.Meta) (subjects.Address, run.Event) {
		e := run.Entry{
			Kind: run.EntryTurn, Index: index, Start: &run.Start{},
			Answer: &provider.Response{}, Calls: []run.Call{{Agent: "echo"}},
		}
		return func(m run.Meta) (subjects.Address, run.Event) {
			return subjects.Address{Kind: subjects.Log, Run: root}, e.Event(m)
		}
	}
	replied := func(m run.Meta) (subjects.Address, run.Event) {
		o := run.Outcome{Status: run.StatusCompleted, Agent: "echo", Path: "r-1-0"}
		return subjects.Address{Kind: subjects.Reply, Run: root, Turn: 1}, run.Replied{Meta: m, Turn: 1, Outcome: o}
	}
	result := func(m run.Meta) (subjects.Address, run.Event) {
		o := run.Outcome{Status: run.StatusCompleted}
		return subjects.Address{Kind: subjects.Result, Run: root}, run.OutcomeStored{Meta: m, Outcome: o}
	}

	var f client.Fold
	got := folded(&f, called, called, turn(1), replied, replied, turn(3), result, result, turn(2))
	want := []string{
		"r echo called: ready",
		"r echo answered echo: awaiting",
		"r-1-0 echo replied completed: completed",
		"r echo answered echo: ready",
		"r echo concluded completed: completed",
		"r echo answered echo: completed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if again := folded(&f, called, turn(1), replied, result); again != nil {
		t.Errorf("repeated messages: events %q, want none", again)
	}
}

// TestClaimed: a name that an author gives is shown as it is, unless it could
// look like that of a proven sender.
func TestClaimed(t *testing.T) {
	alice, err := subjects.ParseBy("operator", "alice")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"": "", "alice": "alice", "r-1-0": "r-1-0", alice.String(): strconv.Quote(alice.String()),
		"ann by alice (operator)": `"ann by alice (operator)"`,
	} {
		if got := client.Claimed(name); got != want {
			t.Errorf("the claim %q is shown as %s, want %s", name, got, want)
		}
	}
}
