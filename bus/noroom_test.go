package bus

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// TestWriteWithPatience: a write with patience fails within two seconds on a
// full stream, with the server's words. A write without it goes on.
func TestWriteWithPatience(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
		s, err := c.js.Stream(t.Context(), "AXE_SUBMIT")
		if err != nil {
			t.Fatal(err)
		}
		full := s.CachedInfo().Config
		full.MaxMsgs, full.Discard = 1, jetstream.DiscardNew
		if _, err := c.js.UpdateStream(t.Context(), full); err != nil {
			t.Fatal(err)
		}
		message := func(id string) Message {
			tree, err := subjects.ParseTree(id)
			if err != nil {
				t.Fatal(err)
			}
			return Message{Subject: c.Space().SubmissionOf(tree), Patience: time.Second}
		}
		if _, err := c.Write(t.Context(), message("first")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = c.Write(t.Context(), message("second"))
		if took := time.Since(began); took < time.Second || took > 2*time.Second {
			t.Errorf("the write took %v", took)
		}
		if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "maximum messages exceeded") {
			t.Errorf("%v, want the server's words", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		m := message("third")
		m.Patience = 0
		if _, err := c.Write(ctx, m); errors.Is(err, ErrNoRoom) || ctx.Err() == nil {
			t.Errorf("%v, want a write that goes on", err)
		}
	})
}
