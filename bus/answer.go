package bus

import (
	"bytes"
	"context"
	"iter"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/internal/pause"
)

// apiAnswer begins the body of an answer of the JetStream API.
var apiAnswer = []byte(`{"type":"io.nats.jetstream.api.`)

// IsAnswer reports whether the message is an answer of the server to a request
// for a read. A user that may only read can name the subject of a run as the
// reply subject of its request, and the server stores the answer there.
func (m Stored) IsAnswer() bool { return m.answer || bytes.HasPrefix(m.Body, apiAnswer) }

// Written is a message with the header and the body that its writer wrote, such
// as one of an export. It has no place.
func Written(header nats.Header, body []byte) Stored {
	return Stored{Header: header, Body: body, answer: hasPlace(header)}
}

// hasPlace reports whether a header as a writer wrote it has the place of a
// message, which only a server writes.
func hasPlace(h nats.Header) bool { return placesIn(h) > 0 }

// placesIn is the number of places that a header has. The server adds one to a
// message that it returns.
func placesIn(h nats.Header) int {
	return max(len(h[jetstream.StreamHeader]), len(h[jetstream.SequenceHeader]))
}

// Messages reads the messages that a filter matches in stream order, without the
// answers of the server to reads. It ends after an error.
func Messages(ctx context.Context, c *Conn, filter string) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		for m, err := range MessagesAndAnswers(ctx, c, filter) {
			if (err != nil || !m.IsAnswer()) && !yield(m, err) {
				return
			}
		}
	}
}

// MessagesAndAnswers is Messages with the answers of the server to reads: for a
// caller that has to know how far it has read.
func MessagesAndAnswers(ctx context.Context, c *Conn, filter string) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		m, ok, err := c.First(ctx, filter)
		if err != nil {
			yield(Stored{}, err)
			return
		}
		if !ok || !yield(m, nil) {
			return
		}
		for m, err := range c.Scan(ctx, filter, m.Seq) {
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// FirstMessage reads the first message of a subject that is no answer of the
// server to a read; ok is false if the replica that answers has none.
func FirstMessage(ctx context.Context, c *Conn, subject string) (m Stored, ok bool, err error) {
	for m, err := range Messages(ctx, c, subject) {
		return m, err == nil, err
	}
	return Stored{}, false, nil
}

// MessagePerSubject reads the last message of every subject that one of the
// filters matches, in stream order. In place of an answer of the server it
// reads the first message of that subject. It leaves out a subject with answers
// alone.
func MessagePerSubject(ctx context.Context, c *Conn, filters ...string) ([]Stored, error) {
	last, err := c.LastPerSubject(ctx, filters...)
	if err != nil {
		return nil, err
	}
	var all []Stored
	for _, m := range last {
		ok := true
		if m.IsAnswer() {
			if m, ok, err = FirstMessage(ctx, c, m.Subject); err != nil {
				return nil, err
			}
		}
		if ok {
			all = append(all, m)
		}
	}
	return InOrder(all), nil
}

// lastAnswer returns the sequence of the last message of a subject, 0 for none,
// as the stream's leader has it. There says that the subject has a message that
// is no answer of the server.
func lastAnswer(ctx context.Context, c *Conn, subject string) (last uint64, there bool, _ error) {
	stream, err := c.streams.Load().streamOf(subject)
	for err == nil {
		m, ok, failed := c.last(ctx, stream, subject)
		if !ok || failed != nil || !m.IsAnswer() {
			return m.Seq, ok, failed
		}
		var seen uint64
		for earlier, failed := range MessagesAndAnswers(ctx, c, subject) {
			if failed != nil || !earlier.IsAnswer() {
				return m.Seq, failed == nil, failed
			}
			seen = earlier.Seq
		}
		if seen >= m.Seq {
			return m.Seq, false, nil
		}
		err = pause.For(ctx, lagPoll) // the replica lags
	}
	return 0, false, err
}
