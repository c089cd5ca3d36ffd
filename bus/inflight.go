package bus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// answerTimeout is the time after which a request counts as lost.
const answerTimeout = 5 * time.Second

// inflight holds the requests of a connection that have no answer yet. When the
// connection breaks, their answers cannot come any more, so all of them end.
// They may be made again as soon as there is another connection.
type inflight struct {
	mu   sync.Mutex
	open map[*request]bool
	// up is closed when there is a connection again.
	up chan struct{}
	// deaf is the violation by which the connection gets no answers; nil if
	// it may subscribe to its inboxes.
	deaf error
	// views counts the watches of each subject (Watch). A user may lack
	// permission for the subject.
	views map[string]int
	// space is that of the connection.
	space subjects.Space
	// repeats is the number of attempts that were made again.
	repeats atomic.Uint64
	// dials is the number of attempts to connect. It changes before any
	// message of a new connection, and costs no lock of the client library.
	dials atomic.Uint64
	// redialed is the time in ns since 1970 of the last attempt to connect
	// after the first one, 0 without one.
	redialed atomic.Int64
}

// dialing notes an attempt to connect.
func (f *inflight) dialing() {
	if f.dials.Add(1) > 1 {
		f.redialed.Store(time.Now().UnixNano())
	}
}

func newInflight() *inflight {
	return &inflight{open: map[*request]bool{}, views: map[string]int{}, up: make(chan struct{})}
}

// request is a request that has no answer yet.
type request struct {
	of *inflight
	// subject is empty for a request of the library, which chooses it.
	subject string
	end     context.CancelFunc
	// refusal is the violation of a permission that ended the request.
	refusal error
}

// begin makes the context of one request. The context ends after answerTimeout,
// when the connection breaks, and when a permission for the request is missing.
// The caller calls done.
func (f *inflight) begin(ctx context.Context, subject string) (context.Context, *request) {
	ctx, end := context.WithTimeout(ctx, answerTimeout)
	return ctx, f.add(&request{of: f, subject: subject, end: end})
}

// several makes the calls of do, which are requests of the library with its own
// timeouts. It ends them when the connection breaks, and when a permission for
// one of them is missing.
func (f *inflight) several(ctx context.Context, do func(context.Context) error) error {
	ctx, end := context.WithCancel(ctx)
	r := f.add(&request{of: f, end: end})
	defer r.done()
	return r.reason(ended(ctx, do(ctx)))
}

// ended returns the cause of ctx's end for an error that reports an end: the
// library returns no causes. It returns every other error, and every error
// while ctx lasts, as it is.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return context.Cause(ctx)
	}
	return err
}

// add notes an open request.
func (f *inflight) add(r *request) *request {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open[r] = true
	if f.deaf != nil {
		r.refusal = f.deaf
		r.end()
	}
	return r
}

func (r *request) done() {
	r.end()
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	delete(r.of.open, r)
}

// reason returns the reason for an error of the request: the violation of a
// permission that ended it, or else the error itself.
func (r *request) reason(err error) error {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	if err != nil && r.refusal != nil {
		return r.refusal
	}
	return err
}

// disconnected ends every request.
func (f *inflight) disconnected() {
	f.mu.Lock()
	open := f.open
	f.open = map[*request]bool{}
	f.mu.Unlock()
	for r := range open {
		r.end()
	}
}

// view notes a watch of a subject. The caller calls ended at its end.
func (f *inflight) view(subject string) (ended func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.views[subject]++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.views[subject]--; f.views[subject] == 0 {
			delete(f.views, subject)
		}
	}
}

// violated ends the requests that a server may have refused for want of a
// permission. The server reports a violation apart from the request, with its
// subject. If no open request has that subject, violated ends all requests of
// the library, whose subjects are unknown, unless the subject is one that only
// messages without an answer have. A connection that may not subscribe
// to its inboxes gets no answer at all. It reports whether it ended any, or
// whether the violation is one of Watch, which may see nothing.
func (f *inflight) violated(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var named, others []*request
	_, rest, _ := strings.Cut(err.Error(), `to "`)
	subject, _, _ := strings.Cut(rest, `"`)
	subscription := strings.Contains(err.Error(), "Permissions Violation for Subscription")
	inbox := strings.HasPrefix(subject, subjects.InboxPrefix)
	if subscription && inbox {
		f.deaf = err
	}
	if subscription && !inbox {
		return f.views[subject] > 0
	}
	for r := range f.open {
		switch {
		case subscription:
			named = append(named, r)
		case r.subject == "":
			others = append(others, r)
		case strings.Contains(err.Error(), strconv.Quote(r.subject)):
			named = append(named, r)
		}
	}
	if len(named) == 0 && !inbox && !f.unanswered(subject) {
		named = others
	}
	for _, r := range named {
		r.refusal = err
		r.end()
	}
	return len(named) > 0
}

