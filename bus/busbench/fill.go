package busbench

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/bus"
)

// fillTimeout bounds a wait for acknowledgements.
const fillTimeout = time.Minute

// Fill stores messages in their order, with thousands of them in flight. It
// sets their headers and bodies alone: a message with a fence or a timer is an
// error. Stored is called with the number of messages after each thousand.
func Fill(ctx context.Context, conn *bus.Conn, messages iter.Seq[bus.Message], stored func(n int)) error {
	_, js := conn.NATS()
	n := 0
	for m := range messages {
		if m.Fence.Subject != "" || m.Timer.Target != "" {
			return fmt.Errorf("fill: %s has a fence or a timer", m.Subject)
		}
		msg := &nats.Msg{Subject: m.Subject, Header: nats.Header{}, Data: m.Body}
		for _, kv := range m.Header {
			msg.Header.Set(kv[0], kv[1])
		}
		if _, err := js.PublishMsgAsync(msg, jetstream.WithStallWait(fillTimeout)); err != nil {
			return fmt.Errorf("fill: %s: %w", m.Subject, err)
		}
		if n++; n%1000 == 0 {
			stored(n)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	select {
	case <-js.PublishAsyncComplete():
		return nil
	case <-time.After(fillTimeout):
		return fmt.Errorf("fill: %d messages are not acknowledged", js.PublishAsyncPending())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
