package bus

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestWriteWithPatience: a write with a patience of a second fails within two
// seconds on a full stream, with the server's words. A write without patience
// goes on until its context ends.
func TestWriteWithPatience(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Conn) {
		t.Helper()
		editT(t, c, "AXE_SUBMIT", func(s *jetstream.StreamConfig) {
			s.MaxMsgs = 1
			s.Discard = jetstream.DiscardNew
		})
		if _, err := c.Write(t.Context(), submissionT(t, c, "first")); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err := c.Write(t.Context(), submissionT(t, c, "second"))
		if took := time.Since(began); took < time.Second || took > 2*time.Second {
			t.Errorf("the write took %v, want 1s to 2s", took)
		}
		if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "maximum messages exceeded") {
			t.Errorf("got %v, want %v with the server's words", err, ErrNoRoom)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		m := submissionT(t, c, "third")
		m.Patience = 0
		if _, err := c.Write(ctx, m); errors.Is(err, ErrNoRoom) || ctx.Err() == nil {
			t.Errorf("got %v, want a write that goes on until its context ends", err)
		}
	})
}
