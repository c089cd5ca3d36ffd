package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
)

// TestTimeout: a tree ends at its timeout.
func TestTimeout(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		tree, err := h.Submit(t.Context(), client.Task{Agent: h.agent("slow"), Text: "x", Timeout: 30 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		o, err := h.Wait(t.Context(), tree)
		if err != nil || o.Kind != run.KindTimeout {
			t.Errorf("got %+v, %v; want a timeout", o, err)
		}
		if took := time.Since(begin); took < 29*time.Second || took > 35*time.Second {
			t.Errorf("the outcome took %v, want 29s to 35s", took)
		}
	})
}

// TestWaitEndsWithItsContext: Wait returns the cause of its context while a
// task waits for a worker. Queued reports whether the task still waits.
func TestWaitEndsWithItsContext(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		tree := h.submit("echo", "x", "")
		if queued, err := h.Queued(t.Context(), tree); err != nil || !queued {
			t.Errorf("before a worker starts: queued %t, %v; want true", queued, err)
		}
		why := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, why)
		defer cancel()
		if _, err := h.Wait(ctx, tree); !errors.Is(err, why) {
			t.Errorf("got %v, want %v", err, why)
		}
		h.startWorker()
		h.answers(tree, "echo: x")
		if queued, err := h.Queued(t.Context(), tree); err != nil || queued {
			t.Errorf("after the outcome: queued %t, %v; want false", queued, err)
		}
	})
}

// TestFirstOutcomeCounts: two outcomes of a root are stored. A client returns
// the first.
func TestFirstOutcomeCounts(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		tree := h.submit("echo", "x", "")
		for _, text := range []string{"first", "second"} {
			m := bus.Message{
				Subject: h.conn.Space().Result(h.agent("echo"), tree),
				Body:    []byte(`{"status":"completed","result":"` + text + `"}`),
			}
			if _, err := h.conn.Write(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			h.answers(tree, "first")
		}
	})
}

// TestMalformedOutcome: a malformed outcome ends the wait with an error.
func TestMalformedOutcome(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		tree := h.submit("echo", "x", "")
		m := bus.Message{Subject: h.conn.Space().Result(h.agent("echo"), tree), Body: []byte(`{"status":"perhaps"}`)}
		if _, err := h.conn.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if o, err := h.Wait(t.Context(), tree); err == nil || !strings.Contains(err.Error(), "perhaps") {
			t.Errorf("got %+v, %v; want an error with the status perhaps", o, err)
		}
	})
}
