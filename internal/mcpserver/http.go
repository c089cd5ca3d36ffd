package mcpserver

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/internal/httpguard"
	"github.com/axebus/axe/internal/pause"
)

// Path is the path of the endpoint over HTTP.
const Path = "/mcp"

const (
	// headerVersion has the version of the protocol that a client speaks.
	headerVersion = "Mcp-Protocol-Version"
	// headerSession has the session of a client of an earlier version.
	headerSession = "Mcp-Session-Id"
	// headerMethod has the method of a request. Clients send it since version
	// sessionless.
	headerMethod = "Mcp-Method"
	// listenMethod is the method of a request that waits for notifications.
	listenMethod = "subscriptions/listen"
	// sessionless is the first version without sessions.
	sessionless = "2026-07-28"

	// headerTimeout bounds the time in which a client sends its headers.
	headerTimeout = 10 * time.Second
	// closeTimeout bounds the end of a server: the wait for answers, the
	// pause of readTime and the end of the connections together.
	closeTimeout = 5 * time.Second
	// readTime is the pause between the last answer and the end of the
	// streams of notifications. In it the clients read their answers: a
	// client whose stream has ended drops its unread calls. closeTimeout
	// may cut the pause short.
	readTime = 2 * time.Second
	// sessionTimeout ends a session without requests.
	sessionTimeout = 12 * time.Hour
)

// ServeHTTP serves clients over streamable HTTP at Path, until ctx ends. Each
// request needs a token with the role Submit. Without tokens every request is
// admitted, so the listener has to be a local one (httpguard.Listen). Trees go
// on if their calls are in flight at the end. ServeHTTP closes the listener.
func (s *Server) ServeHTTP(ctx context.Context, l net.Listener, tokens httpguard.Tokens) error {
	defer l.Close()
	return s.watched(ctx, func(ctx context.Context) error {
		streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
		defer endStreams()
		requests := newBusy()
		srv := &http.Server{Handler: s.handler(streams, requests, tokens), ReadHeaderTimeout: headerTimeout}
		ended := make(chan error, 1)
		go func() { ended <- srv.Serve(l) }()
		select {
		case err := <-ended:
			return err
		case <-ctx.Done():
			s.calls.stop()
			ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
			defer stop()
			if requests.count() > 0 {
				requests.wait(ctx)
				_ = pause.For(ctx, readTime)
			}
			endStreams()
			s.close(ctx, srv)
			if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		}
	})
}

// close ends all connections and sessions. It waits for requests until ctx
// ends.
func (s *Server) close(ctx context.Context, srv *http.Server) {
	if err := srv.Shutdown(ctx); err != nil {
		_ = srv.Close()
	}
	var closing sync.WaitGroup
	for session := range s.mcp.Sessions() {
		closing.Go(func() { _ = session.Close() })
	}
	closing.Wait()
}

// handler checks the requests, and hands each to the protocol's handler for the
// version that the client speaks. Clients of earlier versions have sessions.
// A request that waits for notifications ends when the context streams ends.
// The set requests has each other request until its handler returns.
func (s *Server) handler(streams context.Context, requests *busy, tokens httpguard.Tokens) http.Handler {
	same := func(*http.Request) *mcp.Server { return s.mcp }
	sessions := mcp.NewStreamableHTTPHandler(same, &mcp.StreamableHTTPOptions{
		Logger: s.cfg.Log, SessionTimeout: sessionTimeout, EventStore: mcp.NewMemoryEventStore(nil),
	})
	stateless := mcp.NewStreamableHTTPHandler(same, &mcp.StreamableHTTPOptions{
		Logger: s.cfg.Log, Stateless: true, PropagateRequestCancellation: true,
	})
	mux := http.NewServeMux()
	mux.HandleFunc(Path, func(w http.ResponseWriter, r *http.Request) {
		ctx, end := context.WithCancel(r.Context())
		defer end()
		if r.Method == http.MethodGet || r.Header.Get(headerMethod) == listenMethod {
			defer context.AfterFunc(streams, end)()
		} else {
			requests.add(r)
			defer requests.done(r)
		}
		if r.Header.Get(headerVersion) >= sessionless {
			ctx = context.WithValue(ctx, connectionKey{}, true)
			stateless.ServeHTTP(w, r.WithContext(ctx)) //nolint:contextcheck // it is the request's
			return
		}
		if r.Method == http.MethodDelete && r.Header.Get(headerSession) != "" {
			// The client ends its session. The calls of the session end
			// first.
			s.calls.endSession(r.Header.Get(headerSession))
		}
		sessions.ServeHTTP(w, r.WithContext(ctx)) //nolint:contextcheck // it is the request's
	})
	guard := httpguard.Guard{Realm: "axe mcp", Tokens: tokens}
	return guard.CheckHost(guard.CheckOrigin(guard.Require(httpguard.Submit, mux)))
}

// connectionKey marks the context of each request since version sessionless. A
// client of such a version cancels a request by closing its connection.
type connectionKey struct{}

// endsWithConnection reports whether a call's context ends when the client's
// connection ends.
func endsWithConnection(ctx context.Context) bool { return ctx.Value(connectionKey{}) != nil }
