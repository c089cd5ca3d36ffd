package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// answer has the server store its answers to requests for a read under some
// subjects, as a user that may only read can: the last message of the subject
// of, and the state of the stream.
func (h *harness) answer(of string, to ...string) {
	h.t.Helper()
	nc, _ := h.conn.NATS()
	for _, subject := range to {
		before, err := h.conn.ReadByScan(h.t.Context(), subject, 0)
		if err != nil {
			h.t.Fatal(err)
		}
		for api, request := range map[string]string{
			"DIRECT.GET.AXE_RUNS": `{"last_by_subj":"` + of + `"}`, "STREAM.INFO.AXE_RUNS": "",
		} {
			if err := nc.PublishRequest("$JS.API."+api, subject, []byte(request)); err != nil {
				h.t.Fatal(err)
			}
		}
		for n := len(before); n < len(before)+2; time.Sleep(time.Millisecond) {
			ms, err := h.conn.ReadByScan(h.t.Context(), subject, 0)
			if err != nil {
				h.t.Fatal(err)
			}
			n = len(ms)
		}
	}
}

// TestAnswersToAQueuedTask: an answer of the server under a subject of a task
// that no worker has taken is no outcome and no cancel message.
func TestAnswersToAQueuedTask(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		space := h.conn.Space()
		other := space.Result(h.agent("lead"), client.TreeID("other"))
		h.write(other, `{"status":"completed","result":"evil"}`)
		tree := h.submit("echo", "x", "")
		r := space.Run(h.agent("echo"), tree, subjects.Root)
		h.answer(other, space.Result(h.agent("bad"), tree), r.Cancel())
		if queued, err := h.Queued(t.Context(), tree); !queued || err != nil {
			t.Errorf("queued: %t, %v; want true", queued, err)
		}
		if err := h.Cancel(t.Context(), tree, subjects.Root, "enough"); err != nil {
			t.Errorf("cancel: %v", err)
		}
		h.startWorker()
		h.answers(tree, "enough")
		cancelled := 0
		err := h.Follow(t.Context(), tree, func(e client.Event) {
			if e.Kind == client.Cancelled {
				cancelled++
			}
		})
		if err != nil || cancelled != 1 {
			t.Errorf("%d cancel messages, %v; want the one of a person", cancelled, err)
		}
	})
}

// TestAnswersAreNoMessages: answers of the server under the subjects of a tree
// at work are no call, no outcome, no cancel message and no dead letter.
func TestAnswersAreNoMessages(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		space := h.conn.Space()
		h.startWorker()
		done := h.submit("echo", "y", "")
		h.answers(done, "echo: y")
		// The server drops an answer that repeats the id or the fence
		// of a worker's message. These have none.
		result := space.Result(h.agent("lead"), client.TreeID("other"))
		h.write(result, `{"status":"completed","agent":"lead","result":"evil"}`)
		tool := space.Run(h.agent("lead"), client.TreeID("tool"), subjects.Root).Reply(1, 0)
		h.write(tool, `{"status":"completed","tool":"write_artifact","artifacts":[{"name":"evil.md"}]}`)

		tree := h.submit("slowlead", "x", "")
		time.Sleep(time.Minute) // a worker asks the child's model
		root := space.Run(h.agent("slowlead"), tree, subjects.Root)
		h.answer(result, root.Result(), root.Cancel(), root.Dead(), root.Call())
		h.answer(tool, root.Reply(1, 0))

		stats, err := client.ReadStatistics(t.Context(), h.Client, time.Time{})
		if err != nil || len(stats.Agents) != 2 || stats.Agents[0].Runs+stats.Agents[1].Runs != 2 {
			t.Errorf("statistics: %+v, %v; want a run of echo and one of lead", stats.Agents, err)
		}
		if letters, err := h.DeadLetters(t.Context()); err != nil || len(letters) > 0 {
			t.Errorf("dead letters: %+v, %v; want none", letters, err)
		}
		if artifacts, err := h.Artifacts(t.Context(), tree); err != nil || len(artifacts) > 0 {
			t.Errorf("artifacts: %+v, %v; want none", artifacts, err)
		}
		page, err := h.Trees(t.Context(), client.TreeQuery{All: true, N: 20})
		if err != nil || len(page.Trees) != 3 {
			t.Errorf("%d trees, %v; want 3", len(page.Trees), err)
		}
		s, err := h.Snapshot(t.Context(), tree)
		if err != nil {
			t.Fatal(err)
		}
		if state := s.State(subjects.Root); len(state.Turns) != 1 {
			t.Errorf("the root has %d turns, want 1", len(state.Turns))
		}
		if _, err := client.Forget(t.Context(), h.Client, tree); !errors.Is(err, client.ErrAtWork) {
			t.Errorf("forget: %v, want %v", err, client.ErrAtWork)
		}
		if err := h.Interrupt(t.Context(), tree, subjects.Root); err != nil {
			t.Errorf("interrupt: %v", err)
		}
		if err := h.Cancel(t.Context(), tree, subjects.Root, "enough"); err != nil {
			t.Errorf("cancel: %v", err)
		}
		o, err := h.Wait(t.Context(), tree)
		if err != nil || o.Kind != run.KindCancelled {
			t.Errorf("got %+v, %v; want a cancelled tree", o, err)
		}
	})
}

// TestForgetAwaitsAnsweredRuns: a run is at work below a root that has ended. An
// answer of the server under its reply subject is no outcome, so the tree is
// not removed.
func TestForgetAwaitsAnsweredRuns(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		root := h.conn.Space().Run(h.agent("lead"), client.TreeID("lone"), subjects.Root)
		child := root
		child.Path = subjects.Root.Child(1, 0)
		for r, reply := range map[subjects.Run]string{root: root.Result(), child: root.Reply(1, 0)} {
			deadline := subjects.FormatDeadline(time.Now().Add(time.Hour))
			header := [][2]string{{subjects.HeaderReply, reply}, {subjects.HeaderDeadline, deadline}}
			if _, err := h.conn.Write(t.Context(), bus.Message{Subject: r.Call(), Header: header}); err != nil {
				t.Fatal(err)
			}
		}
		h.write(root.Result(), `{"status":"completed","agent":"lead","result":"done"}`)
		h.answer(root.Result(), root.Reply(1, 0))
		if _, err := client.Forget(t.Context(), h.Client, root.Tree); !errors.Is(err, client.ErrAtWork) {
			t.Errorf("forget: %v, want %v", err, client.ErrAtWork)
		}
		h.write(root.Reply(1, 0), `{"status":"completed","agent":"lead","result":"done"}`)
		if _, err := client.Forget(t.Context(), h.Client, root.Tree); err != nil {
			t.Errorf("forget after the outcome: %v, want no error", err)
		}
	})
}
