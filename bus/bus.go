package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/nats-io/nuid"

	"github.com/axebus/axe/subjects"
)

// Config says how to reach the bus, and sets its bounds.
type Config struct {
	Dial  Dial
	Space subjects.Space
	// MaxBody is the largest body in bytes, stored by reference or not; 0:
	// DefaultMaxBody.
	MaxBody int64
	// AckWait is the lease of a delivery: the time after which the server
	// delivers it again unless the lease was renewed; 0: DefaultAckWait.
	AckWait time.Duration
	// ScanLimit is the largest number of stream messages that ReadSince
	// looks through. It reads by subject beyond; 0: DefaultScanLimit.
	ScanLimit uint64
	// GroupFrom is the number of writes under way from which on more writes to
	// the same stream wait for each other and are stored together, if the
	// stream takes groups (Provision.Sync); 0: DefaultGroupFrom.
	GroupFrom int
	// Log may be nil: nothing is logged then.
	Log *slog.Logger
	// Signers are the public keys of the accounts and operators that may
	// grant agents to the keys of workers. With any, outcomes have to be
	// signed (Grants).
	Signers []string
	// SignKey signs outcomes in place of the key of the connection's user.
	SignKey nkeys.KeyPair

	// Intercept, if not nil, is called at each Point. Its error becomes the
	// operation's. Before the renewal of a lease it prevents the renewal.
	// Tests use it to stop a worker at any step.
	Intercept func(Point) error
	// Observe, if not nil, is told of each request to the server that asks
	// for something: it writes, reads, or asks about a stream or a
	// consumer. It must return at once.
	Observe func(Exchange)
	// ServerTime returns the time that this connection takes for a time of
	// the server's clock. With nil the connection takes the server's time.
	// Tests use it for a server with a wrong clock.
	ServerTime func(time.Time) time.Time
}

// Exchange is a request to the server that has ended.
type Exchange struct {
	Op Op
	// Subject is that of a write. It is empty for other requests.
	Subject string
	// Took is the time until the answer, or until the request was given up.
	Took time.Duration
	// Refused says that the fence of a write did not hold.
	Refused bool
}

// Op is the kind of a request.
type Op string

// The kinds of requests. OpAPI is that of the JetStream API.
const (
	OpWrite Op = "write"
	OpRead  Op = "read"
	OpAPI   Op = "api"
)

// observe tells of a request that began at a time, and ended now with an error
// or nil.
func (cfg *Config) observe(op Op, subject string, began time.Time, err error) {
	if cfg.Observe != nil {
		api, _ := errors.AsType[*jetstream.APIError](err)
		refused := api != nil && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
		cfg.Observe(Exchange{op, subject, time.Since(began), refused})
	}
}

// Point is a step at which Config.Intercept is called. Ephemeral messages, and
// writes to Directory and Workers, have none, but Directory.PutTogether has.
type Point struct {
	// Op is "write", "ack", "nak", "beat" (the renewal of a lease), "load"
	// (the read of an object or an artifact), "store" (Artifacts.Store),
	// "expire" (ExpireConsumer) or "purge" (RemoveTimer, Forget).
	Op string
	// Subject is that of the message written or delivered. For "load" and
	// "store" it is the name of the object, for "expire" that of the
	// consumer.
	Subject string
	// After is true when the operation has succeeded, and false before it.
	// For "beat" and "load" there is no point after the operation.
	After bool
}

// DefaultMaxBody is the default of Config.MaxBody.
const DefaultMaxBody = 64 << 20

// DefaultScanLimit is the default of Config.ScanLimit. A server looks through
// so many messages in less time than a read by subject takes, some 0.7 ms.
const DefaultScanLimit = 10_000

// DefaultAckWait is the default of Config.AckWait.
const DefaultAckWait = 10 * time.Second

