package bus

import (
	"bytes"
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// apiAnswer begins the body of an answer of the JetStream API.
var apiAnswer = []byte(`{"type":"io.nats.jetstream.api.`)

// IsAnswer reports whether the message is an answer of the server to a request
// for a read. A user that may only read can name the subject of a run as the
// reply subject of its request, and the server stores the answer there.
func (m Stored) IsAnswer() bool { return m.answer || bytes.HasPrefix(m.Body, apiAnswer) }

// hasPlace reports whether a header as a writer wrote it has the place of a
// message, which only a server writes.
func hasPlace(h nats.Header) bool { return len(h[jetstream.SequenceHeader]) > 0 }

// FirstOutcome reads the first message of a subject that is no answer of the
// server to a read; ok is false if the replica that answers has none.
func FirstOutcome(ctx context.Context, c *Conn, subject string) (m Stored, ok bool, err error) {
	m, ok, err = c.First(ctx, subject)
	if err != nil || !ok || !m.IsAnswer() {
		return m, ok, err
	}
	for m, err := range c.Scan(ctx, subject, m.Seq) {
		if err != nil || !m.IsAnswer() {
			return m, err == nil, err
		}
	}
	return Stored{}, false, nil
}
