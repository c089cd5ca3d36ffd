package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/subjects"
)

// TestSubmitAndWait: Wait returns the outcome of a tree, at once if the tree
// has ended.
func TestSubmitAndWait(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		tree := h.submit("echo", "hello", "")
		h.answers(tree, "echo: hello")
		begin := time.Now()
		h.answers(tree, "echo: hello")
		if waited := time.Since(begin); waited > 100*time.Millisecond {
			t.Errorf("a stored outcome took %v, want at most 100ms", waited)
		}
	})
}

// TestOneTreePerID: several submissions with one id make one tree, before a
// worker takes the first and after the tree has ended. Another agent's task is
// refused under the same id.
func TestOneTreePerID(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		first := h.submit("lead", "a", "2026-11-21 nightly")
		if again := h.submit("lead", "a", "2026-11-21 nightly"); again != first {
			t.Errorf("the second submission made tree %s, want %s", again, first)
		}
		h.startWorker()
		o, err := h.Wait(t.Context(), first)
		if err != nil || o.Status != run.StatusCompleted {
			t.Fatalf("got %+v, %v; want completed", o, err)
		}
		h.submit("lead", "a", "2026-11-21 nightly")
		time.Sleep(time.Minute)
		h.answers(first, o.Result)
		calls := 0
		ms, err := h.conn.ReadByScan(t.Context(), h.conn.Space().TreeOf(first), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			if strings.HasSuffix(m.Subject, ".call") {
				calls++
			}
		}
		if calls != 3 {
			t.Errorf("%d calls, want 3: those of the root and of two children", calls)
		}
		_, err = h.Submit(t.Context(), client.Task{Agent: h.agent("echo"), ID: first})
		if !errors.Is(err, client.ErrIDTaken) {
			t.Errorf("the id of another agent's tree: got %v, want %v", err, client.ErrIDTaken)
		}
	})
}

// TestIDReused: a submission with the id of another task is refused, while the
// first waits for a worker, while it runs, and when it has ended. A task with
// another timeout is the same task.
func TestIDReused(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	withHarness(t, func(h *harness) {
		t := h.t
		budget := subjects.Budget{Turns: 7}
		first := client.Task{Agent: h.agent("lead"), ID: client.TreeID("nightly"), Text: "a", Budget: budget}
		submit := func(task client.Task) error {
			_, err := h.Submit(t.Context(), task)
			return err
		}
		otherText := first
		otherText.Text = "b"
		otherBudget := first
		otherBudget.Budget.Turns = 8
		otherTimeout := first
		otherTimeout.Timeout = time.Hour
		check := func() {
			t.Helper()
			const advice = "ago, with %s: wait for that tree, or take another id"
			for change, task := range map[string]client.Task{"another text": otherText, "other limits": otherBudget} {
				err := submit(task)
				want := fmt.Sprintf(advice, change)
				if !errors.Is(err, client.ErrIDReused) || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("%s: got %v, want %v that ends with %q", change, err, client.ErrIDReused, want)
				}
			}
			for _, task := range []client.Task{first, otherTimeout} {
				if err := submit(task); err != nil {
					t.Errorf("the same task: got %v, want no error", err)
				}
			}
		}
		if err := submit(first); err != nil {
			t.Fatal(err)
		}
		check()
		h.startWorker()
		time.Sleep(2 * time.Second)
		if queued, err := h.Queued(t.Context(), first.ID); queued || err != nil {
			t.Fatalf("two seconds after a worker started: queued %t, %v; want false", queued, err)
		}
		check()
		if _, err := h.Wait(t.Context(), first.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute) // the server knows an id for 30 s
		check()
	})
}

// TestTreeID: a key that is a valid id is its own id. Any other key has an id
// of 32 digits, which is the same at every call.
func TestTreeID(t *testing.T) {
	// An empty value stands for an id of 32 digits.
	for key, want := range map[string]string{
		"abc123":         "abc123",
		"2026-11-21":     "",
		"":               "",
		"a b":            "",
		"\xff":           "",
		"é":              "",
		"with.dots":      "",
		"axe.submit.*.>": "",
	} {
		got := client.TreeID(key)
		if want != "" && got.String() != want {
			t.Errorf("%q: %s, want %s", key, got, want)
		}
		if want == "" && len(got.String()) != 32 {
			t.Errorf("%q: %s, want 32 digits", key, got)
		}
		if got != client.TreeID(key) {
			t.Errorf("%q: a second call returned another id", key)
		}
	}
	if client.TreeID("a.b") == client.TreeID("a-b") {
		t.Error("the keys a.b and a-b have the same id, want two ids")
	}
}

// FuzzTreeID: every key has a valid id.
func FuzzTreeID(f *testing.F) {
	f.Add("nightly 2026-11-21")
	f.Fuzz(func(t *testing.T, key string) {
		tree := client.TreeID(key)
		if parsed, err := subjects.ParseTree(tree.String()); err != nil || parsed != tree {
			t.Errorf("%q: id %q parses to %q, %v", key, tree, parsed, err)
		}
	})
}

// TestUnknownAgent: the tree of a task for an agent that no worker serves ends
// with the kind unknown_agent.
func TestUnknownAgent(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		tree := h.submit("nobody", "x", "")
		o, err := h.Wait(t.Context(), tree)
		if err != nil || o.Kind != run.KindUnknownAgent {
			t.Errorf("got %+v, %v; want unknown_agent", o, err)
		}
	})
}

// TestNoStreams: on a server without streams a client returns ErrNoStream.
func TestNoStreams(t *testing.T) {
	c := client.New(testbus.Empty(t))
	agent, _ := subjects.ParseAgent("echo")
	if _, err := c.Submit(t.Context(), client.Task{Agent: agent}); !errors.Is(err, bus.ErrNoStream) {
		t.Errorf("submit: got %v, want %v", err, bus.ErrNoStream)
	}
	if _, err := c.Wait(t.Context(), client.TreeID("x")); !errors.Is(err, bus.ErrNoStream) {
		t.Errorf("wait: got %v, want %v", err, bus.ErrNoStream)
	}
	if err := c.Cancel(t.Context(), client.TreeID("x"), subjects.Root, ""); !errors.Is(err, bus.ErrNoStream) {
		t.Errorf("cancel: got %v, want %v", err, bus.ErrNoStream)
	}
}

// TestSubmitWithoutRoom: a task is refused at once if no new tree may begin, or
// if it may take longer than the bus keeps its messages. A second submission of
// a tree needs no room.
func TestSubmitWithoutRoom(t *testing.T) {
	server, err := bus.Serve(bus.ServerConfig{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conn, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{Server: server}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := client.New(conn)
	agent, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	task := client.Task{Agent: agent, Text: "x", Timeout: time.Hour}
	expect := func(p bus.Provision, want error) {
		t.Helper()
		if err := conn.Provision(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Submit(t.Context(), task); !errors.Is(err, want) {
			t.Errorf("%+v: got %v, want %v", p, err, want)
		}
	}
	expect(bus.Provision{MaxAge: 75 * time.Minute}, nil)
	expect(bus.Provision{MaxBytes: 1}, bus.ErrNoRoom)
	there := client.TreeID("there")
	call := conn.Space().Run(agent, there, subjects.Root).Call()
	if _, err := conn.Write(t.Context(), bus.Message{Subject: call, Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	again := task
	again.ID = there
	if _, err := c.Submit(t.Context(), again); err != nil {
		t.Errorf("a tree that is there: %v", err)
	}
	expect(bus.Provision{MaxBytes: -1}, nil)
	expect(bus.Provision{MaxAge: 74 * time.Minute}, client.ErrKeptTooShort)
}