// Conn is a connection to the bus. It is safe for concurrent use.
type Conn struct {
	// Clocks tell the time of the streams.
	Clocks *Clocks
	// Health knows the faults of the streams.
	Health *Health
	// Grants decide which outcomes count.
	Grants *Grants

	cfg Config
	nc  *nats.Conn
	js  jetstream.JetStream
	// leaders is the library's older half: it asks the leaders of streams.
	leaders  nats.JetStreamManager
	log      *slog.Logger
	inflight *inflight
	reader   *reader
	leases   leases
	// opened is the origin of AlignedDelay.
	opened time.Time
	// by is the user of the connection, zero if the server proves none.
	by subjects.By

	streams atomic.Pointer[streams]
	// handles are the library's handles of streams, by the stream's name.
	handles sync.Map
	// epoch is nil before the first one.
	epoch atomic.Pointer[epoch]

	mu      sync.Mutex
	objects jetstream.ObjectStore
	// warned is the time of the last warning about retried writes.
	warned time.Time

	// sending is locked for reading by send, and for writing by Close.
	sending sync.RWMutex
}

// Open connects. It waits until ctx ends for a server that is not there yet.
// The caller closes the connection.
func Open(ctx context.Context, cfg Config) (*Conn, error) {
	cfg.MaxBody = cmp.Or(cfg.MaxBody, DefaultMaxBody)
	cfg.AckWait = cmp.Or(cfg.AckWait, DefaultAckWait)
	cfg.ScanLimit = cmp.Or(cfg.ScanLimit, DefaultScanLimit)
	cfg.GroupFrom = cmp.Or(cfg.GroupFrom, DefaultGroupFrom)
	log := cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Dial.Log = cmp.Or(cfg.Dial.Log, log)
	requests := newInflight()
	requests.space = cfg.Space
	cfg.Dial.requests = requests
	nc, api, err := cfg.Dial.connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &Conn{
		cfg:      cfg,
		nc:       nc,
		log:      log,
		opened:   time.Now(),
		by:       byOf(ctx, nc, requests, cfg.Space),
		inflight: requests,
		leases:   leases{held: map[message]*Delivery{}},
	}
	c.Clocks = newClocks(c)
	c.setStreams(newStreams(cfg.Space))
	c.Health = newHealth(c)
	if c.js, err = jetstream.NewWithAPIPrefix(nc, api); err != nil {
		nc.Close()
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	if c.leaders, err = nc.JetStream(nats.APIPrefix(api)); err != nil {
		nc.Close()
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	if c.reader, err = newReader(c, requests, api); err != nil {
		nc.Close()
		return nil, err
	}
	if c.Grants, err = newGrants(c, cfg.Signers); err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

// Close ends the connection at once. Deliveries without an acknowledgement come
// again, to any worker.
func (c *Conn) Close() {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.nc.Close()
}

// Connected reports whether a connection has a server at this moment.
func Connected(c *Conn) bool { return c != nil && c.nc.IsConnected() }

// Flush waits until the server has everything that was sent so far,
// acknowledgements included.
func (c *Conn) Flush(ctx context.Context) error { return c.nc.FlushWithContext(ctx) }

// NATS returns the connection itself. It is for the sub-packages of bus alone;
// no other package may import NATS.
func (c *Conn) NATS() (*nats.Conn, jetstream.JetStream) { return c.nc, c.js }

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

// PublishEphemeral publishes a message that is not stored, such as progress.
func (c *Conn) PublishEphemeral(subject string, body []byte) error {
	return c.nc.Publish(subject, body)
}

// Watch calls fn, one message at a time, for each message that is published to
// a subject from now on, until ctx ends. It returns at once. fn may still run
// for a moment after ctx has ended. Watch misses messages while the connection
// is down, and all of them if the user of the connection is Restricted or lacks
// the permission. It is for views, not for decisions.
func (c *Conn) Watch(ctx context.Context, subject string, fn func(Stored)) error {
	if Restricted(c) {
		return nil
	}
	ended := c.inflight.view(subject)
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		if receivedHeader(m) > 0 && !isWhole(m) {
			// Its place may be made up.
			return
		}
		s := stored(c.Clocks, m)
		if s.Seq == 0 {
			// An ephemeral message has no headers of a stream.
			s.Subject = m.Subject
		}
		fn(s)
	})
	if err != nil {
		ended()
		return fmt.Errorf("watch %s: %w", subject, err)
	}
	context.AfterFunc(ctx, func() {
		_ = sub.Unsubscribe()
		// The violation of a short watch may come after its end.
		time.AfterFunc(answerTimeout, ended)
	})
	return nil
}

// NewID makes a unique id: 22 of [A-Za-z0-9], valid as the id of a tree.
func NewID() string { return nuid.Next() }
