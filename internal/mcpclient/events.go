package mcpclient

import (
	"bytes"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// eventTap is the body of an answer that is a stream of events. It notes the
// answer to its exchange while the SDK reads the stream. An event that is too
// large ends the exchange.
type eventTap struct {
	body     io.ReadCloser
	exchange *exchange
	// limit bounds an event.
	limit int

	line  []byte // the line that is being read
	data  []byte // the data of the event that is being read
	large bool
}

// Read reads from the stream.
func (t *eventTap) Read(p []byte) (int, error) {
	if t.large {
		return 0, errTooLarge
	}
	n, err := t.body.Read(p)
	t.feed(p[:n])
	if err != nil && !t.end() && errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // the SDK would take the event for a whole one
	}
	if len(t.line)+len(t.data) > t.limit {
		t.large = true
		t.line, t.data = nil, nil
		t.exchange.fail(errTooLarge)
		t.exchange.stop()
		return 0, errTooLarge
	}
	return n, err
}

// Close closes the stream.
func (t *eventTap) Close() error { return t.body.Close() }

// feed takes bytes of the stream.
func (t *eventTap) feed(p []byte) {
	for {
		before, after, found := bytes.Cut(p, []byte("\n"))
		t.line = append(t.line, before...)
		if !found {
			return
		}
		t.endLine()
		p = after
	}
}

// endLine takes a whole line. An empty one ends an event.
func (t *eventTap) endLine() {
	line := bytes.TrimRight(t.line, "\r")
	if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
		if len(t.data) > 0 {
			t.data = append(t.data, '\n')
		}
		t.data = append(t.data, bytes.TrimPrefix(data, []byte(" "))...)
	}
	if len(line) == 0 {
		t.endEvent()
	}
	t.line = t.line[:0]
}

// endEvent notes the answer if the event has it. Other events are requests and
// notifications, which are for the SDK. It reports whether the event is a
// message.
func (t *eventTap) endEvent() bool {
	msg, err := jsonrpc.DecodeMessage(t.data)
	t.data = nil
	if answer, ok := msg.(*jsonrpc.Response); ok && err == nil {
		t.exchange.answered(answer)
	}
	return err == nil
}

// end takes the end of the stream, which ends the last event. It reports
// whether that was whole.
func (t *eventTap) end() bool {
	t.endLine()
	return len(t.data) == 0 || t.endEvent()
}
