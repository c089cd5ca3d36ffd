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

// path parses the path of a run.
func (h *harness) path(text string) subjects.Path {
	h.t.Helper()
	p, err := subjects.ParsePath(text)
	if err != nil {
		h.t.Fatal(err)
	}
	return p
}

// send sends a message to a run, from the default sender, user.
func (h *harness) send(tree subjects.Tree, path, text string) {
	h.t.Helper()
	if err := h.Send(h.t.Context(), tree, h.path(path), "", text); err != nil {
		h.t.Fatal(err)
	}
}

// mailbox describes the received messages of a run, one a line, and checks that
// they are in stream order.
func (h *harness) mailbox(tree subjects.Tree, path string) []string {
	h.t.Helper()
	ms, err := h.Mailbox(h.t.Context(), tree, h.path(path))
	if err != nil {
		h.t.Fatal(err)
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
			h.t.Errorf("message %d at %s comes after message %d at %s", m.Seq, m.Time, last.Seq, last.Time)
		}
		last = m
		lines = append(lines, line)
	}
	return lines
}

// TestMail: a person's message wakes an idle fork. A mailbox lists the messages
// of a run, and says which of them the run has taken. A message that is stored
// after the run's end is not taken, and a malformed message is not listed.
func TestMail(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		tree := h.submit("pair", "x", "")
		// the fork is idle, and the root waits for it again
		time.Sleep(time.Minute)
		if got := h.mailbox(tree, "r-1-0"); got != nil {
			t.Errorf("mailbox of the fork before the first message: got %q, want none", got)
		}
		h.send(tree, "r-1-0", "more")
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{"user: more, taken"}, h.mailbox(tree, "r-1-0")); diff != "" {
			t.Errorf("mailbox of the fork (-want +got):\n%s", diff)
		}
		if err := h.Send(t.Context(), tree, h.path("r-1-0"), "ann", "and more"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"user: more, taken", "ann: and more"}, h.mailbox(tree, "r-1-0")); diff != "" {
			t.Errorf("mailbox of the fork (-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute)
		if err := h.Cancel(t.Context(), tree, h.path("r-1-0"), "enough"); err != nil {
			t.Fatal(err)
		}
		h.answers(tree, "dead")
		want := []string{
			"r-1-0 is idle, taken",
			"r-1-0 is idle, taken",
			"r-1-0 is idle, taken",
			"r-1-0 ended: enough, taken",
		}
		if diff := cmp.Diff(want, h.mailbox(tree, "r")); diff != "" {
			t.Errorf("mailbox of the root (-want +got):\n%s", diff)
		}
		r := h.conn.Space().Run(h.agent("pair"), tree, subjects.Root)
		late, err := subjects.ParseKey("late")
		if err != nil {
			t.Fatal(err)
		}
		h.write(r.Mail(late), `{"from":"user","text":"late"}`)
		h.write(r.Mail(subjects.Root.IdleKey(9)), `nonsense`)
		if diff := cmp.Diff(append(want, "user: late"), h.mailbox(tree, "r")); diff != "" {
			t.Errorf("mailbox after the end (-want +got):\n%s", diff)
		}
		root, err := h.RootState(t.Context(), tree)
		if err != nil || len(root.Turns) != 5 || len(root.Inbox) != 0 && root.Inbox[0].Text != "late" {
			t.Errorf("%d turns, inbox %+v, %v; want 5 turns, and at most the late message",
				len(root.Turns), root.Inbox, err)
		}
	})
}

// TestMailEvents: a follower gets an event for each received message, and for
// each time that a fork becomes idle.
func TestMailEvents(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		tree := h.submit("pair", "x", "")
		time.Sleep(time.Minute)
		h.send(tree, "r-1-0", "more")
		time.Sleep(time.Minute)
		if err := h.Cancel(t.Context(), tree, subjects.Root, "enough"); err != nil {
			t.Fatal(err)
		}
		var got []client.Event
		left, err := h.WaitEnded(t.Context(), tree, subjects.Root, func(e client.Event) { got = append(got, e) })
		if err != nil || left != 0 {
			t.Fatalf("%d runs abandoned, %v; want none", left, err)
		}
		want := []string{
			"r pair called",
			"r pair answered fork",
			"r-1-0 pair called",
			"r-1-0 pair idle 1 one: do it",
			"r pair mail r-1-0 true",
			"r pair answered wait",
			"r pair answered wait",
			"r-1-0 pair mail user false",
			"r-1-0 pair answered check_mail",
			"r-1-0 pair idle 3 server: broken",
			"r pair mail r-1-0 true",
			"r pair answered wait",
		}
		var lines []string
		for _, e := range got {
			line := fmt.Sprintf("%s %s %s", e.Run.Path, e.Run.Agent, e.Kind)
			switch e.Kind { //nolint:exhaustive // the kind is enough for the rest
			case client.Answered:
				line += " " + string(e.Entry.Calls[0].Op)
			case client.BecameIdle:
				line += fmt.Sprintf(" %d %s%s", e.Turn, e.Outcome.Result, e.Outcome.Error)
			case client.MailReceived:
				line += fmt.Sprintf(" %s %t", e.Mail.From, e.Mail.Idle)
			}
			if e.Kind == client.BecameIdle && e.Worker != "w1" {
				t.Errorf("%s: worker %q, want w1", line, e.Worker)
			}
			if e.Seq > 0 && len(lines) < len(want) {
				lines = append(lines, line)
			}
		}
		// The messages of a fork and of its parent are stored in any
		// order.
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(lines))); diff != "" {
			t.Errorf("events, sorted (-want +got):\n%s", diff)
		}
	})
}

