// Package busbench holds the functions of the bus that only a benchmark uses:
// raw durable request and reply to compare runs with, and the volume and the
// removal of all streams.
package busbench

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/bus"
)

// Exchange is durable request and reply on a stream of its own, with nothing
// around it: two stored messages, one delivery, one acknowledgement. A run is
// compared with it.
type Exchange struct {
	js     jetstream.JetStream
	stream string
	prefix string // of its subjects

	replies sync.Map // of chan []byte, by the id of the request
}

// NewExchange opens an exchange for its clients and its servers. It makes the
// stream if it is not there, and republishes it as the streams of runs are.
func NewExchange(ctx context.Context, conn *bus.Conn, replicas int) (*Exchange, error) {
	nc, js := conn.NATS()
	space := conn.Space()
	x := &Exchange{
		js:     js,
		stream: space.Name("RAW"),
		// No stream of runs takes subjects with a token of this kind.
		prefix: space.Prefix() + ".raw.",
	}
	live := func(filter string) string { return space.Live(x.prefix + filter) }
	_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: x.stream, Description: "Raw requests and replies of a benchmark",
		Subjects: []string{x.prefix + ">"}, AllowDirect: true, Replicas: max(1, replicas),
		RePublish: &jetstream.RePublish{Source: x.prefix + ">", Destination: live(">")},
	})
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", x.stream, err)
	}
	if _, err := nc.Subscribe(live("reply.>"), x.replied); err != nil {
		return nil, fmt.Errorf("raw replies: %w", err)
	}
	return x, nil
}

func (x *Exchange) replied(m *nats.Msg) {
	id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	if c, ok := x.replies.LoadAndDelete(id); ok {
		c.(chan []byte) <- m.Data
	}
}

// Ask publishes a request to a group of servers and waits until its reply is
// stored.
func (x *Exchange) Ask(ctx context.Context, group string, body []byte) ([]byte, error) {
	id, c := bus.NewID(), make(chan []byte, 1)
	x.replies.Store(id, c)
	defer x.replies.Delete(id)
	if _, err := x.js.Publish(ctx, x.prefix+"call."+group+"."+id, body); err != nil {
		return nil, fmt.Errorf("raw request: %w", err)
	}
	select {
	case reply := <-c:
		return reply, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Handler makes the reply to a request.
type Handler func(ctx context.Context, body []byte) ([]byte, error)

// Serve answers the requests to a group until ctx ends, n at once. Each of its
// n goroutines asks for one message when it is free, as a worker does with its
// slots.
func (x *Exchange) Serve(ctx context.Context, group string, n int, reply Handler) error {
	c, err := x.consumer(ctx, group)
	if err != nil {
		return err
	}
	var serving sync.WaitGroup
	for range n {
		serving.Go(func() {
			for ctx.Err() == nil {
				if m, err := c.Next(jetstream.FetchContext(ctx)); err == nil {
					x.serve(ctx, m, reply)
				}
			}
		})
	}
	serving.Wait()
	return nil
}

// ServeAhead answers as Serve does, with 500 messages in hand, which is the
// client library's default. That costs less, and keeps the messages from other
// servers.
func (x *Exchange) ServeAhead(ctx context.Context, group string, n int, reply Handler) error {
	c, err := x.consumer(ctx, group)
	if err != nil {
		return err
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	room := make(chan struct{}, n)
	consuming, err := c.Consume(func(m jetstream.Msg) {
		room <- struct{}{}
		serving.Go(func() {
			defer func() { <-room }()
			x.serve(ctx, m, reply)
		})
	})
	if err != nil {
		return fmt.Errorf("raw consumer %s: %w", group, err)
	}
	<-ctx.Done()
	consuming.Stop()
	<-consuming.Closed()
	return nil
}

func (x *Exchange) consumer(ctx context.Context, group string) (jetstream.Consumer, error) {
	c, err := x.js.CreateOrUpdateConsumer(ctx, x.stream, jetstream.ConsumerConfig{
		Durable: "raw_" + group, FilterSubject: x.prefix + "call." + group + ".*",
		AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1,
	})
	if err != nil {
		return nil, fmt.Errorf("raw consumer %s: %w", group, err)
	}
	return c, nil
}

// serve stores the reply to one request, and acknowledges the request.
func (x *Exchange) serve(ctx context.Context, m jetstream.Msg, reply Handler) {
	body, err := reply(ctx, m.Data())
	if err == nil {
		_, err = x.js.Publish(ctx, strings.Replace(m.Subject(), ".raw.call.", ".raw.reply.", 1), body)
	}
	if err != nil {
		_ = m.Nak()
		return
	}
	_ = m.Ack()
}
