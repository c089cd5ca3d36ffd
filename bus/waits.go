package bus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/internal/pause"
)

// answerWithin is how long one request waits for its answer before it counts as
// lost.
const answerWithin = 5 * time.Second

// waits is who waits for an answer on a connection. When it breaks, all that
// was asked before may be asked again as soon as there is another one: no
// answer to it comes over that.
type waits struct {
	mu  sync.Mutex
	all map[*wait]bool
	// closed when there is a connection again
	up chan struct{}
}

func newWaits() *waits { return &waits{all: map[*wait]bool{}, up: make(chan struct{})} }

type wait struct{ end context.CancelFunc }

// begin makes a context that ends when an answer does not come any more. The
// caller calls done.
func (ws *waits) begin(ctx context.Context) (_ context.Context, done func()) {
	ctx, end := context.WithTimeout(ctx, answerWithin)
	w := &wait{end}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.all[w] = true
	return ctx, func() {
		end()
		ws.mu.Lock()
		defer ws.mu.Unlock()
		delete(ws.all, w)
	}
}

// cut ends every wait.
func (ws *waits) cut() {
	ws.mu.Lock()
	all := ws.all
	ws.all = map[*wait]bool{}
	ws.mu.Unlock()
	for w := range all {
		w.end()
	}
}

// back ends every pause.
func (ws *waits) back() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	close(ws.up)
	ws.up = make(chan struct{})
}

// retry makes attempts until one is final, or until ctx ends. Between two
// attempts it pauses for 50 ms at first, and for twice as long each time, up to
// 2 s. A new connection ends a pause.
func (ws *waits) retry(ctx context.Context, attempt func() (again bool, err error)) error {
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, 2*time.Second) {
		again, err := attempt()
		if !again {
			return err
		}
		if cause := ws.pause(ctx, delay); cause != nil {
			return fmt.Errorf("%w: %w", err, cause)
		}
	}
}

// pause waits for d. A new connection ends it early. The error is the cause of
// ctx's end.
func (ws *waits) pause(ctx context.Context, d time.Duration) error {
	ws.mu.Lock()
	up := ws.up
	ws.mu.Unlock()
	return pause.AtMost(ctx, d, up)
}

// ask makes a request that may be made twice. While its answer is lost it is
// made again, until ctx ends; but only after this connection has seen the
// streams, since until then nobody may ever answer.
func ask[T any](ctx context.Context, c *Conn, do func(context.Context) (T, error)) (v T, _ error) {
	err := c.waits.retry(ctx, func() (again bool, err error) {
		v, err = askOnce(ctx, c, do)
		return err != nil && ctx.Err() == nil && c.provisioned() && Lost(err), err
	})
	return v, err
}

func askOnce[T any](ctx context.Context, c *Conn, do func(context.Context) (T, error)) (T, error) {
	ctx, done := c.waits.begin(ctx)
	defer done()
	return do(ctx)
}

// Lost reports whether a request to JetStream got no answer, or one that will
// be another in a moment: the server went away, or the stream has no leader.
func Lost(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.Code == http.StatusServiceUnavailable
	}
	// a watch of a bucket is made with the library's older half
	if api, ok := errors.AsType[*nats.APIError](err); ok {
		return api.Code == http.StatusServiceUnavailable
	}
	for _, e := range []error{
		context.DeadlineExceeded, context.Canceled, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrReconnectBufExceeded, nats.ErrDisconnected,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
