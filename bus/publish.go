package bus

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Headers of the server.
const (
	headerFenceSubject = "Nats-Expected-Last-Subject-Sequence-Subject"
	headerScheduler    = "Nats-Scheduler"
	headerScheduleNext = "Nats-Schedule-Next"
	headerSchedule     = "Nats-Schedule"
	headerTarget       = "Nats-Schedule-Target"
)

// headerWritten is the server's time as the writer of a message knew it, in
// milliseconds since 1970 (Message.Dated).
const headerWritten = "Axe-Written"

// Message is a message to be stored.
type Message struct {
	Subject string
	Header  [][2]string
	Body    []byte
	// ID is the Nats-Msg-Id. A second message with the same ID is not
	// stored within the stream's deduplication window. It may be empty.
	ID string
	// Sign says that the message is an outcome, which the connection signs
	// if its key has a grant (Grants). The signature is then the ID.
	Sign bool
	// Fence is the condition of the write.
	Fence Fence
	// Timer makes the message a schedule.
	Timer Timer
	// Dated is the time at which the times that the message names were
	// reckoned, by the same clock; zero if it names none. A write sets it
	// for a Timer. A header stores it: after a step of the clock, a reader
	// knows from it which clock the times are of.
	Dated time.Time
	// Disarm is the subject of a timer that this write removes.
	Disarm string
	// Patience is the time for which a full server may refuse the message
	// until the write fails with ErrNoRoom. A server that answers other
	// requests may leave the message without an answer for half as long
	// again. 0 is no bound.
	Patience time.Duration
	// Window is the time, from the start of the write, in which an attempt
	// may begin. After it the ID may not keep a second message out, and the
	// write fails with ErrUnsure. 0 is no bound. The attempt under way at its
	// end is not broken off.
	Window time.Duration
}

// ErrUnsure is the error of a write whose Window is over: an attempt of it, or
// of another writer, may be stored.
var ErrUnsure = errors.New("the message may be stored")

// ErrNoRoom is wrapped by the error of a write with Patience that a full server
// has refused or left without an answer. The reason follows.
var ErrNoRoom = errors.New("the server has no room")

// Fence is the condition of a write: Seq is the sequence of the last message of
// Subject. The zero value is no condition.
type Fence struct {
	Subject string
	Seq     uint64
	// pastAnswers says that answers of the server do not refuse the write.
	pastAnswers bool
}

// After makes a fence: the last message of the subject is seq, 0 for none.
func After(subject string, seq uint64) Fence { return Fence{Subject: subject, Seq: seq} }

// First makes a fence: the subject has no message but answers of the server.
func First(subject string) Fence { return Fence{Subject: subject, pastAnswers: true} }

// Timer makes a message a schedule: the server stores its body again under
// Target at the time At. Another message on the same subject replaces the
// timer.
type Timer struct {
	At     time.Time
	Target string
}

// ConflictError is the error of a write if its fence did not hold.
type ConflictError struct {
	// Subject is the subject of the fence.
	Subject string
	// Last is the sequence of the last message of Subject, 0 for none.
	Last uint64
}

// Error names the subject and the message.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("write refused: %s already ends with message %d", e.Subject, e.Last)
}

// ErrTooLarge is wrapped by the error of a body over Config.MaxBody.
var ErrTooLarge = errors.New("body too large")

// ErrNoStream is the error if no stream takes a subject: no worker has set up
// the bus on this server.
var ErrNoStream = errors.New("no stream takes the subject (is a worker connected to this server?)")

// Write stores a message and returns its sequence in the stream. It retries
// until ctx ends, or Message.Patience is over, if the acknowledgement is lost
// or the server refuses the message for a time. If the lost write was stored,
// its own fence refuses the retry, and a read shows the message. Without a
// fence and an ID the message may be stored twice. The error is a
// *ConflictError if the fence did not hold.
func (c *Conn) Write(ctx context.Context, m Message) (uint64, error) {
	began := time.Now()
	if err := c.intercept(Point{"write", m.Subject, false}); err != nil {
		return 0, err
	}
	msg, err := c.message(ctx, m)
	if err != nil {
		return 0, err
	}
	seq, err := c.write(ctx, began, m, msg)
	if err != nil {
		return 0, err
	}
	return seq, c.intercept(Point{"write", m.Subject, true})
}

