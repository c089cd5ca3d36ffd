package client_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// TestHostileDeadLetter: two submissions have an invalid agent name, and one of
// them refers to a body of a terabyte. Both are listed as dead letters.
func TestHostileDeadLetter(t *testing.T) {
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		for subject, header := range map[string][][2]string{
			"axe.submit.NoBody.a": nil,
			"axe.submit.NoBody.b": {{"Axe-Object", "x"}, {"Axe-Size", "1099511627776"}},
		} {
			m := bus.Message{Subject: subject, Header: header, Body: []byte("x")}
			if _, err := h.conn.Write(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Second)
		if letters, err := h.DeadLetters(t.Context()); err != nil || len(letters) != 2 {
			t.Errorf("%d dead letters, %v; want 2", len(letters), err)
		}
	})
}

// TestDeadLetters: a call without headers, and with a task of 9 MiB, becomes a
// dead letter that holds the whole message. The original call has the task.
func TestDeadLetters(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	withHarness(t, func(h *harness) {
		t := h.t
		h.startWorker()
		text := strings.Repeat("x", 9<<20)
		r := h.conn.Space().Run(h.agent("echo"), client.TreeID("T1"), subjects.Root)
		body, err := json.Marshal(run.Input{Task: text})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.conn.Write(t.Context(), bus.Message{Subject: r.Call(), Body: body}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		letters, err := h.DeadLetters(t.Context())
		if err != nil || len(letters) != 1 {
			t.Fatalf("%d dead letters, %v; want 1", len(letters), err)
		}
		l := letters[0]
		if l.Run != r || l.Subject != r.Call() || !bytes.Equal(l.Body, body) ||
			!strings.HasPrefix(l.Reason, "malformed call: ") {
			t.Errorf("dead letter of %s: %s, %d bytes, reason %q; want the malformed call of %s with %d bytes",
				l.Run, l.Subject, len(l.Body), l.Reason, r, len(body))
		}
		if in, _, ok, err := h.OriginalCall(t.Context(), l); !ok || err != nil || in.Task != text {
			t.Errorf("original task of %d bytes, found %t, %v; want %d bytes", len(in.Task), ok, err, len(text))
		}
		if retried, err := h.Retried(t.Context(), l); retried || err != nil {
			t.Errorf("retried %t, %v; want false", retried, err)
		}
		if _, err := h.DeadLetter(t.Context(), l.ID+1); !errors.Is(err, client.ErrUnknownDeadLetter) {
			t.Errorf("another id: got %v, want %v", err, client.ErrUnknownDeadLetter)
		}
	})
}
