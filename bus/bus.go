// Package bus is the only package that knows NATS. It moves bytes: fenced
// writes, reads of a run's messages, pulled deliveries whose lease it keeps
// alive, timers, large bodies, and the embedded server. What the bytes mean is
// decided above it, and which subjects they go to in package subjects.
//
// The invariant it keeps: a write is either stored at the place in its
// subject's history that the writer expected, or refused with a *ConflictError
// that names the message in its way.
//
//	conn, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{URL: "nats://127.0.0.1:4222"}})
//	seq, err := conn.Write(ctx, bus.Message{Subject: run.Log(), Body: b, Fence: bus.After(run.Log(), last)})
package bus

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/axebus/axe/subjects"
)

// Config says how to reach the bus and what to expect of it.
type Config struct {
	Dial  Dial
	Space subjects.Space
	// largest body in bytes, stored by reference or not; 0: 64 MiB
	MaxBody int64
	// how long a delivery may go without a sign of life; 0: 10 s
	AckWait time.Duration
	// messages of a stream that a read looks through at most for what is
	// new of one run; 0: 10,000
	ScanLimit uint64
	Log       *slog.Logger // nil: discard

	// Intercept is called before and after every write and acknowledgement,
	// and before every sign of life; its error becomes the operation's.
	// Tests use it to stop a worker at any step.
	Intercept func(Point) error
}

// Point is a step at which Config.Intercept is called.
type Point struct {
	Op string // "write", "ack", "nak", "beat" or "load"
	// of the message written, or of the delivery; of the object that is
	// loaded, its name
	Subject string
	After   bool
}

// DefaultMaxBody is the largest body unless configured otherwise.
const DefaultMaxBody = 64 << 20

// DefaultScanLimit is what a server looks through in less time than a read by subject
// takes (some 0.7 ms), unless configured otherwise.
const DefaultScanLimit = 10_000

// DefaultAckWait is the lease of a delivery unless configured otherwise.
const DefaultAckWait = 10 * time.Second

// Conn is a connection to the bus. It is safe for concurrent use.
type Conn struct {
	cfg    Config
	nc     *nats.Conn
	js     jetstream.JetStream
	log    *slog.Logger
	waits  *waits
	reader *reader
	leases leases
	opened time.Time // InStep counts from here

	known  atomic.Pointer[layout]
	marked atomic.Pointer[mark] // nil: there is none

	mu      sync.Mutex
	objects jetstream.ObjectStore
	warned  time.Time // of retried writes

	sending sync.RWMutex // Close has it alone
}

// Open connects; it waits for a server that is not there yet, until ctx ends.
// The caller closes the connection.
func Open(ctx context.Context, cfg Config) (*Conn, error) {
	cfg.MaxBody = cmp.Or(cfg.MaxBody, DefaultMaxBody)
	cfg.AckWait = cmp.Or(cfg.AckWait, DefaultAckWait)
	cfg.ScanLimit = cmp.Or(cfg.ScanLimit, DefaultScanLimit)
	log := cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Dial.Log = cmp.Or(cfg.Dial.Log, log)
	open := newWaits()
	cfg.Dial.broken, cfg.Dial.back = open.cut, open.back
	nc, api, err := cfg.Dial.connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &Conn{
		cfg:    cfg,
		nc:     nc,
		log:    log,
		opened: time.Now(),
		waits:  open,
		leases: leases{held: map[*Delivery]*lease{}},
	}
	c.known.Store(newLayout(cfg.Space))
	if c.js, err = api.jetStream(nc); err != nil {
		nc.Close()
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	if c.reader, err = newReader(nc, open, api.prefix()); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection at once. Deliveries that were not acknowledged come
// again to somebody.
func (c *Conn) Close() {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.nc.Close()
}

// Flush waits until everything sent so far, acknowledgements too, has reached
// the server.
func (c *Conn) Flush(ctx context.Context) error { return c.nc.FlushWithContext(ctx) }

// AckWait is the lease of a delivery.
func (c *Conn) AckWait() time.Duration { return c.cfg.AckWait }

// MaxBody is the largest body in bytes that the connection stores.
func (c *Conn) MaxBody() int64 { return c.cfg.MaxBody }

func (c *Conn) intercept(p Point) error {
	if c.cfg.Intercept == nil {
		return nil
	}
	return c.cfg.Intercept(p)
}

// PublishEphemeral publishes a message that is not stored: progress, for whoever watches.
func (c *Conn) PublishEphemeral(subject string, body []byte) error {
	return c.nc.Publish(subject, body)
}

// Watch calls fn, one message at a time, for what is published to a subject
// from now on, until stop is called. Nothing is replayed: for watching only.
func (c *Conn) Watch(subject string, fn func(Stored)) (stop func(), err error) {
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) { fn(live(m)) })
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// NewID makes an id that has not been used before: 22 of [A-Za-z0-9], good as a
// tree's id.
func NewID() string { return nuid.Next() }