func (c *Conn) write(ctx context.Context, began time.Time, m Message, msg *nats.Msg) (seq uint64, _ error) {
	var refused time.Time
	var silences int
	err := c.inflight.retry(ctx, func() (again bool, _ error) {
		if err := c.Health.Confirm(ctx); err != nil {
			return errors.Is(err, errUnconfirmed), err
		}
		// The worker may have been frozen since the write began.
		if m.Window > 0 && time.Since(began) > m.Window {
			return false, ErrUnsure
		}
		ack, err := c.Health.attempt(ctx, m, msg)
		if err == nil {
			seq = ack.Sequence
			c.Health.stored(m.Subject)
			return storeAnew(ctx, c, msg, ack)
		}
		again, err = writeFailed(ctx, c, m, msg, err)
		switch {
		case m.Patience > 0 && silent(err):
			silences++
			if why := c.Health.unanswered(ctx, m.Subject); why != nil && silences > 1 {
				return false, fmt.Errorf("%w: %w", ErrNoRoom, why)
			}
		case !noRoom(err):
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		case m.Patience > 0 && time.Since(refused) >= m.Patience:
			return false, fmt.Errorf("%w: %w", ErrNoRoom, err)
		}
		if again && time.Since(began) > time.Second {
			c.warnRetrying(ctx, m.Subject, err)
		}
		return again, err
	})
	return seq, wrapWrite(m.Subject, err)
}

// warnRetrying logs why writes are retried, at most once in warnInterval for
// all writes of the connection.
func (c *Conn) warnRetrying(ctx context.Context, subject string, err error) {
	c.mu.Lock()
	due := time.Since(c.warned) >= warnInterval
	if due {
		c.warned = time.Now()
	}
	c.mu.Unlock()
	if due {
		c.log.WarnContext(ctx, "write not acknowledged, retrying",
			slog.String(keySubject, subject), slog.Any(keyError, err))
	}
}

// warnInterval is the least time between two warnings about retried writes.
const warnInterval = 10 * time.Second

// once publishes a message and returns the server's answer: see readAck.
func (c *Conn) once(ctx context.Context, msg *nats.Msg) (jetstream.PubAck, error) {
	began := time.Now()
	ctx, r := c.inflight.begin(ctx, msg.Subject)
	defer r.done()
	answer, err := c.nc.RequestMsgWithContext(ctx, msg)
	var ack jetstream.PubAck
	if err == nil {
		ack, err = readAck(answer.Data)
	} else {
		err = r.reason(err)
	}
	c.cfg.observe(OpWrite, msg.Subject, began, err)
	return ack, err
}

// readAck reads a server's answer to a published message. The error may be a
// *jetstream.APIError. It takes the usual answer, {"stream":"S", "seq":1},
// apart without a decoder, since every write has one. Of that it returns the
// sequence alone.
func readAck(answer []byte) (jetstream.PubAck, error) {
	if at := bytes.LastIndex(answer, []byte(`"seq":`)); at > 0 && bytes.HasPrefix(answer, []byte(`{"stream":"`)) {
		digits, closed := bytes.CutSuffix(answer[at+len(`"seq":`):], []byte("}"))
		if seq, err := strconv.ParseUint(string(digits), 10, 64); closed && err == nil {
			return jetstream.PubAck{Sequence: seq}, nil
		}
	}
	var decoded struct {
		Error *jetstream.APIError `json:"error"`
		*jetstream.PubAck
	}
	if err := json.Unmarshal(answer, &decoded); err != nil {
		return jetstream.PubAck{}, jetstream.ErrInvalidJSAck
	}
	if decoded.Error != nil {
		return jetstream.PubAck{}, decoded.Error
	}
	if decoded.PubAck == nil || decoded.Stream == "" {
		return jetstream.PubAck{}, jetstream.ErrInvalidJSAck
	}
	return *decoded.PubAck, nil
}

