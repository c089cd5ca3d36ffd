package bus

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestUpdateOfPurgedSubject: the message that Update has read is removed before
// its write. Then Update calls change again, without a message, and stores the
// result. It does not wait for a message that cannot come.
func TestUpdateOfPurgedSubject(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	subject := tallyT(t)
	if err := c.Update(t.Context(), subject, increment); err != nil {
		t.Fatal(err)
	}
	s, err := c.js.Stream(t.Context(), c.streams.Load().names[0])
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	calls := 0
	err = c.Update(ctx, subject, func(last []byte) []byte {
		if calls++; calls == 1 {
			if err := s.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
				t.Errorf("purge: %v", err)
			}
		}
		return increment(last)
	})
	if err != nil {
		t.Fatalf("got %v after %d calls of change, want no error", err, calls)
	}
	if got := lastT(t, c, subject); got != "1" {
		t.Errorf("stored %s, want 1", got)
	}
}
