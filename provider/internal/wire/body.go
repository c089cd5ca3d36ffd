package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxBody bounds the bytes of one answer. The longest answers of today's models
// have half a megabyte.
const maxBody = 16 << 20

// maxRefusal bounds the bytes of an answer with a status of failure. An error
// shows at most a thousand characters of it.
const maxRefusal = 64 << 10

// DefaultIdleTimeout is the default of Config.IdleTimeout.
const DefaultIdleTimeout = time.Minute

// leastProgress is the number of bytes that an answer has to bring in each idle
// timeout. A server that sends one byte a second brings 60.
const leastProgress = 1 << 10

// errStalled is the cause that ends a request with an answer that has stalled.
var errStalled = errors.New("the answer stalled")

// readBody reads the body of a response. It reads no more than the bound, and
// nothing of an answer that announces more. If the answer stalls, readBody
// calls abort. It returns bytes also with an error, because a part of an
// error's body is worth showing.
func (e *Endpoint) readBody(resp *http.Response, abort context.CancelCauseFunc) ([]byte, error) {
	limit := int64(maxBody)
	if resp.StatusCode/100 != 2 {
		limit = maxRefusal
	} else if resp.ContentLength > limit {
		return nil, tooLong(limit)
	}
	r := &pacedReader{Reader: resp.Body, idle: e.idle, abort: abort}
	defer r.stop()
	return readBounded(r, limit)
}

// readBounded returns at most limit bytes of r, with an error if r has more.
func readBounded(r io.Reader, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(body)) > limit {
		return body[:limit], tooLong(limit)
	}
	return body, err
}

func tooLong(limit int64) error { return fmt.Errorf("it is longer than %d bytes", limit) }

// pacedReader aborts a request with an answer that has begun and then brings
// less than leastProgress in an idle timeout. White space does not begin an
// answer: some servers send it while the model is at work.
type pacedReader struct {
	io.Reader
	// idle is the timeout; 0 or less: none.
	idle  time.Duration
	abort context.CancelCauseFunc
	// timer runs from the beginning of the answer on.
	timer *time.Timer
	// progress is the number of bytes since the timer was set.
	progress int
}

// Read implements io.Reader.
func (r *pacedReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	switch {
	case r.idle <= 0:
	case r.timer == nil:
		if len(bytes.TrimSpace(p[:n])) > 0 {
			r.timer = time.AfterFunc(r.idle, func() { r.abort(errStalled) })
		}
	default:
		if r.progress += n; r.progress >= leastProgress {
			r.progress = 0
			r.timer.Reset(r.idle)
		}
	}
	return n, err
}

func (r *pacedReader) stop() {
	if r.timer != nil {
		r.timer.Stop()
	}
}
