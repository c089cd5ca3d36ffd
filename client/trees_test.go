package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// listed lists trees, a line each: id, status, ended and called runs, turns.
func (h *harness) listed(q client.TreeQuery) (lines []string, last subjects.Tree) {
	h.t.Helper()
	page, err := h.Trees(h.t.Context(), q)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, t := range page.Trees {
		lines = append(lines, fmt.Sprintf("%s %s %d/%d %d", t.Root.Tree, t.Status, t.Done, t.Runs, t.Turns))
	}
	return lines, page.Last
}

// expectList checks the lines of listed for a query.
func (h *harness) expectList(q client.TreeQuery, want ...string) {
	h.t.Helper()
	got, _ := h.listed(q)
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("%+v (-want +got):\n%s", q, diff)
	}
}

// TestTrees: a list has the trees at work, the newest first, from the submission
// on. With All it has those that have ended too, and a submission that was
// refused. The queries narrow it.
func TestTrees(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		all := client.TreeQuery{All: true}
		h.expectList(all)
		h.submit("echo", "early", "early")
		h.expectList(client.TreeQuery{}, "early queued 0/0 0")
		h.expectList(client.TreeQuery{Agent: h.agent("slow")})

		h.startWorker()
		h.answers(client.TreeID("early"), "echo: early")
		h.submit("slow", "x", "second")
		time.Sleep(time.Second)
		h.submit("nosuch", "x", "refused")
		time.Sleep(time.Second)
		h.submit("lead", "words", "lead")
		h.answers(client.TreeID("lead"), "together: echo: words 1")
		h.submit("guarded", "pay", "guarded")
		time.Sleep(3 * time.Second)
		h.submit("slowlead", "x", "slowlead")
		time.Sleep(time.Second)
		h.expectList(client.TreeQuery{},
			"slowlead running 0/2 1", "guarded held 1/2 2", "second running 0/1 0")
		h.expectList(all, "slowlead running 0/2 1", "guarded held 1/2 2", "lead completed 3/3 4",
			"refused failed 0/0 0", "second running 0/1 0", "early completed 1/1 1")
		h.expectList(client.TreeQuery{Statuses: []client.TreeStatus{client.TreeHeld}}, "guarded held 1/2 2")
		h.expectList(client.TreeQuery{Statuses: []client.TreeStatus{client.TreeFailed, client.TreeHeld}},
			"guarded held 1/2 2", "refused failed 0/0 0")
		h.expectList(client.TreeQuery{Agent: h.agent("echo"), All: true}, "early completed 1/1 1")
		h.expectList(client.TreeQuery{Since: time.Now().Add(-2 * time.Second)}, "slowlead running 0/2 1")

		for _, q := range []client.TreeQuery{{N: 2, All: true}, {N: 1}} {
			whole, _ := h.listed(client.TreeQuery{All: q.All})
			var pages []string
			for {
				lines, last := h.listed(q)
				pages = append(pages, lines...)
				if q.Before = last; last.IsZero() {
					break
				}
			}
			if diff := cmp.Diff(whole, pages); diff != "" {
				t.Errorf("by pages of %d (-whole +pages):\n%s", q.N, diff)
			}
		}
	})
}

// TestTakenSubmission: a submission that is still on its stream is not listed as
// queued once it has a root.
func TestTakenSubmission(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.submit("echo", "x", "taken")
		h.expectList(client.TreeQuery{}, "taken queued 0/0 0")
		call := h.conn.Space().Run(h.agent("echo"), client.TreeID("taken"), subjects.Root).Call()
		if _, err := h.conn.Write(t.Context(), bus.Message{Subject: call, Body: []byte(`{"task":"x"}`)}); err != nil {
			t.Fatal(err)
		}
		h.expectList(client.TreeQuery{}, "taken waiting 0/1 0")
	})
}

// reasons returns the live events of a tree's snapshot, a line each.
func (h *harness) reasons(tree string) (lines []string) {
	h.t.Helper()
	s, err := h.Snapshot(h.t.Context(), client.TreeID(tree))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, e := range s.Events {
		if e.Live() {
			lines = append(lines, strings.TrimSpace(fmt.Sprint(e.Run.Path, " ", e.Kind, " ", e.Worker, " ", e.Reason)))
		}
	}
	return lines
}

// TestSnapshot: a snapshot has the events that a follower gets, and says which
// worker has a run in hand, or why none has.
func TestSnapshot(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		expect := func(tree string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, h.reasons(tree)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tree, diff)
			}
		}
		h.submit("slowlead", "x", "early")
		expect("early", "r stalled  no worker is there")
		drain := h.startWorker()
		time.Sleep(2 * time.Second)
		expect("early", "r-1-0 asking w1")

		h.submit("lead", "words", "lead")
		h.answers(client.TreeID("lead"), "together: echo: words 1")
		var followed, seen []string
		line := func(e client.Event) string {
			return fmt.Sprint(e.Seq, " ", e.Kind, " ", e.Run.Path, " ", e.State.Phase)
		}
		err := h.Follow(t.Context(), client.TreeID("lead"), func(e client.Event) {
			followed = append(followed, line(e))
		})
		if err != nil {
			t.Fatal(err)
		}
		s, err := h.Snapshot(t.Context(), client.TreeID("lead"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range s.Events {
			seen = append(seen, line(e))
		}
		if diff := cmp.Diff(followed, seen); diff != "" || len(seen) < 5 {
			t.Errorf("-follower +snapshot:\n%s", diff)
		}
		var runs []string
		for _, r := range s.Runs() {
			about := fmt.Sprintf("%s %s %s", r.Run.Path, r.Name(), r.Status())
			runs = append(runs, fmt.Sprintf("%s %d %s", about, r.Own.ModelCalls, r.Model))
		}
		want := []string{
			"r lead completed 2 script/lead", "r-1-0 echo completed 1 script/echo", "r-1-2 bad failed 1 script/bad",
		}
		if diff := cmp.Diff(want, runs); diff != "" {
			t.Errorf("runs (-want +got):\n%s", diff)
		}

		drain()
		time.Sleep(3 * time.Second)
		expect("early", "r-1-0 stalled  no worker serves slow since 3 s; workers that did: w1")
	})
}

// TestSlotsTaken: a run that waits for a slot says so, with the slots of the
// workers that serve its agent.
func TestSlotsTaken(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.slots = 2
		h.startWorker()
		for i := range 4 {
			h.submit("slow", "x", fmt.Sprint("t", i))
			time.Sleep(time.Second)
		}
		var got []string
		for i := range 4 {
			got = append(got, h.reasons(fmt.Sprint("t", i))...)
		}
		const full = "r stalled  waits for a slot: 1 worker serves slow, all 2 slots taken"
		if want := []string{"r asking w1", "r asking w1", full, full}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		h.expectList(client.TreeQuery{},
			"t3 waiting 0/1 0", "t2 waiting 0/1 0", "t1 running 0/1 0", "t0 running 0/1 0")
	})
}
