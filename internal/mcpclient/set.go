package mcpclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/toolset"
)

const (
	// connectTime bounds the start of a server until its first answer.
	connectTime = 30 * time.Second
	// firstPause is the pause after the first failure of a server. It
	// doubles with each failure, up to lastPause.
	firstPause = 500 * time.Millisecond
	lastPause  = 30 * time.Second
	// settled is the life of a connection after which its end is no
	// failure.
	settled = lastPause
	// endingTime bounds the wait for the end of a broken connection.
	endingTime = 5 * time.Second
)

var (
	errClosed = errors.New("the toolset is closed")
	// errConnecting is the cause if a server does not answer when it
	// starts.
	errConnecting = fmt.Errorf("it did not answer within %v", connectTime)
)

// Set is a toolset of an MCP server. It implements toolset.Set.
type Set struct {
	def     configs.Toolset
	log     *slog.Logger
	changed chan struct{}
	// newServer returns the server for one connection. Tests replace it.
	newServer func() server
	// end ends the waits for streams of a server.
	end context.CancelFunc

	// work counts the goroutines that connect and those that watch.
	work sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	current *session
	opening *opening
	// connections is the number of connections that were made.
	connections int
	down        outage
}

// opening is a connection that is being made. All calls that need it share it.
// Session or err is set before done is closed.
type opening struct {
	done    chan struct{}
	cancel  context.CancelCauseFunc
	session *session
	err     error
}

// outage is the state of a server that failed.
type outage struct {
	failures int
	why      error
	until    time.Time
}

// Open returns the toolset of a definition of the kind configs.ToolsetMCP. It
// does not connect. It fails if the definition has neither a command nor a URL.
//
//nolint:contextcheck,nolintlint // contextcheck reads this, unseen by nolintlint
func Open(def configs.Toolset, log *slog.Logger) (*Set, error) {
	if (len(def.Command) == 0) == (def.URL == "") {
		return nil, fmt.Errorf("toolset %q: it needs either a command or a url", def.Name)
	}
	ctx, end := context.WithCancel(context.Background()) // until Close
	s := &Set{
		def: def, log: log.With(slog.String("toolset", def.Name)), changed: make(chan struct{}, 1), end: end,
	}
	s.newServer = func() server { return newProcess(def, s.log) }
	if def.URL != "" {
		s.newServer = func() server { return newRemote(ctx, def, s.silenced) }
	}
	return s, nil
}

// Changed has a token after the server said that its tools have changed, and
// after it was connected anew.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// Tools returns the tools of the server.
func (s *Set) Tools(ctx context.Context) (tools []toolset.Tool, err error) {
	err = s.use(ctx, func(c *session) error {
		all, err := c.list(ctx)
		if err != nil {
			return fmt.Errorf("list the tools of the toolset %q: %w", s.def.Name, err)
		}
		tools = s.callable(ctx, all)
		return nil
	})
	return tools, err
}

// Call carries out a tool. The server finds the key of the call in the field
// KeyMeta of _meta.
func (s *Set) Call(ctx context.Context, call toolset.Call) (res toolset.Result, err error) {
	if call.Task != nil {
		return s.follow(ctx, call)
	}
	if call.Arguments, err = object(call.Arguments); err != nil {
		return toolset.Result{}, err
	}
	err = s.use(ctx, func(c *session) error {
		raw, err := c.call(ctx, call)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			s.work.Go(func() { s.probe(context.WithoutCancel(ctx), c) })
		}
		if err != nil {
			return err
		}
		res, err = resultOf(call.Tool, raw)
		return err
	})
	return res, err
}

// use calls do with the connection. It does so again, with another connection,
// if the first one turns out to have ended before the request was sent.
func (s *Set) use(ctx context.Context, do func(*session) error) error {
	c, err := s.session(ctx)
	if err != nil {
		return err
	}
	err = do(c)
	switch {
	case errors.Is(err, errGone):
		s.retire(c)
	case errors.Is(err, errUnsent) && ctx.Err() == nil:
		if pause.AtMost(ctx, endingTime, c.over) != nil || !c.ended() {
			return err
		}
	default:
		return err
	}
	if c, err = s.session(ctx); err != nil {
		return err
	}
	return do(c)
}

