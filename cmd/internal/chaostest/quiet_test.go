package chaostest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/internal/pause"
)

// awaitQuiet waits until no message on the bus needs any more work. It returns
// an error if that takes more than a minute. The caller calls it when all trees
// have ended.
func (h *harness) awaitQuiet(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	nc, err := h.stock("monitor")
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for left := ""; ; {
		now, err := pending(ctx, js)
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("a minute after the last outcome something is still under way: %s", left)
		case err == nil && now == "":
			return nil
		case err == nil:
			left = now
		default:
			left = err.Error()
		}
		if pause.For(ctx, 100*time.Millisecond) != nil {
			continue
		}
	}
}

// pending describes the consumers with messages to deliver or to acknowledge.
// It returns "" without any.
func pending(ctx context.Context, js jetstream.JetStream) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var left []string
	streams := js.ListStreams(ctx, jetstream.WithStreamListSubject("axe.>"))
	found := 0
	for info := range streams.Info() {
		name := info.Config.Name
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return "", err
		}
		found++
		all := stream.ListConsumers(ctx)
		for c := range all.Info() {
			if n := c.NumPending + uint64(c.NumAckPending); n > 0 &&
				c.Config.AckPolicy == jetstream.AckExplicitPolicy {
				left = append(
					left,
					fmt.Sprintf(
						"%s of %s: %d to deliver, %d to acknowledge",
						c.Name,
						name,
						c.NumPending,
						c.NumAckPending,
					),
				)
			}
		}
		if err := all.Err(); err != nil {
			return "", err
		}
	}
	if err := streams.Err(); err != nil {
		return "", err
	}
	if found < 2 {
		return fmt.Sprintf("only %d streams are found", found), nil
	}
	return strings.Join(left, "; "), nil
}
