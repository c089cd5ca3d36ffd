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

// decided are the events of a tree that ends which are about its root, but for
// what is told live only.
func (s *stage) decided(tree subjects.Tree) []string {
	s.t.Helper()
	var lines []string
	err := s.Follow(s.t.Context(), tree, func(e client.Event) {
		if e.Run.Path.IsRoot() && e.Seq > 0 {
			lines = append(lines, strings.TrimSpace(strings.TrimPrefix(tell(e), "r "+e.Run.Agent.String()+" ")))
		}
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return lines
}

// TestDecisions: what becomes of a turn that a supervisor looks at is told,
// whoever decides.
func TestDecisions(t *testing.T) {
	for _, test := range []struct {
		name, task string
		word       *run.Approval
		want       []string
	}{
		{"by the supervisor", "fine", nil, []string{"approved echo by watcher"}},
		{"a person approves", "x", &run.Approval{Approve: true, By: "ann"}, []string{"held why?", "approved echo by ann"}},
		{"a person denies", "x", &run.Approval{Reason: "not on a Sunday"}, []string{"held why?", "denied by user not on a Sunday"}},
		{"nobody", "x", nil, []string{"held why?", "timed out 1", "denied by  no person decided in time"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.hire()
				tree := s.submit("guarded", test.task, "")
				time.Sleep(10 * time.Second)
				if test.word != nil {
					if err := s.Decide(s.t.Context(), tree, subjects.Root, *test.word); err != nil {
						s.t.Fatal(err)
					}
				}
				want := slices.Concat([]string{"called", "answered echo"}, test.want, []string{"concluded completed"})
				if diff := cmp.Diff(want, s.decided(tree)); diff != "" {
					s.t.Error(diff)
				}
			})
		})
	}
}

// TestInterruptEvents: an interrupt is told, and not that the turn which it
// withholds was denied; what a run cannot look for it is given, and that counts
// as taken when it answers with that for good.
func TestInterruptEvents(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		tree := s.submit("guarded", "x", "")
		time.Sleep(10 * time.Second)
		s.send(tree, "r", "too early to wake it")
		if err := s.Interrupt(t.Context(), tree, subjects.Root); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if diff := cmp.Diff([]string{"user: too early to wake it"}, s.mailbox(tree, "r")); diff != "" {
			t.Error(diff)
		}
		s.send(tree, "r", "go on")
		want := []string{"called", "answered echo", "held why?", "mail", "interrupted", "mail", "concluded completed"}
		if diff := cmp.Diff(want, s.decided(tree)); diff != "" {
			t.Error(diff)
		}
		r := s.conn.Space().Run(s.agent("guarded"), tree, subjects.Root)
		late, err := subjects.ParseKey("late")
		if err != nil {
			t.Fatal(err)
		}
		s.write(r.Mail(late), `{"from":"user","text":"late"}`)
		if diff := cmp.Diff([]string{"user: too early to wake it, taken", "user: go on, taken", "user: late"}, s.mailbox(tree, "r")); diff != "" {
			t.Error(diff)
		}
	})
}

// TestInterruptTimesOut: a wait that an interrupt has ended did not time out.
func TestInterruptTimesOut(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		tree := s.submit("slowlead", "x", "")
		time.Sleep(time.Second)
		r := s.conn.Space().Run(s.agent("slowlead"), tree, subjects.Root)
		key, err := subjects.ParseKey("k")
		if err != nil {
			t.Fatal(err)
		}
		s.write(r.Interrupt(key), "{}")
		s.write(r.Fired(1), "{}")
		time.Sleep(time.Minute)
		s.send(tree, "r", "go on")
		got := s.decided(tree)
		if !slices.Contains(got, "timed out 1 interrupted") {
			t.Errorf("%q", got)
		}
	})
}
