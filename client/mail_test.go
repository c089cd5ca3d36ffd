package client_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

func (s *stage) path(text string) subjects.Path {
	s.t.Helper()
	p, err := subjects.ParsePath(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// send writes to a run as a person.
func (s *stage) send(tree subjects.Tree, path, text string) {
	s.t.Helper()
	if err := s.Send(s.t.Context(), tree, s.path(path), "", text); err != nil {
		s.t.Fatal(err)
	}
}

// mailbox is what a run has got, a line each.
func (s *stage) mailbox(tree subjects.Tree, path string) []string {
	s.t.Helper()
	ms, err := s.Mailbox(s.t.Context(), tree, s.path(path))
	if err != nil {
		s.t.Fatal(err)
	}
	var lines []string
	last := client.ReceivedMail{}
	for _, m := range ms {
		line := fmt.Sprintf("%s: %s", m.From, m.Text)
		if m.Idle {
			line = m.From + " is idle"
		}
		if m.Outcome != nil {
			line = fmt.Sprintf("%s ended: %s", m.From, m.Outcome.Error)
		}
		if m.Taken {
			line += ", taken"
		}
		if m.Seq <= last.Seq || m.Time.Before(last.Time) || m.Time.IsZero() {
			s.t.Errorf("%d at %s after %d at %s", m.Seq, m.Time, last.Seq, last.Time)
		}
		last = m
		lines = append(lines, line)
	}
	return lines
}

// TestMail: a person wakes an idle fork, and a run that waits; what each has
// got is known, and whether it has taken it.
func TestMail(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		tree := s.submit("pair", "x", "")
		// the fork is idle, and the root waits for it again
		time.Sleep(time.Minute)
		if got := s.mailbox(tree, "r-1-0"); got != nil {
			t.Errorf("nobody has written: %q", got)
		}
		s.send(tree, "r-1-0", "more")
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"user: more, taken"}, s.mailbox(tree, "r-1-0")); diff != "" {
			t.Error(diff)
		}
		if err := s.Send(t.Context(), tree, s.path("r-1-0"), "ann", "and more"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"user: more, taken", "ann: and more"}, s.mailbox(tree, "r-1-0")); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Minute)
		if err := s.Cancel(t.Context(), tree, s.path("r-1-0"), "enough"); err != nil {
			t.Fatal(err)
		}
		s.answers(tree, "dead")
		want := []string{
			"r-1-0 is idle, taken",
			"r-1-0 is idle, taken",
			"r-1-0 is idle, taken",
			"r-1-0 ended: enough, taken",
		}
		if diff := cmp.Diff(want, s.mailbox(tree, "r")); diff != "" {
			t.Error(diff)
		}
		r := s.conn.Space().Run(s.agent("pair"), tree, subjects.Root)
		late, err := subjects.ParseKey("late")
		if err != nil {
			t.Fatal(err)
		}
		s.write(r.Mail(late), `{"from":"user","text":"late"}`)
		s.write(r.Mail(subjects.Root.IdleKey(9)), `nonsense`)
		if diff := cmp.Diff(append(want, "user: late"), s.mailbox(tree, "r")); diff != "" {
			t.Error(diff)
		}
		root, err := s.RootState(t.Context(), tree)
		if err != nil || len(root.Turns) != 5 || len(root.Inbox) != 0 && root.Inbox[0].Text != "late" {
			t.Errorf("%d turns, %+v, %v", len(root.Turns), root.Inbox, err)
		}
	})
}

