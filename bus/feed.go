package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// PullExpiry is how long one request for messages stands at the server, at most:
// those of a connection end in step. Until then a delivery that is given back
// may come to whoever gave it. It is short, so that a worker that stops asking
// is soon free of what it has asked for: a request cannot be withdrawn without
// the risk that a message on its way to it is lost until its lease is over.
const PullExpiry = time.Second

// AlignedDelay is how long it is to the next of the moments that lie d apart, which
// are the same for all who ask: what many do now and then they do together, and
// a process that rests is woken once for all of them, and so is its server.
func (c *Conn) AlignedDelay(d time.Duration) time.Duration { return d - time.Since(c.opened)%d }

// Feed is an open pull of a consumer, for one goroutine. It asks for messages
// only while somebody waits in Next. (The client library's own pull, asked for
// one message at a time, now and then does not ask at all until its heartbeat
// is missed, half a minute later.)
type Feed struct {
	conn  *Conn
	next  string
	ahead func() int
	inbox string
	sub   *nats.Subscription
	msgs  chan *nats.Msg

	looked time.Time // when msgs was last looked at
	// requests sent: the last token of the current one's reply subject
	asked int
	// messages asked for and not yet received
	open int
	// the first of the requests that open is about
	counted int
	// when the current request is certainly over
	expires time.Time
}

// ErrConsumerGone is wrapped by the error of a feed whose consumer does not
// exist any more.
var ErrConsumerGone = errors.New("consumer deleted")

// Open starts a feed. Ahead says how many messages it may have asked for and
// not yet returned; it is asked before each request.
func (c *Consumer) Open(ahead func() int) (*Feed, error) {
	f := &Feed{conn: c.conn, next: c.next, ahead: ahead, inbox: c.conn.nc.NewInbox(), msgs: make(chan *nats.Msg, 512)}
	var err error
	if f.sub, err = c.conn.nc.ChanSubscribe(f.inbox+".*", f.msgs); err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	return f, nil
}

// Next waits for a delivery. Its lease is kept alive until it is acknowledged
// or given back. It returns nil when ahead is 0 and nothing that it has asked
// for can come any more. When ctx ends the feed stays usable: what was asked
// for is returned by a later call. A server that went away is waited for.
func (f *Feed) Next(ctx context.Context) (*Delivery, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		f.forget()
		n := f.ahead()
		if n == 0 && f.open == 0 {
			return nil, nil
		}
		if err := f.ask(n); errors.Is(err, nats.ErrReconnectBufExceeded) {
			f.gone()
			// there is no connection at this moment
			_ = f.conn.inflight.pause(ctx, PullExpiry)
			continue
		} else if err != nil {
			return nil, err
		}
		d, err := f.receive(ctx)
		if d != nil || err != nil {
			return d, err
		}
	}
}

// Poll asks for one message and returns nil if the server has none at this
// moment. What earlier requests have brought meanwhile comes first.
func (f *Feed) Poll(ctx context.Context) (*Delivery, error) {
	f.forget()
	if f.open == 0 {
		if err := f.request(1, map[string]any{"batch": 1, "no_wait": true}); err != nil {
			return nil, err
		}
	}
	return f.receive(ctx)
}

// Drain returns what is still on its way after the last Next, nil when there can
// be nothing more.
func (f *Feed) Drain(ctx context.Context) *Delivery {
	for f.open > 0 && time.Now().Before(f.expires) && ctx.Err() == nil {
		if d, err := f.receive(ctx); d != nil || err != nil {
			return d
		}
	}
	return nil
}

// Close ends the feed. What Rest has not returned comes again when its lease is
// over.
func (f *Feed) Close() { _ = f.sub.Unsubscribe() }

// ask sends a request when fewer than half of the n that may be on their way
// are.
func (f *Feed) ask(n int) error {
	if n == 0 || f.open > n/2 {
		return nil
	}
	return f.request(n, map[string]any{"batch": n - f.open, "expires": max(f.conn.AlignedDelay(PullExpiry), PullExpiry/100)})
}

