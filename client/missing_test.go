package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/subjects"
)

// purge removes all messages of a stream, as an operator may.
func (h *harness) purge(stream string) {
	h.t.Helper()
	_, js := h.conn.NATS()
	s, err := js.Stream(h.t.Context(), stream)
	if err == nil {
		err = s.Purge(h.t.Context())
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// expectLost runs lose while Wait and Follow wait for a tree. It checks that
// both return the error want, at least after and at most 31 s more after the
// call of expectLost.
func (h *harness) expectLost(tree subjects.Tree, want error, after time.Duration, lose func()) {
	h.t.Helper()
	ctx, stop := context.WithTimeout(h.t.Context(), 2*time.Hour)
	defer stop()
	begun := time.Now()
	var waiting sync.WaitGroup
	check := func(name string, wait func() error) {
		waiting.Go(func() {
			err := wait()
			if took := time.Since(begun); !errors.Is(err, want) || took < after || took > after+31*time.Second {
				h.t.Errorf("%s returned %v after %v, want %v after %v to %v",
					name, err, took, want, after, after+31*time.Second)
			}
		})
	}
	check("Wait", func() error {
		_, err := h.Wait(ctx, tree)
		return err
	})
	check("Follow", func() error { return h.Follow(ctx, tree, func(client.Event) {}) })
	lose()
	waiting.Wait()
}

// TestRemovedTree: a client that waits for a tree learns that the tree's
// messages were removed.
func TestRemovedTree(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.startWorker()
		h.expectLost(h.submit("slow", "x", ""), client.ErrRemoved, time.Minute, func() {
			time.Sleep(time.Minute)
			h.purge("AXE_RUNS")
		})
	})
}

// TestTakenAndRemoved: a worker takes a task, and a person removes the tree a
// second later, before the client has looked for the tree again. The client
// knows that the task was taken: its error is ErrRemoved, not ErrNeverTaken.
func TestTakenAndRemoved(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.expectLost(h.submit("slow", "x", ""), client.ErrRemoved, time.Minute, func() {
			time.Sleep(time.Minute)
			h.startWorker()
			time.Sleep(time.Second)
			h.purge("AXE_RUNS")
		})
	})
}

// TestNeverTaken: a client that waits for a worker to take a task learns that
// the task was removed. The same id may be submitted again.
func TestNeverTaken(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.expectLost(h.submit("echo", "x", "order"), client.ErrNeverTaken, time.Minute, func() {
			time.Sleep(time.Minute)
			h.purge("AXE_SUBMIT")
		})
		h.startWorker()
		h.answers(h.submit("echo", "x", "order"), "echo: x")
	})
}

// TestOverdue: the only worker is gone, so no worker ends a tree at its
// deadline. A client stops waiting 15 s after the deadline, whether a worker
// has taken the task or not.
func TestOverdue(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	const timeout = 20 * time.Minute
	for _, taken := range []bool{true, false} {
		withHarness(t, func(h *harness) {
			t := h.t
			drain := h.startWorker()
			if !taken {
				drain()
			}
			tree, err := h.Submit(t.Context(), client.Task{Agent: h.agent("slow"), Text: "x", Timeout: timeout})
			if err != nil {
				t.Fatal(err)
			}
			h.expectLost(tree, client.ErrOverdue, timeout+15*time.Second, func() {
				time.Sleep(time.Minute)
				drain()
			})
			left, err := h.WaitEnded(t.Context(), tree, subjects.Root, func(client.Event) {})
			if taken && (left != 1 || err != nil) || !taken && !errors.Is(err, client.ErrOverdue) {
				t.Errorf("taken %t: %d runs abandoned, %v; want 1 if taken, and %v if not", taken, left, err,
					client.ErrOverdue)
			}
		})
	}
}

