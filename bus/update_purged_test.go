package bus

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestUpdateOfPurgedSubject: the message that was read is removed before the
// write, by its age or by an operator. Then the change is made from nothing.
// Update does not wait for a message that cannot come.
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
				t.Error(err)
			}
		}
		return increment(last)
	})
	if err != nil {
		t.Errorf("%v, after %d calls", err, calls)
	}
}