// session returns the connection. It makes one if there is none, and fails at
// once while the server is given a pause.
func (s *Set) session(ctx context.Context) (*session, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	c, o, err := s.begin(ctx)
	if c != nil || err != nil {
		return c, err
	}
	select {
	case <-o.done:
		return o.session, o.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// begin returns the connection, or the opening of one.
func (s *Set) begin(ctx context.Context) (*session, *opening, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, nil, errClosed
	case s.current != nil:
		return s.current, nil, nil
	case s.opening != nil:
		return nil, s.opening, nil
	}
	if left := time.Until(s.down.until); left > 0 {
		return nil, nil, s.downError(left)
	}
	detached, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	o := &opening{done: make(chan struct{}), cancel: cancel}
	s.opening = o
	s.work.Go(func() {
		defer cancel(nil)
		s.connect(detached, o)
	})
	return nil, o, nil
}

// downError is the error of a call while the server is down. It is tried again
// after left.
func (s *Set) downError(left time.Duration) error {
	return fmt.Errorf("the MCP server of the toolset %q is down: %w; it is tried again in %v",
		s.def.Name, s.down.why, left.Round(100*time.Millisecond))
}

// connect makes a connection, and watches it until its end.
func (s *Set) connect(ctx context.Context, o *opening) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTime, errConnecting)
	defer cancel()
	c, err := s.dial(ctx)
	s.mu.Lock()
	s.opening = nil
	again := s.connections > 0
	if err != nil {
		o.err = s.failed(err)
	} else {
		o.session, s.current = c, c
		s.connections++
		s.work.Go(func() { s.watch(c) })
	}
	s.mu.Unlock()
	if err == nil && again {
		pause.Notify(s.changed)
	}
	close(o.done)
}

// failed notes a failure of the server, and returns the error of a call at this
// moment. The lock is held.
func (s *Set) failed(why error) error {
	left := pauseAfter(s.down.failures)
	s.down = outage{failures: s.down.failures + 1, why: why, until: time.Now().Add(left)}
	return s.downError(left)
}

// pauseAfter is the pause after a failure with a number of failures before it.
func pauseAfter(failures int) time.Duration {
	return min(firstPause<<min(failures, 10), lastPause)
}

// watch waits for the end of a connection and cleans up after it.
func (s *Set) watch(c *session) {
	why := c.wait()
	s.mu.Lock()
	if s.current == c {
		s.current = nil
		if time.Since(c.began) >= settled {
			s.down = outage{}
		} else {
			_ = s.failed(why)
		}
	}
	s.mu.Unlock()
	s.log.Debug("an MCP connection has ended", slog.Any("error", why))
	close(c.over)
}

// retire lets the next call make a new connection. This one is closed after its
// last call.
func (s *Set) retire(c *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == c {
		s.current = nil
		s.work.Go(c.close)
	}
}

// probe ends a process that hangs: a call got no answer in its time, and a ping
// gets none either. The next use starts another process, after the same pause
// as after any other end. Any answer to the ping counts, a refusal too.
func (s *Set) probe(ctx context.Context, c *session) {
	p, ok := c.server.(*process)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.pingTime)
	defer cancel()
	if !c.probe.CompareAndSwap(nil, &cancel) {
		return
	}
	defer c.probe.Store(nil)
	_ = c.client.Ping(ctx, nil)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		s.log.WarnContext(ctx, "an MCP server hangs and is ended")
		p.hang()
	}
}

// silenced gives up a connection on which the server has ended the stream of
// notifications, since the SDK opens none anew. Tools may have changed unseen.
// On a young connection the end is ignored: some servers keep no such stream.
func (s *Set) silenced(from server) {
	s.mu.Lock()
	c := s.current
	s.mu.Unlock()
	if c != nil && c.server == from && time.Since(c.began) >= settled {
		s.retire(c)
		pause.Notify(s.changed)
	}
}

// Close ends the connection and the server's processes. A process has a few
// seconds to end by itself before it is killed.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	c, o := s.current, s.opening
	s.current = nil
	s.mu.Unlock()
	s.end()
	if o != nil {
		o.cancel(errClosed)
		<-o.done
		c = o.session
	}
	if c != nil {
		c.close()
	}
	s.work.Wait()
}
