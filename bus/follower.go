package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
// It replaces the client library's ordered consumer, and its watch of a bucket.
// To those, a stored message without a body that has a header Status looks like
// a status message of the server. They stop, lose the message, or make one
// consumer after the other for ever. The follower tells the two apart: only a
// stored message has a reply subject for its acknowledgement.
type follower struct {
	conn           *Conn
	stream, filter string
	fn             func(Stored)
	// caught is called when fn has seen the messages that were stored when
	// the follower began. It may be called again.
	caught func()
	// bucket says that the stream is that of a bucket. The follower then
	// begins with the last message of each key, and ends when the bucket
	// was removed and made again.
	bucket bool
	// pushed lets the server send messages without a request. Permissions
	// that an earlier version made for the bucket of agents allow no
	// request.
	pushed bool
	// room is the number of messages that wait for fn; 0: followRoom. A
	// consumer that is pushed may have more under way. The client library
	// drops those.
	room int
	// seq is the sequence of the last message that fn has seen.
	seq uint64
}

const (
	// followBatch is the number of messages of one request.
	followBatch = 500
	// followRoom is the default of follower.room.
	followRoom = 16 * followBatch
	// followExpiry is the longest time for which a request stands.
	followExpiry = 30 * time.Second
	// followBeat is the time between two signs of life of a consumer
	// without messages, and pushBeat that of one that is pushed.
	followBeat = followExpiry / 2
	pushBeat   = 8 * time.Second
	// followMemory is the time for which the server keeps a consumer that
	// is not used, and pushMemory that of one to which it pushes.
	followMemory = 5 * time.Minute
	pushMemory   = 30 * time.Second
	// followRetryDelay is the pause before another consumer is made.
	followRetryDelay = 500 * time.Millisecond
)

// errReplaced ends a follower of a bucket. The sequences of the new bucket
// begin anew.
var errReplaced = errors.New("the bucket was removed and made again")

// run delivers until ctx ends, the first consumer cannot be made, or the bucket
// is another one.
func (f *follower) run(ctx context.Context) error {
	began := f.madeAt(ctx)
	for first := true; ; first = false {
		err := f.consume(ctx, began)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if first && err != nil || errors.Is(err, errReplaced) {
			return fmt.Errorf("follow %s: %w", f.filter, err)
		}
		if err := f.conn.inflight.pause(ctx, followRetryDelay); err != nil {
			return err
		}
	}
}

// madeAt returns the time at which the bucket was made. It is zero if no server
// says so, and for a stream that is no bucket.
func (f *follower) madeAt(ctx context.Context) time.Time {
	if !f.bucket {
		return time.Time{}
	}
	info, err := f.conn.Health.info(ctx, f.stream)
	if err != nil {
		return time.Time{}
	}
	return info.Created
}

// consume delivers until the consumer is of no use any more. The error is that
// of its creation, or errReplaced if the bucket was not made at the time began.
func (f *follower) consume(ctx context.Context, began time.Time) error {
	c := f.conn
	up := c.inflight.next()
	msgs, inbox := make(chan *nats.Msg, cmp.Or(f.room, followRoom)), c.nc.NewInbox()
	answers := inbox + ".*"
	if f.pushed {
		answers = inbox // a server does not see the interest of a wildcard
	}
	sub, err := c.nc.ChanSubscribe(answers, msgs)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	made, beat, err := f.create(ctx, inbox)
	if err != nil {
		return err
	}
	if f.bucket && f.seq > 0 {
		// The consumer goes on after a sequence of the bucket that f began
		// with. Only a bucket that is looked at after the creation is that
		// of the consumer.
		if now := f.madeAt(ctx); now.IsZero() {
			return nil
		} else if !now.Equal(began) {
			return errReplaced
		}
	}
	if made.NumPending == 0 {
		f.caught()
	}
	lost := time.NewTimer(0)
	defer lost.Stop()
	for asked, open, last := 0, 0, uint64(0); ; {
		if open == 0 && !f.pushed {
			asked, open = asked+1, followBatch
			if f.request(made.Name, inbox+"."+strconv.Itoa(asked)) != nil {
				return nil // there is no connection
			}
		}
		lost.Reset(2 * beat)
		select {
		case <-ctx.Done():
			return nil
		case <-up: // the request may be lost
			return nil
		case <-lost.C:
			return nil
		case m := <-msgs:
			if f.paced(m) {
				continue
			}
			if m.Reply == "" {
				if sent := m.Header.Get("Nats-Last-Consumer"); sent != "" && sent != strconv.FormatUint(last, 10) {
					return nil // the last messages were dropped
				}
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

// create makes a consumer that goes on after the last message that fn has seen.
// Beat is the time between two of its signs of life.
func (f *follower) create(
	ctx context.Context, inbox string,
) (made *jetstream.ConsumerInfo, beat time.Duration, _ error) {
	cfg := jetstream.ConsumerConfig{
		Name: NewID(), FilterSubject: f.filter, AckPolicy: jetstream.AckNonePolicy,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: f.seq + 1,
		MemoryStorage: true, Replicas: 1, InactiveThreshold: followMemory,
	}
	if f.bucket && f.seq == 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverLastPerSubjectPolicy, 0
	}
	js := f.conn.js
	if f.pushed {
		cfg.DeliverSubject, cfg.FlowControl, cfg.IdleHeartbeat = inbox, true, pushBeat
		cfg.InactiveThreshold = pushMemory
		c, err := ask(ctx, f.conn, func(ctx context.Context) (jetstream.PushConsumer, error) {
			return js.CreateOrUpdatePushConsumer(ctx, f.stream, cfg)
		})
		if err != nil {
			return nil, 0, err
		}
		return c.CachedInfo(), pushBeat, nil
	}
	c, err := ask(ctx, f.conn, func(ctx context.Context) (jetstream.Consumer, error) {
		return js.CreateOrUpdateConsumer(ctx, f.stream, cfg)
	})
	if err != nil {
		return nil, 0, err
	}
	return c.CachedInfo(), followBeat, nil
}

// paced reports whether a message is the question of a server, which pushes
// messages, whether this process keeps up. It answers that.
func (f *follower) paced(m *nats.Msg) bool {
	on := m.Reply
	if on == "" {
		on = m.Header.Get("Nats-Consumer-Stalled")
	}
	if !f.pushed || !strings.HasPrefix(on, "$JS.FC.") {
		return false
	}
	// Without a connection there is another consumer soon.
	_ = f.conn.nc.Publish(on, nil)
	return true
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
	body, _ := json.Marshal(pullRequest{Batch: followBatch, Expires: followExpiry, Beat: followBeat})
	next := f.conn.reader.api + "CONSUMER.MSG.NEXT." + f.stream + "." + name
	return f.conn.nc.PublishRequest(next, reply, body)
}
