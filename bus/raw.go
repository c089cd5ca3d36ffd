package bus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Raw is durable request and reply with nothing around it, on a stream of its
// own: two stored messages, one delivery, one acknowledgement. It is what there
// is to compare runs with.
type Raw struct {
	conn *Conn
	mu   sync.Mutex
	wait map[string]chan []byte
	sub  *nats.Subscription
}

// Raw is the client's side, or the server's. The stream is made if it is not
// there, and republished as that of runs is.
func (c *Conn) Raw(ctx context.Context, replicas int) (*Raw, error) {
	r := &Raw{conn: c, wait: map[string]chan []byte{}}
	_, err := c.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: r.name(), Description: "Raw requests and replies of a benchmark", Subjects: []string{r.subject(">")}, AllowDirect: true, Replicas: max(1, replicas),
		RePublish: &jetstream.RePublish{Source: r.subject(">"), Destination: c.cfg.Space.Live(r.subject(">"))},
	})
	if err != nil {
		return nil, wrapStream(r.name(), err)
	}
	if r.sub, err = c.nc.Subscribe(c.cfg.Space.Live(r.subject("reply.>")), r.answered); err != nil {
		return nil, fmt.Errorf("raw: %w", err)
	}
	return r, nil
}

func (r *Raw) name() string { return r.conn.cfg.Space.Name("RAW") }

// subject is below the runs' prefix with a token of its own kind behind it,
// which no stream of runs takes.
func (r *Raw) subject(tail string) string { return r.conn.cfg.Space.Prefix() + ".raw." + tail }

func (r *Raw) answered(m *nats.Msg) {
	id := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	r.mu.Lock()
	c := r.wait[id]
	delete(r.wait, id)
	r.mu.Unlock()
	if c != nil {
		c <- m.Data
	}
}

// Ask publishes a request to a group of servers and waits until its reply is
// stored.
func (r *Raw) Ask(ctx context.Context, group string, body []byte) ([]byte, error) {
	id, c := NewID(), make(chan []byte, 1)
	r.mu.Lock()
	r.wait[id] = c
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.wait, id)
		r.mu.Unlock()
	}()
	if _, err := r.conn.js.Publish(ctx, r.subject("call."+group+"."+id), body); err != nil {
		return nil, fmt.Errorf("raw request: %w", err)
	}
	select {
	case answer := <-c:
		return answer, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Serve answers the requests to a group, so many at once, until ctx ends.
// Pulled, each of its goroutines asks for one message when it is free, as a
// worker does with its slots; ahead, the client library keeps 500 in hand,
// which costs less and keeps them from other servers.
func (r *Raw) Serve(
	ctx context.Context,
	group string,
	atOnce int,
	ahead bool,
	answer func(context.Context, []byte) ([]byte, error),
) error {
	c, err := r.conn.js.CreateOrUpdateConsumer(ctx, r.name(), jetstream.ConsumerConfig{
		Durable: "raw_" + group, FilterSubject: r.subject("call." + group + ".*"), AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: -1,
	})
	if err != nil {
		return fmt.Errorf("raw consumer %s: %w", group, err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	serve := func(m jetstream.Msg) {
		body, err := answer(ctx, m.Data())
		if err == nil {
			_, err = r.conn.js.Publish(ctx, strings.Replace(m.Subject(), ".raw.call.", ".raw.reply.", 1), body)
		}
		if err != nil {
			_ = m.Nak()
			return
		}
		_ = m.Ack()
	}
	if ahead {
		room := make(chan struct{}, atOnce)
		consuming, err := c.Consume(func(m jetstream.Msg) {
			room <- struct{}{}
			wg.Go(func() {
				defer func() { <-room }()
				serve(m)
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
	for range atOnce {
		wg.Go(func() {
			for ctx.Err() == nil {
				if m, err := c.Next(jetstream.FetchContext(ctx)); err == nil {
					serve(m)
				}
			}
		})
	}
	<-ctx.Done()
	return nil
}

// Volume is what the streams of runs hold.
type Volume struct {
	// the number of messages that were ever stored: the sequence of the
	// last one of each stream
	Last      uint64
	Bytes     uint64 // of those that are there
	Consumers int
}

// Volume is what the streams of runs hold, by their leaders' counts; the error
// is ErrNoStream without one.
func (c *Conn) Volume(ctx context.Context) (v Volume, err error) {
	for _, name := range c.known.Load().streams {
		s, err := c.js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return Volume{}, ErrNoStream
		}
		if err != nil {
			return Volume{}, wrapStream(name, err)
		}
		state := s.CachedInfo().State
		v.Last += state.LastSeq
		v.Bytes += state.Bytes
		v.Consumers += state.Consumers
	}
	return v, nil
}

// Drop deletes all streams and buckets of the connection's space, with what is
// in them.
func (c *Conn) Drop(ctx context.Context) error {
	sp := c.cfg.Space
	var failed []error
	others := []string{
		sp.Name("SUBMIT"),
		sp.Name("RAW"),
		"KV_" + sp.Name("AGENTS"),
		"KV_" + sp.Name("LIMITS"),
		"KV_" + sp.Name("MEMORY"),
		"OBJ_" + sp.Name("OBJECTS"),
	}
	for _, stream := range append(others, c.known.Load().streams...) {
		if err := c.js.DeleteStream(ctx, stream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			failed = append(failed, wrapStream(stream, err))
		}
	}
	return errors.Join(failed...)
}
