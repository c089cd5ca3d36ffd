package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/axebus/axe/internal/text"
)

// stdio is the SDK's connection to a process, with one message on each line. It
// notes in the exchange of a request whether it was sent, and its answer.
type stdio struct {
	process *process
	lines   *lineReader
	// queue has the lines for the writer.
	queue   chan line
	closing sync.Once
	closed  chan struct{}

	mu sync.Mutex
	// calls has the exchanges of the requests in flight.
	calls map[jsonrpc.ID]*exchange
}

// line is a message on its way to the server.
type line struct {
	bytes []byte
	// exchange is nil for a message that is no call.
	exchange *exchange
	// done gets the result of the write.
	done chan error
}

func newStdio(p *process) *stdio {
	return &stdio{
		process: p,
		lines:   newLineReader(p.pipes.out, p.limit),
		queue:   make(chan line),
		closed:  make(chan struct{}),
		calls:   map[jsonrpc.ID]*exchange{},
	}
}

// SessionID is empty: a process has one session.
func (c *stdio) SessionID() string { return "" }

// Read returns the next message. It skips a line that is no JSON object: some
// servers print a greeting for people.
func (c *stdio) Read(context.Context) (jsonrpc.Message, error) {
	for {
		l, err := c.lines.next()
		switch {
		case errors.Is(err, errTooLarge):
			if answer := c.answerTooLarge(l); answer != nil {
				return answer, nil
			}
			return nil, err
		case err != nil:
			return nil, c.readFailed(err)
		case !bytes.HasPrefix(l, []byte("{")):
			c.process.log.Debug("an MCP server wrote a line that is no message",
				slog.String("line", text.Truncate(string(l), maxLogLine)))
			continue
		}
		msg, err := jsonrpc.DecodeMessage(l)
		if err != nil {
			return nil, fmt.Errorf("the server sent a malformed message: %w", err)
		}
		if answer, ok := msg.(*jsonrpc.Response); ok {
			c.answered(answer)
		}
		return msg, nil
	}
}

// readFailed closes a connection that cannot be read any more, and returns the
// most exact error: io.EOF if Close ended the read, or how the process ended.
func (c *stdio) readFailed(err error) error {
	select {
	case <-c.closed:
		return io.EOF
	default:
	}
	_ = c.Close()
	if c.process.endsWithin(drain) {
		c.process.stderr.settle(drain)
		return c.process.failure()
	}
	if errors.Is(err, io.EOF) {
		return errors.New("the server has closed its output")
	}
	return err
}

// answerTooLarge returns an error as the answer in place of one that is too
// large. L has the head and the tail of that message. The result is nil if the
// message is no answer to a call.
func (c *stdio) answerTooLarge(l []byte) *jsonrpc.Response {
	id, ok := answerID(l)
	if !ok {
		return nil
	}
	answer := &jsonrpc.Response{ID: id, Error: errTooLarge}
	c.answered(answer)
	return answer
}

// answered notes an answer in the exchange of its request.
func (c *stdio) answered(answer *jsonrpc.Response) {
	c.mu.Lock()
	x := c.calls[answer.ID]
	c.mu.Unlock()
	if x != nil {
		x.answered(answer)
	}
}

// Write sends a message. If ctx ends, the message may be sent later. A request
// counts as sent from before the writer has its line: ctx may end before the
// writer begins.
func (c *stdio) Write(ctx context.Context, msg jsonrpc.Message) error {
	data, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	l := line{bytes: append(data, '\n'), done: make(chan error, 1)}
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		l.exchange = exchangeOf(ctx)
		c.expect(req.ID, l.exchange)
	}
	l.setSent(true)
	if err := c.handOver(ctx, l); err != nil {
		l.setSent(false)
		return err
	}
	select {
	case err := <-l.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// handOver waits until the writer takes a line.
func (c *stdio) handOver(ctx context.Context, l line) error {
	select {
	case c.queue <- l:
		return nil
	case <-c.closed:
		return io.ErrClosedPipe
	case <-c.process.exited:
		return io.ErrClosedPipe
	case <-ctx.Done():
		return ctx.Err()
	}
}

// setSent notes whether the request of a line may have reached the server.
func (l line) setSent(sent bool) {
	if l.exchange != nil {
		l.exchange.setSent(sent)
	}
}

// expect keeps the exchange of a call until it ends.
func (c *stdio) expect(id jsonrpc.ID, x *exchange) {
	if x == nil {
		return
	}
	x.expect(id)
	c.mu.Lock()
	c.calls[id] = x
	c.mu.Unlock()
	x.onForget(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.calls, id)
	})
}

// writeAll writes the messages one after the other, until the connection is
// closed. It is the only writer: a message that the process does not read holds
// up the writer, and no caller.
func (c *stdio) writeAll() {
	for {
		select {
		case l := <-c.queue:
			l.done <- c.write(l)
		case <-c.closed:
			return
		case <-c.process.exited:
			return
		}
	}
}

// write writes one message. A request was not sent if a part of its JSON could
// not be written.
func (c *stdio) write(l line) error {
	n, err := c.process.pipes.in.Write(l.bytes)
	if err != nil && n < len(l.bytes)-1 {
		l.setSent(false)
	}
	return err
}

// Close closes the input of the process, and lets a Read return.
func (c *stdio) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		_ = c.process.pipes.in.Close()
		_ = c.process.pipes.out.SetReadDeadline(time.Now())
	})
	return nil
}