// failed decides for the whole package whether a write without an
// acknowledgement is retried. The error says why it failed. It is a
// *ConflictError if the fence did not hold.
func (c *Conn) failed(ctx context.Context, fence Fence, err error) (again bool, _ error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		if api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			var last uint64
			_, _ = fmt.Sscanf(api.Description, "wrong last sequence: %d", &last)
			return false, &ConflictError{fence.Subject, last}
		}
		return passes(api), err
	}
	switch {
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		c.Health.identity.absences.Add(1)
		if c.provisioned() {
			// The stream has no leader at this moment.
			return true, err
		}
		return false, ErrNoStream
	case errors.Is(err, nats.ErrConnectionClosed), unsendable(err):
		return false, err
	}
	return true, err
}

// unsendable reports whether an error says that this connection may not or
// cannot send a message.
func unsendable(err error) bool {
	return errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, nats.ErrBadSubject) || Forbidden(err)
}

// writeFailed is Conn.failed for an attempt to store a message. If answers of
// the server alone have refused it, it is to be sent again, after them.
func writeFailed(ctx context.Context, c *Conn, m Message, msg *nats.Msg, err error) (again bool, _ error) {
	again, err = c.failed(ctx, m.Fence, err)
	c.Health.failed(m.Subject, err)
	if _, refused := errors.AsType[*ConflictError](err); !refused || !m.Fence.pastAnswers {
		return again, err
	}
	last, there, failed := lastAnswer(ctx, c, m.Fence.Subject)
	if there || failed != nil {
		return false, cmp.Or(failed, err)
	}
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
	return true, err
}

// wrapWrite names the subject in the error of a write. A *ConflictError names
// it already.
func wrapWrite(subject string, err error) error {
	if _, refused := errors.AsType[*ConflictError](err); err == nil || refused {
		return err
	}
	return fmt.Errorf("write %s: %w", subject, err)
}

// codeAccountFull is the server's code for an account that has used all of its
// resources.
const codeAccountFull jetstream.ErrorCode = 10002

// Codes of a server with a full disk, memory or stream.
const (
	codeNoResources  jetstream.ErrorCode = 10023
	codeMemoryFull   jetstream.ErrorCode = 10028
	codeStorageFull  jetstream.ErrorCode = 10047
	codeStoreRefused jetstream.ErrorCode = 10077
)

// noRoom reports whether a server has refused a message because it is full.
func noRoom(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	full := []jetstream.ErrorCode{codeAccountFull, codeNoResources, codeMemoryFull, codeStorageFull, codeStoreRefused}
	return ok && slices.Contains(full, api.ErrorCode)
}

// passes reports whether a server may store the message later. It refuses for a
// time while another write to the subject is on its way to the replicas, while
// there is no leader, while its disk or the account is full, and under load.
func passes(e *jetstream.APIError) bool {
	return e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant || e.ErrorCode == codeAccountFull ||
		e.Code >= http.StatusInternalServerError || e.Code == http.StatusTooManyRequests
}

// WriteAll stores messages together: it sends all of them before it waits for
// the first acknowledgement, or in groups if the stream takes groups. The
// errors are in the order of the messages, nil for a message that was stored.
func (c *Conn) WriteAll(ctx context.Context, ms []Message) []error {
	if len(ms) == 1 {
		_, err := c.Write(ctx, ms[0])
		return []error{err}
	}
	began := time.Now()
	g := groupFor(c, ms)
	errs := make([]error, len(ms))
	acks := make([]jetstream.PubAckFuture, len(ms))
	msgs := make([]*nats.Msg, len(ms))
	for i, m := range ms {
		if errs[i] = c.intercept(Point{"write", m.Subject, false}); errs[i] != nil {
			continue
		}
		if msgs[i], errs[i] = c.message(ctx, m); errs[i] != nil {
			continue
		}
		if g == nil {
			acks[i], errs[i] = c.send(msgs[i])
		}
	}
	stored := g.storeAll(ctx, msgs)
	for i := stored; i < len(ms) && g != nil; i++ {
		if msgs[i] != nil {
			acks[i], errs[i] = c.send(msgs[i])
		}
	}
	for i, m := range ms {
		if msgs[i] == nil {
			continue
		}
		switch {
		case i < stored:
		case acks[i] == nil:
			// Too many messages were on their way, there was no
			// connection, or the streams have to be asked first.
			_, errs[i] = c.write(ctx, time.Now(), m, msgs[i])
		default:
			errs[i] = c.await(ctx, m, msgs[i], sent{acks[i], began})
		}
		if errs[i] == nil {
			errs[i] = c.intercept(Point{"write", m.Subject, true})
		}
	}
	return errs
}