// TestSendErrors: a message that its run would not read is refused. Each reason
// has its own error.
func TestSendErrors(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		tree := h.submit("pair", "x", "")
		refused := func(tree subjects.Tree, path, from, text string, want error, says string) {
			t.Helper()
			err := h.Send(t.Context(), tree, h.path(path), from, text)
			if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), says) {
				t.Errorf("got %v, want %v with %q", err, want, says)
			}
		}
		refused(tree, "r", "", "x", client.ErrNotStarted, "tree "+tree.String()+": not started")
		if got := h.mailbox(tree, "r"); got != nil {
			t.Errorf("mailbox of a run that has not started: got %q, want none", got)
		}
		unserved := h.conn.Space().Run(h.agent("unserved"), client.TreeID("unserved"), subjects.Root)
		h.write(unserved.Call(), "{}")
		if err := h.Cancel(t.Context(), unserved.Tree, subjects.Root, ""); err != nil {
			t.Fatal(err)
		}
		refused(unserved.Tree, "r", "", "x", client.ErrCancelled, "tree unserved")
		h.startWorker()
		time.Sleep(time.Minute)
		refused(client.TreeID("nobody"), "r", "", "x", client.ErrUnknownTree, "nobody")
		refused(tree, "r-7-0", "", "x", client.ErrUnknownRun, "r-7-0")
		refused(tree, "r", "", " \n", client.ErrInvalidMessage, "empty")
		refused(tree, "r", "", "\xff", client.ErrInvalidMessage, "not UTF-8")
		refused(tree, "r", "\xff", "x", client.ErrInvalidMessage, "not UTF-8")
		refused(tree, "r", "r-1-0", "x", client.ErrInvalidMessage, "is the path of a run")
		refused(tree, "r", strings.Repeat("x", 513), "x", client.ErrInvalidMessage, "must be 1 to 512 bytes")
		if err := h.Cancel(t.Context(), tree, h.path("r-1-0"), ""); err != nil {
			t.Fatal(err)
		}
		h.answers(tree, "dead")
		refused(tree, "r-1-0", "", "x", client.ErrEnded, "run r-1-0 of tree")
		refused(tree, "r", "", "x", client.ErrEnded, "tree ")
		if _, err := h.Mailbox(t.Context(), tree, h.path("r-7-0")); !errors.Is(err, client.ErrUnknownRun) {
			t.Errorf("mailbox of an unknown run: got %v, want %v", err, client.ErrUnknownRun)
		}
		_, err := h.Mailbox(t.Context(), client.TreeID("nobody"), subjects.Root)
		if !errors.Is(err, client.ErrUnknownTree) {
			t.Errorf("mailbox of an unknown tree: got %v, want %v", err, client.ErrUnknownTree)
		}
	})
}

// TestSendInTheFirstTurn: a run in its first turn reads no mail if its agent has
// no tools. Each kind of tool is one: sub-agents, tools and MCP servers.
func TestSendInTheFirstTurn(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		tree := h.submit("slow", "x", "")
		time.Sleep(time.Second)
		dir, err := h.conn.Directory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for offered, want := range map[string]error{
			``: client.ErrNoMail, `,"sub_agents":["echo"]`: nil, `,"tools":[{"name":"read_file"}]`: nil,
			`,"mcp_servers":["files"]`: nil,
		} {
			card := `{"name":"slow","style":["call"]` + offered + `}`
			if _, err := dir.Put(t.Context(), "slow", []byte(card)); err != nil {
				t.Fatal(err)
			}
			if err := h.Send(t.Context(), tree, subjects.Root, "", "hello"); !errors.Is(err, want) {
				t.Errorf("the card %s: got %v, want %v", card, err, want)
			}
		}
	})
}
