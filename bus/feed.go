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

	"github.com/axebus/axe/internal/pause"
)

// PullExpiry is the longest time for which a pull request stands at the server.
// The requests of a connection end together (AlignedDelay). A delivery that a
// worker gives back may return to it while its request stands. The time is
// short, so that a worker that stops pulling is soon done: a request cannot be
// withdrawn without the risk that a message on its way is lost until its lease
// is over.
const PullExpiry = time.Second

// AlignedDelay returns the time until the next multiple of d since the
// connection was opened. Periodic work of many consumers then coincides, and
// wakes an idle process and its server once.
func (c *Conn) AlignedDelay(d time.Duration) time.Duration { return d - time.Since(c.opened)%d }

// Feed is an open pull of a consumer, for one goroutine. It requests messages
// only while that goroutine is in Next or Poll.
//
// It replaces the client library's pull. With one message at a time, that
// sometimes sends no request until it misses a heartbeat half a minute later;
// https://github.com/nats-io/nats.go/issues/1622 shows the same symptom. By
// default it also takes 500 messages at once, which other workers then lack.
type Feed struct {
	conn *Conn
	from *Consumer
	// next is the subject that requests are sent to.
	next  string
	ahead func() int
	inbox string
	sub   *nats.Subscription
	msgs  chan *nats.Msg

	// looked is the time of the last look at msgs.
	looked time.Time
	// asked is the number of requests sent. It is the last token of the
	// current request's reply subject.
	asked int
	// open is the number of messages requested and not yet received.
	open int
	// counted is the first request that open covers.
	counted int
	// expires is the time when the current request is certainly over.
	expires time.Time
}

// ErrConsumerGone is wrapped by the error of a feed if its consumer does not
// exist any more, or has no leader at this moment.
var ErrConsumerGone = errors.New("consumer does not exist")

// Open starts a feed. Ahead returns the largest number of messages that may be
// requested and not yet returned. The feed calls it before each request.
func (c *Consumer) Open(ahead func() int) (*Feed, error) {
	f := &Feed{
		conn: c.conn, from: c, next: c.conn.reader.api + "CONSUMER.MSG.NEXT." + c.stream + "." + c.name,
		ahead: ahead, inbox: c.conn.nc.NewInbox(), msgs: make(chan *nats.Msg, 512),
	}
	var err error
	if f.sub, err = c.conn.nc.ChanSubscribe(f.inbox+".*", f.msgs); err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	return f, nil
}

