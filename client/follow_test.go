package client_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// describe returns an event in a few words: the path and the agent of its run,
// its kind, and some of its fields, depending on the kind. An exclamation mark
// follows the agent of a call that was refused.
func describe(e client.Event) string {
	words := []string{e.Run.Path.String(), e.Run.Agent.String(), string(e.Kind)}
	for _, c := range e.Entry.Calls {
		if c.Failed() {
			c.Agent += "!"
		}
		if e.Kind == client.Answered || e.Kind == client.Approved {
			words = append(words, c.Agent)
		}
	}
	switch e.Kind {
	case client.Asking, client.Retrying, client.RateLimited:
		words = append(words, strconv.Itoa(e.Turn))
	case client.ChildEnded, client.TreeEnded:
		words = append(words, string(e.Outcome.Status))
	case client.Cancelled:
		words = append(words, e.Cause.Text)
	case client.Held:
		words = append(words, e.Reason)
	case client.Approved, client.Denied, client.Settled:
		words = append(words, "by "+e.By, e.Reason)
	case client.Stalled:
		words = append(words, e.Reason)
	case client.TimedOut:
		words = append(words, strconv.Itoa(e.Turn), e.Reason)
	case client.CancelSent, client.NotCounted:
		words = append(words, e.Sender.String())
	case client.Called, client.Running, client.Answered, client.BecameIdle, client.MailReceived, client.Interrupted:
	}
	return strings.Join(words, " ")
}

// stored describes the stored events, and checks that they are in stream order.
// It leaves out live events, whose order is random.
func stored(t *testing.T, events []client.Event) []string {
	t.Helper()
	var out []string
	last := uint64(0)
	for _, e := range events {
		if e.Live() {
			continue
		}
		if e.Seq <= last && e.Kind != client.TreeEnded {
			t.Errorf("%s: message %d came after message %d", describe(e), e.Seq, last)
		}
		last = e.Seq
		out = append(out, describe(e))
	}
	return out
}

// TestFollow: a follower that begins before the tree has a worker gets the
// stored and the live events of the tree. A follower that begins after the end
// gets the same stored events.
func TestFollow(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		tree := h.submit("lead", "a", "")
		var during []client.Event
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := h.Follow(t.Context(), tree, func(e client.Event) { during = append(during, e) }); err != nil {
				t.Errorf("Follow: got %v, want no error", err)
			}
		})
		time.Sleep(time.Minute)
		h.startWorker()
		h.answers(tree, "together: echo: a 1")
		wg.Wait()
		asked := map[string]int{}
		for _, e := range during {
			if e.Kind == client.Asking {
				asked[describe(e)]++
			}
			if e.Kind != client.Called && e.Worker != "w1" {
				t.Errorf("%s: worker %q, want w1", describe(e), e.Worker)
			}
		}
		if diff := cmp.Diff(map[string]int{
			"r lead asking 1": 1, "r lead asking 2": 1, "r-1-0 echo asking 1": 1, "r-1-2 bad asking 1": 1,
		}, asked); diff != "" {
			t.Errorf("events Asking (-want +got):\n%s", diff)
		}

		var later []client.Event
		if err := h.Follow(t.Context(), tree, func(e client.Event) { later = append(later, e) }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(stored(t, during), stored(t, later)); diff != "" {
			t.Errorf("events (-while the tree worked +afterwards):\n%s", diff)
		}
		order := stored(t, later)
		if n := len(order); n != 7 || order[0] != "r lead called" || order[1] != "r lead answered echo nobody! bad" ||
			order[n-1] != "r lead concluded completed" {
			t.Errorf("events %q, want 7 from called to concluded completed", order)
		}
	})
}

// TestFollowCancelled: a person cancels a tree while its child is at work. The
// cancel message is an event with its reason, and the end of the tree is the
// last event.
func TestFollowCancelled(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		tree := h.submit("slowlead", "x", "")
		var got []client.Event
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := h.Follow(t.Context(), tree, func(e client.Event) { got = append(got, e) }); err != nil {
				t.Errorf("Follow: got %v, want no error", err)
			}
		})
		time.Sleep(time.Minute)
		if err := h.Cancel(t.Context(), tree, subjects.Root, "why not"); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		want := []string{
			"r slowlead called",
			"r slowlead answered slow",
			"r-1-0 slow called",
			"r slowlead cancelled why not",
		}
		if diff := cmp.Diff(want, stored(t, got)[:4]); diff != "" {
			t.Errorf("the first events (-want +got):\n%s", diff)
		}
		if last := describe(got[len(got)-1]); last != "r slowlead concluded failed" {
			t.Errorf("the last event is %s, want r slowlead concluded failed", last)
		}
	})
}

// TestFollowMalformed: a malformed message has no event, and later messages
// have theirs.
func TestFollowMalformed(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		tree := h.submit("slow", "x", "")
		time.Sleep(time.Second)
		r := h.conn.Space().Run(h.agent("slow"), tree, subjects.Root)
		for _, m := range []bus.Message{
			{Subject: r.Reply(1, 0), Body: []byte(`{"status":`)},
			{Subject: r.Reply(1, 1), Body: []byte(`{"status":"perhaps"}`)},
			{Subject: r.Reply(1, 2), Body: []byte(`{"status":"completed","agent":"NO.BODY"}`)},
			{Subject: r.Reply(1, 3), Body: []byte(`{"status":"completed","agent":"echo"}`)},
		} {
			if _, err := h.conn.Write(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var got []client.Event
		if err := h.Follow(ctx, tree, func(e client.Event) { got = append(got, e) }); err == nil {
			t.Error("Follow returned before the tree had ended")
		}
		if diff := cmp.Diff([]string{"r slow called", "r-1-3 echo replied completed"}, stored(t, got)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if err := h.Cancel(t.Context(), tree, subjects.Root, ""); err != nil {
			t.Fatal(err)
		}
		if o, err := h.Wait(t.Context(), tree); err != nil || o.Kind != run.KindCancelled {
			t.Errorf("got %+v, %v; want cancelled", o, err)
		}
	})
}

// TestCallWithoutADeadline: the server's clock is two hours ahead of this
// machine's. The event of a call without a deadline has a zero deadline.
func TestCallWithoutADeadline(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.stepAt, h.stepBy = time.Now(), 2*time.Hour
		if err := h.conn.Clocks.Measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		tree := client.TreeID("T")
		h.write(h.conn.Space().Run(h.agent("echo"), tree, subjects.Root).Call(), `{"task":"x"}`)
		ctx, stop := context.WithCancel(t.Context())
		called := false
		_ = h.Follow(ctx, tree, func(e client.Event) {
			called = called || e.Kind == client.Called
			if !e.Deadline.IsZero() {
				t.Errorf("deadline %v, want none", e.Deadline)
			}
			stop()
		})
		if !called {
			t.Error("no event of the call")
		}
	})
}
