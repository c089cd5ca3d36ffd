package client_test

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/subjects"
)

// interceptedClient returns a client that sends through a proxy. The
// proxy calls atQueue before each read of the queued submissions, and atRoot
// before each read of a root. N counts the reads of that kind, from 1. End
// stores the tree's outcome.
func interceptedClient(t *testing.T, tree subjects.Tree, atQueue, atRoot func(n int32, end func())) *client.Client {
	t.Helper()
	url := testbus.Listen(t)
	worker := testbus.Dial(t, url)
	echo, err := subjects.ParseAgent("echo")
	if err != nil {
		t.Fatal(err)
	}
	end := func() {
		m := bus.Message{
			Subject: worker.Space().Result(echo, tree),
			Body:    []byte(`{"status":"completed","result":"y","agent":"echo"}`),
		}
		if _, err := worker.Write(t.Context(), m); err != nil {
			t.Error(err)
		}
	}
	var queue, root atomic.Int32
	return client.New(testbus.Dial(t, bustest.Proxy(t, url, func(piece []byte) error {
		switch {
		case bytes.Contains(piece, []byte("MSG.GET.AXE_SUBMIT")):
			atQueue(queue.Add(1), end)
		case bytes.Contains(piece, []byte("multi_last")):
			atRoot(root.Add(1), end)
		}
		return nil
	})))
}

// TestFindDuringCall: the submission of a retried dead letter leaves the queue
// between two reads of one lookup. The lookup finds its tree.
func TestFindDuringCall(t *testing.T) {
	t.Parallel()
	l := client.DeadLetter{ID: 7, Time: time.Now()}
	c := interceptedClient(t, l.RetryTree(), func(_ int32, end func()) { end() }, func(int32, func()) {})
	if retried, err := c.Retried(t.Context(), l); !retried || err != nil {
		t.Errorf("retried %t, %v; want true", retried, err)
	}
}

// TestFindAfterSlowLookup: a search looks for a tree again and again for 2 s. A
// slow server makes the first lookup last longer. The search makes another
// lookup all the same.
func TestFindAfterSlowLookup(t *testing.T) {
	t.Parallel()
	tree := client.TreeID("late")
	c := interceptedClient(t, tree, func(n int32, _ func()) {
		if n == 1 {
			time.Sleep(2100 * time.Millisecond)
		}
	}, func(n int32, end func()) {
		if n == 3 { // a lookup reads the root twice
			end()
		}
	})
	if o, err := c.Wait(t.Context(), tree); err != nil || o.Result != "y" {
		t.Errorf("got %+v, %v; want the result y", o, err)
	}
}

// TestWaitAfterARefusal: a task for an agent that does not exist was refused. A
// second one has the same id and the right agent. It waits for a worker, and
// Wait returns its outcome.
func TestWaitAfterARefusal(t *testing.T) {
	t.Parallel()
	conn := testbus.Open(t)
	c, tree := client.New(conn), client.TreeID("order1")
	end := func(agent subjects.Agent, body string) {
		m := bus.Message{Subject: conn.Space().Result(agent, tree), Body: []byte(body)}
		if _, err := conn.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	ecko, err := subjects.ParseAgent("ecko")
	if err != nil {
		t.Fatal(err)
	}
	echo, err := subjects.ParseAgent("echo")
	if err != nil {
		t.Fatal(err)
	}
	end(ecko, `{"status":"failed","kind":"unknown_agent"}`)
	if queued, err := c.Queued(t.Context(), tree); queued || err != nil {
		t.Errorf("before the second task: queued %t, %v; want false", queued, err)
	}
	if _, err := c.Submit(t.Context(), client.Task{Agent: echo, ID: tree, Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if queued, err := c.Queued(t.Context(), tree); !queued || err != nil {
		t.Errorf("queued %t, %v; want true", queued, err)
	}
	end(echo, `{"status":"completed","result":"y"}`)
	if o, err := c.Wait(t.Context(), tree); err != nil || o.Result != "y" {
		t.Errorf("got %+v, %v; want the result y", o, err)
	}
}

// TestWaitWithoutSubmissions: the stream of submissions is missing. Wait
// returns the outcome of a tree without a call all the same. It does not say
// that a tree without an outcome is unknown.
func TestWaitWithoutSubmissions(t *testing.T) {
	t.Parallel()
	conn := testbus.Open(t)
	c, tree := client.New(conn), client.TreeID("order1")
	_, js := conn.NATS()
	if err := js.DeleteStream(t.Context(), "AXE_SUBMIT"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(t.Context(), tree); !errors.Is(err, bus.ErrNoStream) {
		t.Errorf("without an outcome: got %v, want %v", err, bus.ErrNoStream)
	}
	echo, err := subjects.ParseAgent("echo")
	if err != nil {
		t.Fatal(err)
	}
	m := bus.Message{Subject: conn.Space().Result(echo, tree), Body: []byte(`{"status":"completed","result":"y"}`)}
	if _, err := conn.Write(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if o, err := c.Wait(t.Context(), tree); err != nil || o.Result != "y" {
		t.Errorf("got %+v, %v; want the result y", o, err)
	}
}

// TestUnknownTree: Wait, Cancel and Follow return ErrUnknownTree for an id that
// has no tree. Wait returns it within seconds.
func TestUnknownTree(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		begin := time.Now()
		_, err := h.Wait(t.Context(), client.TreeID("nosuch"))
		if !errors.Is(err, client.ErrUnknownTree) || !strings.Contains(err.Error(), "nosuch") {
			t.Errorf("wait: got %v, want %v with the id", err, client.ErrUnknownTree)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Errorf("the wait took %v, want at most 5s", took)
		}
		err = h.Cancel(t.Context(), client.TreeID("nosuch"), subjects.Root, "")
		if !errors.Is(err, client.ErrUnknownTree) {
			t.Errorf("cancel: got %v, want %v", err, client.ErrUnknownTree)
		}
		if err := h.Follow(t.Context(), client.TreeID("nosuch"), nil); !errors.Is(err, client.ErrUnknownTree) {
			t.Errorf("follow: got %v, want %v", err, client.ErrUnknownTree)
		}
	})
}