// Next waits for a delivery, also while the server is away. Conn.KeepLeases
// renews the lease until the delivery is acknowledged or given back. Next
// returns nil when ahead is 0, no message has come, and no requested one can
// come any more. When ctx ends the feed stays usable: a later call returns the
// requested messages.
func (f *Feed) Next(ctx context.Context) (*Delivery, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		f.forget()
		n := f.ahead()
		if n == 0 && f.open == 0 && !f.HasCome() {
			return nil, nil
		}
		if err := f.ask(n); errors.Is(err, nats.ErrReconnectBufExceeded) {
			// There is no connection at this moment.
			f.gone()
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

// Poll requests one message and returns nil if the server has none at this
// moment, or is away. Messages of earlier requests come first.
func (f *Feed) Poll(ctx context.Context) (*Delivery, error) {
	f.forget()
	if f.open == 0 {
		err := f.request(1, pullRequest{Batch: 1, NoWait: true})
		if errors.Is(err, nats.ErrReconnectBufExceeded) {
			// There is no connection at this moment.
			f.gone()
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
	return f.receive(ctx)
}

// Expects reports whether a requested message may still come.
func (f *Feed) Expects() bool { return f.open > 0 && time.Now().Before(f.expires) }

// HasCome reports whether a message is here that Next has not returned.
func (f *Feed) HasCome() bool { return len(f.msgs) > 0 }

// Drain returns a message that has come, or is still on its way, after the last
// Next. It returns nil when no message can come any more.
func (f *Feed) Drain(ctx context.Context) *Delivery {
	f.forget()
	for (f.HasCome() || f.Expects()) && ctx.Err() == nil {
		if d, err := f.receive(ctx); d != nil || err != nil {
			return d
		}
	}
	return nil
}

// Close ends the feed. A message that Drain has not returned comes again when
// its lease is over.
func (f *Feed) Close() { _ = f.sub.Unsubscribe() }

// ask sends a request if at most half of n messages are on their way.
func (f *Feed) ask(n int) error {
	if n == 0 || f.open > n/2 {
		return nil
	}
	expires := max(f.conn.AlignedDelay(PullExpiry), PullExpiry/100)
	return f.request(n, pullRequest{Batch: n - f.open, Expires: expires})
}

// pullRequest is the body of a request for messages (ADR-13).
type pullRequest struct {
	Batch   int           `json:"batch"`
	Expires time.Duration `json:"expires,omitempty"`
	NoWait  bool          `json:"no_wait,omitempty"`
	// Beat is the time between two signs of life of the consumer.
	Beat time.Duration `json:"idle_heartbeat,omitempty"`
}

// request sends a request. After it n messages are on their way in all.
func (f *Feed) request(n int, r pullRequest) error {
	body, _ := json.Marshal(r) // it has numbers alone
	f.asked++
	f.open = n
	f.expires = time.Now().Add(PullExpiry + PullExpiry/2)
	if err := f.conn.nc.PublishRequest(f.next, f.inbox+"."+strconv.Itoa(f.asked), body); err != nil {
		return fmt.Errorf("pull: %w", err)
	}
	return nil
}

// receive waits for one message of the server: a delivery, or the status of a
// request (nil, nil).
func (f *Feed) receive(ctx context.Context) (*Delivery, error) {
	defer func() { f.looked = time.Now() }()
	select {
	case m, ok := <-f.msgs:
		// A message that is there costs no timer.
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
	if !ok {
		return nil, fmt.Errorf("pull: %w", nats.ErrConnectionClosed)
	}
	if status := m.Header.Get("Status"); status != "" && len(m.Data) == 0 && m.Reply == "" {
		return nil, f.ended(m, status)
	}
	if f.stale() {
		return nil, f.discard(ctx)
	}
	f.open = max(0, f.open-1)
	return f.delivery(m)
}

// stale reports whether a message that is received now may be so old that its
// lease is over, because this process was stopped meanwhile. The server sends
// no message for a request that has expired.
func (f *Feed) stale() bool { return time.Since(f.expires) > f.conn.cfg.AckWait/2 }

// discard drops all messages that came while this process was stopped, those
// included that the client library has yet to read. The server delivers them
// again, to any worker.
func (f *Feed) discard(ctx context.Context) error {
	f.gone()
	err := pause.For(ctx, 100*time.Millisecond)
	f.drop()
	return err
}

// forget gives up a request that was lost, or that ended unnoticed. It also
// drops messages that may have waited here for half a lease, unrenewed, while
// the feed was not used. The server delivers them again, and another worker may
// have them already.
func (f *Feed) forget() {
	if !time.Now().Before(f.expires) {
		f.gone()
	}
	if f.looked.IsZero() || time.Since(f.looked) < f.conn.cfg.AckWait/2 {
		return
	}
	f.drop()
}

// drop gives up the messages that were received and not looked at.
func (f *Feed) drop() {
	for range len(f.msgs) {
		<-f.msgs
	}
}

// gone notes that no request sent so far brings a message any more.
func (f *Feed) gone() { f.open, f.counted = 0, f.asked+1 }

// ended handles the status of a request. A request that ends early says how
// many messages it has not brought. Several requests may stand at once, and
// only this one has ended.
func (f *Feed) ended(m *nats.Msg, status string) error {
	why := m.Header.Get("Description")
	if status == "409" && strings.Contains(why, "Consumer Deleted") || status == "503" {
		f.gone()
		return fmt.Errorf("pull: %w: %s %s", ErrConsumerGone, status, why)
	}
	if status == "100" {
		return nil
	}
	if status == "409" && strings.HasPrefix(why, "Exceeded ") {
		// The server has refused the request, for example because too
		// many stand. The request counts as one that stands, so that
		// the feed does not send the next one at once.
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

// headerPendingMessages is the header of a request's last message that counts
// the messages it has not brought (ADR-13).
const headerPendingMessages = "Nats-Pending-Messages"

// delivery returns nil if this process has the message in hand already, and for
// an imported message, which it acknowledges.
func (f *Feed) delivery(m *nats.Msg) (*Delivery, error) {
	if (Stored{Header: m.Header}).IsImported() && f.from.stream != f.conn.cfg.Space.Name("SUBMIT") {
		return nil, m.Ack()
	}
	id, md, err := messageOf(m)
	if err != nil {
		return nil, fmt.Errorf("pull: %w", err)
	}
	if f.from.firstLease > 0 {
		id.delivery = md.NumDelivered
	}
	now := time.Now()
	d := &Delivery{
		Stored: Stored{
			Subject: m.Subject, Seq: md.Sequence.Stream, Time: f.conn.Clocks.stamp(md.Timestamp), Header: m.Header,
			Body: m.Data, answer: hasPlace(m.Header),
		},
		Count: int(md.NumDelivered), Received: now, Waiting: int(md.NumPending),
		conn: f.conn, from: f.from, id: id,
	}
	d.msg.Store(m)
	if !f.conn.leases.hold(d, now, f.conn.cfg.AckWait) {
		return nil, nil
	}
	return d, nil
}
