package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// follower delivers the messages of one stream that a filter matches, in stream
// order. It has a consumer without a name, and makes another one when that is
// gone or a message is missing.
//
// It replaces the client library's ordered consumer. To that, a message without
// a body and with a header Status of its writer is a word of the server: it
// stops, or makes one consumer after the other for ever. Here only a message
// without a reply subject is one of the server.
type follower struct {
	conn           *Conn
	stream, filter string
	fn             func(Stored)
	// caught is called when fn has seen the messages that were stored when
	// the follower began.
	caught func()
	// seq is the sequence of the last message that fn has seen.
	seq uint64
}

const (
	// followBatch is the number of messages of one request.
	followBatch = 500
	// followExpiry is the longest time for which a request stands.
	followExpiry = 30 * time.Second
	// followBeat is the time between two signs of life of a consumer
	// without messages.
	followBeat = followExpiry / 2
	// followMemory is the time for which the server keeps a consumer that
	// is not used.
	followMemory = 5 * time.Minute
)

// run delivers until ctx ends, or until the first consumer cannot be made.
func (f *follower) run(ctx context.Context) error {
	for first := true; ; first = false {
		err := f.consume(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if first && err != nil {
			return fmt.Errorf("follow %s: %w", f.filter, err)
		}
		if err := f.conn.inflight.pause(ctx, watchRetryDelay); err != nil {
			return err
		}
	}
}

// consume delivers until the consumer is of no use any more. The error is that
// of its creation.
func (f *follower) consume(ctx context.Context) error {
	c := f.conn
	up := c.inflight.next()
	cfg := jetstream.ConsumerConfig{
		Name: NewID(), FilterSubject: f.filter, AckPolicy: jetstream.AckNonePolicy,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: f.seq + 1,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: followMemory,
	}
	made, err := ask(ctx, c, func(ctx context.Context) (jetstream.Consumer, error) {
		return c.js.CreateOrUpdateConsumer(ctx, f.stream, cfg)
	})
	if err != nil {
		return err
	}
	if made.CachedInfo().NumPending == 0 {
		f.caught()
	}
	msgs, inbox := make(chan *nats.Msg, 2*followBatch), c.nc.NewInbox()
	sub, err := c.nc.ChanSubscribe(inbox+".*", msgs)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	lost := time.NewTimer(0)
	defer lost.Stop()
	for asked, open, last := 0, 0, uint64(0); ; {
		if open == 0 {
			asked, open = asked+1, followBatch
			if f.request(cfg.Name, inbox+"."+strconv.Itoa(asked)) != nil {
				return nil // there is no connection
			}
		}
		lost.Reset(2 * followBeat)
		select {
		case <-ctx.Done():
			return nil
		case <-up: // the request may be lost
			return nil
		case <-lost.C:
			return nil
		case m := <-msgs:
			if m.Reply == "" {
				switch over(m) {
				case requestStands:
				case consumerGone:
					return nil
				case requestOver:
					if m.Subject == inbox+"."+strconv.Itoa(asked) {
						open = 0
					}
				}
				continue
			}
			_, md, err := messageOf(m)
			if err != nil || md.Sequence.Consumer != last+1 {
				return nil // the next consumer brings it
			}
			last, f.seq, open = md.Sequence.Consumer, md.Sequence.Stream, open-1
			f.fn(Stored{
				Subject: m.Subject, Seq: f.seq, Time: c.Clocks.stamp(md.Timestamp), Header: m.Header,
				Body: m.Data, answer: hasPlace(m.Header),
			})
			if md.NumPending == 0 {
				f.caught()
			}
		}
	}
}

// after is the state of a request and its consumer after a word of the server.
type after int

const (
	requestStands after = iota
	requestOver
	consumerGone
)

// over reads a message of the server about a request.
func over(m *nats.Msg) after {
	why := m.Header.Get("Description")
	switch status := m.Header.Get("Status"); {
	case status == "100":
		return requestStands
	case status == "408", status == "404", strings.Contains(why, "Batch Completed"):
		return requestOver
	}
	return consumerGone
}

// request asks a consumer for messages.
func (f *follower) request(name, reply string) error {
	body, err := json.Marshal(pullRequest{Batch: followBatch, Expires: followExpiry, Beat: followBeat})
	if err != nil {
		return err
	}
	next := f.conn.reader.api + "CONSUMER.MSG.NEXT." + f.stream + "." + name
	return f.conn.nc.PublishRequest(next, reply, body)
}