// request sends a request, with which n messages are asked for in all.
func (f *Feed) request(n int, r map[string]any) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f.asked++
	f.open = n
	f.expires = time.Now().Add(PullExpiry + PullExpiry/2)
	if err := f.conn.nc.PublishRequest(f.next, f.inbox+"."+strconv.Itoa(f.asked), body); err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	return nil
}

// receive waits for one message of the server: a delivery, or a word on a
// request (nil, nil).
func (f *Feed) receive(ctx context.Context) (*Delivery, error) {
	defer func() { f.looked = time.Now() }()
	select {
	case m, ok := <-f.msgs: // without the cost of a timer
		return f.received(ctx, m, ok)
	default:
	}
	lost := time.NewTimer(time.Until(f.expires))
	defer lost.Stop()
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-lost.C:
		if f.open > 0 && f.stale() {
			return nil, f.discard(ctx)
		}
		return nil, nil
	case m, ok := <-f.msgs:
		return f.received(ctx, m, ok)
	}
}

func (f *Feed) received(ctx context.Context, m *nats.Msg, ok bool) (*Delivery, error) {
	if !ok || f.conn.nc.IsClosed() {
		return nil, fmt.Errorf("pull: %w", nats.ErrConnectionClosed)
	}
	if status := m.Header.Get("Status"); status != "" && len(m.Data) == 0 {
		return nil, f.ended(m, status)
	}
	if f.stale() {
		return nil, f.discard(ctx)
	}
	f.open = max(0, f.open-1)
	return f.delivery(m)
}

// stale reports whether what is received now may have been sent so long ago
// that its lease is over: this process was stopped meanwhile. No message is
// sent for a request that has expired.
func (f *Feed) stale() bool { return time.Since(f.expires) > f.conn.cfg.AckWait/2 }

// discard drops all that has come while this process was stopped, and what the
// client library has yet to read of it. It comes again, to whoever asks.
func (f *Feed) discard(ctx context.Context) error {
	f.gone()
	err := Pause(ctx, 100*time.Millisecond)
	f.drop()
	return err
}

// forget gives up what is not to be relied on any more: a request that was
// lost, or its end; and what may have waited here for long, with nobody to
// renew its lease, while the feed was left alone. That comes again, to whoever
// asks, and another worker may have it already.
func (f *Feed) forget() {
	if !time.Now().Before(f.expires) {
		f.gone()
	}
	if f.looked.IsZero() || time.Since(f.looked) < f.conn.cfg.AckWait/2 {
		return
	}
	f.drop()
}

// drop gives up what has been received and not looked at.
func (f *Feed) drop() {
	for range len(f.msgs) {
		<-f.msgs
	}
}

// gone notes that none of the requests sent so far brings anything any more.
func (f *Feed) gone() { f.open, f.counted = 0, f.asked+1 }

// ended takes note of a request that is over before all its messages came. It
// says how many those are: of several that stand at once, one may be over while
// another one brings all of its own.
func (f *Feed) ended(m *nats.Msg, status string) error {
	why := m.Header.Get("Description")
	if status == "409" && strings.Contains(why, "Consumer Deleted") || status == "503" {
		f.gone()
		return fmt.Errorf("pull: %w: %s %s", ErrConsumerGone, status, why)
	}
	if status == "100" {
		return nil
	}
	which, _ := strconv.Atoi(strings.TrimPrefix(m.Subject, f.inbox+"."))
	missing, err := strconv.Atoi(m.Header.Get(headerPendingMessages))
	switch {
	case which >= f.counted && err == nil:
		f.open = max(0, f.open-missing)
	case which == f.asked:
		f.gone()
	}
	return nil
}

// headerPendingMessages is what a request that is over has not brought, in its
// last message (ADR-13).
const headerPendingMessages = "Nats-Pending-Messages"

func (f *Feed) delivery(m *nats.Msg) (*Delivery, error) {
	md, err := m.Metadata()
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	d := &Delivery{conn: f.conn, msg: m, Count: int(md.NumDelivered), Stored: Stored{
		Subject: m.Subject, Seq: md.Sequence.Stream, Time: md.Timestamp, Header: m.Header, Body: m.Data,
	}}
	f.conn.leases.hold(d, time.Now())
	return d, nil
}