// TestOverdueThroughTheWorkers: a user without the right to read the streams
// waits for a tree that is past its deadline. It gives up as any other user.
func TestOverdueThroughTheWorkers(t *testing.T) {
	t.Parallel()
	allowed := func(subject string) *server.SubjectPermission {
		return &server.SubjectPermission{Allow: []string{subject}}
	}
	s := bustest.Serve(t, &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(),
		Users: []*server.User{{Username: "worker", Password: "x"}, {
			Username: "sub", Password: "x",
			Permissions: &server.Permissions{
				Publish: allowed("axe.read.>"), Subscribe: allowed(subjects.Inboxes("sub") + ".>"),
			},
		}},
	})
	dial := func(user string) *bus.Conn {
		conn, err := bus.Open(t.Context(), bus.Config{
			Dial: bus.Dial{URL: s.Addr().String(), User: user, Password: "x"},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		return conn
	}
	worker := dial("worker")
	if err := worker.Provision(t.Context(), bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	if err := bus.ServeTreeReads(t.Context(), worker); err != nil {
		t.Fatal(err)
	}
	echo, err := subjects.ParseAgent("echo")
	if err != nil {
		t.Fatal(err)
	}
	root := worker.Space().Run(echo, client.TreeID("late"), subjects.Root)
	head := subjects.Header{
		Tree: root.Tree, Path: root.Path, MaxDepth: 5, Deadline: time.Now().Add(-time.Minute),
		Reply: root.Space.Result(echo, root.Tree),
	}
	call := bus.Message{Subject: root.Call(), Header: head.Pairs(), Body: []byte(`{"task":"x"}`)}
	if _, err := worker.Write(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	c := client.New(dial("sub"))
	if _, err := c.Wait(t.Context(), root.Tree); !errors.Is(err, client.ErrOverdue) {
		t.Errorf("wait: got %v, want %v", err, client.ErrOverdue)
	}
	left, err := c.WaitEnded(t.Context(), root.Tree, subjects.Root, func(client.Event) {})
	if left != 1 || err != nil {
		t.Errorf("%d runs abandoned, %v; want 1 and no error", left, err)
	}
}

// TestOverdueAfterAStep: the server's clock is set forward while a tree works.
// The deadline moves with the clock, also for a client that begins to wait
// after the step, and for one that would remove the tree.
func TestOverdueAfterAStep(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	withHarness(t, func(h *harness) {
		t := h.t
		h.stepAt, h.stepBy = time.Now().Add(time.Minute), 2*time.Hour
		h.startWorker()
		tree, err := h.Submit(t.Context(), client.Task{Agent: h.agent("slow"), Text: "x", Timeout: 20 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		var waiting sync.WaitGroup
		for _, c := range []*client.Client{h.Client, client.New(h.connect())} {
			waiting.Go(func() {
				if o, err := c.Wait(t.Context(), tree); err != nil || o.Status != run.StatusCompleted {
					t.Errorf("got %+v, %v; want completed", o, err)
				}
			})
			time.Sleep(2 * time.Minute)
		}
		conn := h.connect()
		if err := conn.Clocks.Measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := client.Forget(t.Context(), client.New(conn), tree); !errors.Is(err, client.ErrAtWork) {
			t.Errorf("forget: got %v, want %v", err, client.ErrAtWork)
		}
		left, err := client.New(h.connect()).WaitEnded(t.Context(), tree, subjects.Root, func(client.Event) {})
		if left != 0 || err != nil {
			t.Errorf("%d runs abandoned, %v; want none", left, err)
		}
		waiting.Wait()
	})
}

// TestWaitReadsLittle: a client waits ten minutes for a tree. It reads the
// outcome every two seconds, and seldom looks whether the tree was removed.
func TestWaitReadsLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	withHarness(t, func(h *harness) {
		h.startWorker()
		tree := h.submit("slow", "x", "")
		conn := h.connect()
		if _, err := client.New(conn).Wait(h.t.Context(), tree); err != nil {
			h.t.Fatal(err)
		}
		// One read every two seconds for ten minutes, and 24 looks.
		if n := conn.Stats().Reads; n < 300 || n > 330 {
			h.t.Errorf("%d reads, want 300 to 330", n)
		}
	})
}