// unanswered reports whether messages to a subject, which is no inbox, have no
// answer: live messages, and acknowledgements.
func (f *inflight) unanswered(subject string) bool {
	live := strings.TrimSuffix(f.space.LiveAll(), ">")
	return strings.HasPrefix(subject, live) || strings.HasPrefix(subject, "$JS.ACK.")
}

// Forbidden reports whether an error is the violation of a permission: the
// server does not let the user of the connection do this.
func Forbidden(err error) bool { return errors.Is(err, nats.ErrPermissionViolation) }

// Unauthorized reports whether an error is that of a server that does not know
// the credentials of the connection.
func Unauthorized(err error) bool { return errors.Is(err, nats.ErrAuthorization) }

// reconnected ends every pause.
func (f *inflight) reconnected() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deaf = nil
	close(f.up)
	f.up = make(chan struct{})
}

// Interruptions returns a number that grows with each interruption: an attempt
// to connect, the first one included, or a request that was repeated because it
// got no answer or was refused for a moment. While the number stays the same,
// every answer has come from a server that was reachable since the request was
// made.
func (c *Conn) Interruptions() uint64 { return c.inflight.dials.Load() + c.inflight.repeats.Load() }

// retry makes attempts until one is final, or until ctx ends. It makes none if
// ctx has ended before: an attempt may return an answer that came before it
// looked at ctx. Between two attempts retry pauses for 50 ms at first, and for
// twice as long each time, up to 2 s. A new connection ends a pause.
func (f *inflight) retry(ctx context.Context, attempt func() (again bool, err error)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for delay := 50 * time.Millisecond; ; delay = min(2*delay, 2*time.Second) {
		again, err := attempt()
		if !again {
			return err
		}
		f.repeats.Add(1)
		if cause := f.pause(ctx, delay); cause != nil {
			return fmt.Errorf("%w: %w", err, cause)
		}
	}
}

// next returns a channel that is closed when there is a new connection.
func (f *inflight) next() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.up
}

// pause waits for d. A new connection ends it early. The error is the cause of
// ctx's end.
func (f *inflight) pause(ctx context.Context, d time.Duration) error {
	return pause.AtMost(ctx, d, f.next())
}

// ask makes a request, and repeats it until there is an answer or ctx ends. The
// request must be harmless when it is repeated. As long as the connection has
// not seen the streams, ask makes one attempt: an answer may never come.
func ask[T any](ctx context.Context, c *Conn, do func(context.Context) (T, error)) (v T, _ error) {
	err := c.inflight.retry(ctx, func() (again bool, err error) {
		v, err = askOnce(ctx, c, do)
		return err != nil && ctx.Err() == nil && c.provisioned() && Lost(err), err
	})
	return v, err
}

func askOnce[T any](ctx context.Context, c *Conn, do func(context.Context) (T, error)) (T, error) {
	began := time.Now()
	ctx, r := c.inflight.begin(ctx, "")
	defer r.done()
	v, err := do(ctx)
	c.cfg.observe(OpAPI, "", began, nil)
	return v, r.reason(ended(ctx, err))
}

// Lost reports whether a request to JetStream got no answer, or an answer that
// will differ in a moment: the server went away, or the stream has no leader.
func Lost(err error) bool {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.Code == http.StatusServiceUnavailable
	}
	passing := []error{
		context.DeadlineExceeded, context.Canceled,
		nats.ErrTimeout, nats.ErrNoResponders, nats.ErrReconnectBufExceeded, nats.ErrDisconnected,
	}
	return slices.ContainsFunc(passing, func(e error) bool { return errors.Is(err, e) })
}