// TestMailEvents: that a run is idle, and that it was written to, are told.
func TestMailEvents(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		s.hire()
		tree := s.submit("pair", "x", "")
		time.Sleep(time.Minute)
		s.send(tree, "r-1-0", "more")
		time.Sleep(time.Minute)
		if err := s.Cancel(t.Context(), tree, subjects.Root, "enough"); err != nil {
			t.Fatal(err)
		}
		var got []client.Event
		left, err := s.WaitEnded(t.Context(), tree, subjects.Root, func(e client.Event) { got = append(got, e) })
		if err != nil || left != 0 {
			t.Fatal(left, err)
		}
		want := []string{
			"r pair called", "r pair answered fork", "r-1-0 pair called", "r-1-0 pair idle 1 one: do it", "r pair mail r-1-0 true",
			"r pair answered wait", "r pair answered wait", "r-1-0 pair mail user false", "r-1-0 pair answered check_mail", "r-1-0 pair idle 3 server: broken",
			"r pair mail r-1-0 true", "r pair answered wait",
		}
		var lines []string
		for _, e := range got {
			line := fmt.Sprintf("%s %s %s", e.Run.Path, e.Run.Agent, e.Kind)
			switch e.Kind { //nolint:exhaustive // the rest is told enough
			case client.Answered:
				line += " " + string(e.Entry.Calls[0].Op)
			case client.BecameIdle:
				line += fmt.Sprintf(" %d %s%s", e.Turn, e.Outcome.Result, e.Outcome.Error)
			case client.MailReceived:
				line += fmt.Sprintf(" %s %t", e.Mail.From, e.Mail.Idle)
			}
			if e.Kind == client.BecameIdle && e.Worker != "w1" {
				t.Errorf("%s: by %q", line, e.Worker)
			}
			if e.Seq > 0 && len(lines) < len(want) {
				lines = append(lines, line)
			}
		}
		// What the fork says and what its parent does are stored beside
		// each other.
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(lines))); diff != "" {
			t.Error(diff)
		}
	})
}

// TestSendErrors: each reason for which nobody would read a message has its own
// error.
func TestSendErrors(t *testing.T) {
	onStage(t, func(s *stage) {
		t := s.t
		tree := s.submit("pair", "x", "")
		wants := func(tree subjects.Tree, path, from, text string, want error, says string) {
			t.Helper()
			err := s.Send(t.Context(), tree, s.path(path), from, text)
			if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), says) {
				t.Errorf("%v, want %v with %q", err, want, says)
			}
		}
		wants(tree, "r", "", "x", client.ErrNotStarted, "tree "+tree.String()+": not started")
		if got := s.mailbox(tree, "r"); got != nil {
			t.Errorf("%q", got)
		}
		unserved := s.conn.Space().Run(s.agent("unserved"), client.TreeID("unserved"), subjects.Root)
		s.write(unserved.Call(), "{}")
		if err := s.Cancel(t.Context(), unserved.Tree, subjects.Root, ""); err != nil {
			t.Fatal(err)
		}
		wants(unserved.Tree, "r", "", "x", client.ErrCancelled, "tree unserved")
		s.hire()
		time.Sleep(time.Minute)
		wants(client.TreeID("nobody"), "r", "", "x", client.ErrUnknownTree, "nobody")
		wants(tree, "r-7-0", "", "x", client.ErrUnknownRun, "r-7-0")
		wants(tree, "r", "", " \n", client.ErrInvalidMessage, "empty")
		wants(tree, "r", "", "\xff", client.ErrInvalidMessage, "not UTF-8")
		wants(tree, "r", "\xff", "x", client.ErrInvalidMessage, "not UTF-8")
		wants(tree, "r", "r-1-0", "x", client.ErrInvalidMessage, "is the path of a run")
		wants(tree, "r", strings.Repeat("x", 513), "x", client.ErrInvalidMessage, "at most 512 bytes")
		if err := s.Cancel(t.Context(), tree, s.path("r-1-0"), ""); err != nil {
			t.Fatal(err)
		}
		s.answers(tree, "dead")
		wants(tree, "r-1-0", "", "x", client.ErrEnded, "run r-1-0 of tree")
		wants(tree, "r", "", "x", client.ErrEnded, "tree ")
		if _, err := s.Mailbox(t.Context(), tree, s.path("r-7-0")); !errors.Is(err, client.ErrUnknownRun) {
			t.Error(err)
		}
		if _, err := s.Mailbox(t.Context(), client.TreeID("nobody"), subjects.Root); !errors.Is(
			err,
			client.ErrUnknownTree,
		) {
			t.Error(err)
		}
	})
}
