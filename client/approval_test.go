package client_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// rootEvents follows a tree to its end and returns the stored events of its
// root.
func (h *harness) rootEvents(tree subjects.Tree) []string {
	h.t.Helper()
	var lines []string
	err := h.Follow(h.t.Context(), tree, func(e client.Event) {
		if e.Run.Path.IsRoot() && e.Seq > 0 {
			lines = append(lines, strings.TrimSpace(strings.TrimPrefix(describe(e), "r "+e.Run.Agent.String()+" ")))
		}
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return lines
}

// TestDecisions: each decision on a reviewed turn is an event, whether the
// supervisor, a person or a timeout decides.
func TestDecisions(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	for _, test := range []struct {
		name, task string
		approval   *run.Approval
		want       []string
	}{
		{"the supervisor approves", "fine", nil, []string{"approved echo by watcher"}},
		{
			"a person approves", "x", &run.Approval{Approve: true, By: "ann"},
			[]string{"held why?", "approved echo by ann"},
		},
		{
			"a person denies", "x", &run.Approval{Reason: "not on a Sunday"},
			[]string{"held why?", "denied by user not on a Sunday"},
		},
		{
			"a timeout denies", "x", nil,
			[]string{"held why?", "timed out 1", "denied by  no person decided in time"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.startWorker()
				tree := h.submit("guarded", test.task, "")
				time.Sleep(10 * time.Second)
				if test.approval != nil {
					if err := h.Decide(h.t.Context(), tree, subjects.Root, *test.approval); err != nil {
						h.t.Fatal(err)
					}
				}
				want := slices.Concat([]string{"called", "answered echo"}, test.want, []string{"concluded completed"})
				if diff := cmp.Diff(want, h.rootEvents(tree)); diff != "" {
					h.t.Errorf("events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestInterruptEvents: an interrupt of a held turn is one event. The turn that
// it withholds has no event Denied. A run without mail tools reads its mail
// inline, and the mail counts as taken when the run ends with the answer to it.
func TestInterruptEvents(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		tree := h.submit("guarded", "x", "")
		time.Sleep(10 * time.Second) // the turn is held
		h.send(tree, "r", "too early to wake it")
		if err := h.Interrupt(t.Context(), tree, subjects.Root); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if diff := cmp.Diff([]string{"user: too early to wake it"}, h.mailbox(tree, "r")); diff != "" {
			t.Errorf("mailbox of the idle run (-want +got):\n%s", diff)
		}
		h.send(tree, "r", "go on")
		want := []string{"called", "answered echo", "held why?", "mail", "interrupted", "mail", "concluded completed"}
		if diff := cmp.Diff(want, h.rootEvents(tree)); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		r := h.conn.Space().Run(h.agent("guarded"), tree, subjects.Root)
		late, err := subjects.ParseKey("late")
		if err != nil {
			t.Fatal(err)
		}
		h.write(r.Mail(late), `{"from":"user","text":"late"}`)
		want = []string{"user: too early to wake it, taken", "user: go on, taken", "user: late"}
		if diff := cmp.Diff(want, h.mailbox(tree, "r")); diff != "" {
			t.Errorf("mailbox of the ended run (-want +got):\n%s", diff)
		}
	})
}

// TestInterruptTimesOut: a person interrupts a run that waits for a child, and
// the timer of its turn fires before the child has ended. The event of the
// timeout has the reason "interrupted".
func TestInterruptTimesOut(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		tree := h.submit("slowlead", "x", "")
		time.Sleep(time.Second)
		r := h.conn.Space().Run(h.agent("slowlead"), tree, subjects.Root)
		key, err := subjects.ParseKey("k")
		if err != nil {
			t.Fatal(err)
		}
		h.write(r.Interrupt(key), "{}")
		h.write(r.Fired(1), "{}")
		time.Sleep(time.Minute)
		h.send(tree, "r", "go on")
		got := h.rootEvents(tree)
		if want := "timed out 1 interrupted"; !slices.Contains(got, want) {
			t.Errorf("events %q, want %q among them", got, want)
		}
	})
}
