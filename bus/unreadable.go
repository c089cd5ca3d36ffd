package bus

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// An answer to a direct get has the place of its message in headers that the
// server adds at the end of the writer's own. A writer can make them
// unreadable: one line without a colon, and the client library decodes no
// header at all. A writer can also hide them: behind an empty line, after
// headers of the same names. So a reader takes the place only from a header
// that was decoded as a whole. It asks the leader of the stream for every other
// message: that answer has the place apart from the header.

// maxAnswerLines bounds the lines of a header that isWhole accepts. A line may
// be two bytes shorter than isWhole counts it. The lines of the server, which
// an empty line hides, have 92 bytes at least, and a hidden status 23 less.
const maxAnswerLines = 32

// receivedHeader is the size of a message's header as it was received.
func receivedHeader(m *nats.Msg) int { return m.Size() - len(m.Subject) - len(m.Reply) - len(m.Data) }

// isWhole reports whether a message has a header, and its decoded header is all
// of it.
func isWhole(m *nats.Msg) bool {
	size, lines := len("NATS/1.0\r\n\r\n"), 0
	for name, values := range m.Header {
		for _, v := range values {
			size += len(name) + len(": ") + len(v) + len("\r\n")
			lines++
		}
	}
	return lines > 0 && lines <= maxAnswerLines && receivedHeader(m) <= size
}

// fromLeader asks the leader of a stream for one message, under a prefix of the
// JetStream API; ok is false if there is none. A header that cannot be decoded
// is left out.
func fromLeader(ctx context.Context, c *Conn, api, stream string, g directGet) (s Stored, ok bool, _ error) {
	body, err := json.Marshal(g)
	if err != nil {
		return s, false, err
	}
	m, err := ask(ctx, c, func(ctx context.Context) (*nats.Msg, error) {
		m, err := c.nc.RequestWithContext(ctx, api+"STREAM.MSG.GET."+stream, body)
		if errors.Is(err, nats.ErrNoResponders) {
			return nil, nats.ErrJetStreamNotEnabled
		}
		return m, errors.Join(err, refusal(m))
	})
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return s, false, nil
	}
	if err != nil {
		return s, false, err
	}
	var answer struct {
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Header  []byte    `json:"hdrs"`
			Body    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return s, false, err
	}
	got := answer.Message
	s = Stored{Subject: got.Subject, Seq: got.Seq, Time: got.Time, Body: got.Body}
	if header, err := nats.DecodeHeadersMsg(got.Header); err == nil {
		s.Header, s.answer = header, hasPlace(header)
	}
	return s, true, nil
}

// refusal is the error that an answer of the JetStream API reports; nil without
// one.
func refusal(m *nats.Msg) error {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
	}
	if m == nil {
		return nil
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil || answer.Error == nil {
		return nil //nolint:nilerr // it reports none
	}
	return answer.Error
}

// readable returns the messages of an answer, with the messages from the leader
// in place of those with a header that does not show the place. It leaves out
// those that were removed meanwhile.
func (r *reader) readable(ctx context.Context, stream string, g directGet, ms []Stored) ([]Stored, error) {
	api := cmp.Or(g.api, apiOf(r.conn, g.about()))
	at := g.Seq // 0 for a read by time
	if g.StartTime.IsZero() {
		at = max(at, 1)
	}
	var all []Stored
	for _, m := range ms {
		if m.Seq == 0 {
			var ok bool
			var err error
			if m, ok, err = r.placed(ctx, api, stream, g, at); err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
			r.conn.Clocks.pretend(&m)
		}
		all = append(all, m)
		at, g.StartTime = m.Seq+1, time.Time{}
	}
	return InOrder(all), nil
}

// placed asks the leader for the first message from a sequence on that answers
// a direct get.
func (r *reader) placed(
	ctx context.Context, api, stream string, g directGet, at uint64,
) (s Stored, ok bool, err error) {
	if len(g.MultiLast) == 0 {
		return fromLeader(ctx, r.conn, api, stream, directGet{Seq: at, StartTime: g.StartTime, NextFor: g.NextFor})
	}
	g.Seq, g.Batch = at, 1
	first, err := r.exchange(ctx, stream, g)
	if err != nil || first.err != nil || first.last == 0 {
		return s, false, cmp.Or(err, first.err)
	}
	if !Restricted(r.conn) {
		return fromLeader(ctx, r.conn, api, stream, directGet{Seq: first.last})
	}
	// A worker answers only what names the subject.
	for _, filter := range g.MultiLast {
		s, ok, err = fromLeader(ctx, r.conn, api, stream, directGet{Seq: first.last, NextFor: filter})
		if err != nil || ok && s.Seq == first.last {
			return s, ok, err
		}
	}
	return s, false, nil
}