// send publishes without waiting for the acknowledgement. For the first such
// message the library starts a goroutine. It would outlast the connection if
// Close ran at the same time.
func (c *Conn) send(m *nats.Msg) (jetstream.PubAckFuture, error) {
	if !c.Health.isConfirmed() {
		return nil, errUnconfirmed
	}
	c.sending.RLock()
	defer c.sending.RUnlock()
	return c.js.PublishMsgAsync(m)
}

// sent is the acknowledgement of a message that was sent, once it comes.
type sent struct {
	jetstream.PubAckFuture
	began time.Time
}

func (c *Conn) await(ctx context.Context, m Message, msg *nats.Msg, f sent) error {
	lost := time.NewTimer(answerTimeout)
	defer lost.Stop()
	var err error
	select {
	case ack := <-f.Ok():
		c.cfg.observe(OpWrite, m.Subject, f.began, nil)
		c.Health.stored(m.Subject)
		again, err := storeAnew(ctx, c, msg, *ack)
		if again {
			msg.Reply = ""
			_, err = c.write(ctx, time.Now(), m, msg)
		}
		return err
	case err = <-f.Err():
	case <-lost.C:
		err = nats.ErrTimeout
	case <-ctx.Done():
		err = ctx.Err()
	}
	c.cfg.observe(OpWrite, m.Subject, f.began, err)
	again, err := writeFailed(ctx, c, m, msg, err)
	if again {
		msg.Reply = ""
		_, err = c.write(ctx, time.Now(), m, msg)
		return err
	}
	return wrapWrite(m.Subject, err)
}

// errRemoved is the error of an attempt that storeAnew repeats.
var errRemoved = errors.New("the message with the same id was removed")

// storeAnew reports whether a message is to be sent again, without its ID: the
// server stores no second message with an ID for half a minute, and Forget may
// have removed the first one.
func storeAnew(ctx context.Context, c *Conn, msg *nats.Msg, ack jetstream.PubAck) (again bool, _ error) {
	if !ack.Duplicate {
		return false, nil
	}
	_, there, err := c.last(ctx, ack.Stream, msg.Subject)
	if there || err != nil {
		return false, err
	}
	msg.Header.Del(jetstream.MsgIDHeader)
	return true, errRemoved
}

// message puts a Message into the server's form. A body that is larger than the
// server takes is stored as an object first.
func (c *Conn) message(ctx context.Context, m Message) (*nats.Msg, error) {
	msg := nats.NewMsg(m.Subject)
	msg.Data = m.Body
	for _, kv := range m.Header {
		msg.Header.Set(kv[0], kv[1])
	}
	if m.ID != "" {
		msg.Header.Set(jetstream.MsgIDHeader, m.ID)
	}
	if m.Fence.Subject != "" {
		msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(m.Fence.Seq, 10))
		if m.Fence.Subject != m.Subject {
			msg.Header.Set(headerFenceSubject, m.Fence.Subject)
		}
	}
	if stream, err := c.streams.Load().streamOf(m.Subject); m.Timer.Target != "" && err == nil {
		m.Dated = c.Clocks.clock(stream).Now()
	}
	if !m.Dated.IsZero() {
		msg.Header.Set(headerWritten, strconv.FormatInt(m.Dated.UnixMilli(), 10))
	}
	if m.Timer.Target != "" {
		msg.Header.Set(headerSchedule, "@at "+c.Clocks.serverTime(m.Timer.At).UTC().Format(time.RFC3339Nano))
		msg.Header.Set(headerTarget, m.Timer.Target)
	}
	if m.Disarm != "" {
		msg.Header.Set(headerScheduler, m.Disarm)
		msg.Header.Set(headerScheduleNext, "purge")
	}
	if err := c.externalize(ctx, msg); err != nil {
		return nil, err
	}
	if m.Sign {
		if err := c.Grants.sign(msg, m.Body); err != nil {
			return nil, err
		}
	}
	return msg, nil
}
