package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/httpguard"
	"github.com/axebus/axe/price"
)

const (
	// headerTimeout bounds the time in which a client sends its headers, and
	// bodyTimeout that for the whole request.
	headerTimeout = 10 * time.Second
	bodyTimeout   = time.Minute
	// idleTimeout ends a connection without requests.
	idleTimeout = 2 * time.Minute
	// requestTimeout bounds the work for a request, and writeTimeout the time
	// in which a client reads an answer, or the next part of a stream.
	requestTimeout = 30 * time.Second
	writeTimeout   = time.Minute
	// closeTimeout bounds the end of a server.
	closeTimeout = 5 * time.Second
	// maxBody bounds the body of a request that is no task.
	maxBody = 1 << 20
)

// Config has the settings of a Server.
type Config struct {
	Client *client.Client
	Conn   *bus.Conn
	// Tokens are those of requests. Without any, every request of this
	// machine is admitted.
	Tokens httpguard.Tokens
	// Hosts are names of the server beside its addresses and localhost.
	Hosts []string
	// Prices are those of models. Without any no costs are shown.
	Prices price.Table
	// Log gets the failures of the server. Nil discards them.
	Log *slog.Logger
}

// Server serves the API.
type Server struct {
	*client.Client
	conn    *bus.Conn
	prices  price.Table
	log     *slog.Logger
	handler http.Handler
	mux     *http.ServeMux
	reads   reads
	feeds   *feeds
	// watchers is the number of streams of events.
	watchers atomic.Int32
	// drain is closed when the server begins to end: it ends the streams and
	// the waits for outcomes.
	drain chan struct{}
}

// New makes a server.
func New(cfg Config) *Server {
	s := &Server{
		Client: cfg.Client, conn: cfg.Conn, log: cfg.Log, mux: http.NewServeMux(), drain: make(chan struct{}),
		feeds: newFeeds(cfg.Client, cfg.Prices), prices: cfg.Prices,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.reads = newReads(s)
	guard := httpguard.Guard{Realm: "axe", Tokens: cfg.Tokens, Hosts: cfg.Hosts, Refuse: s.refuseAccess}
	for _, r := range s.routes() {
		s.mux.Handle(r.pattern, guard.CheckOrigin(guard.Require(r.role, s.handle(r))))
	}
	s.addPage()
	s.mux.Handle(catchAll, guard.CheckOrigin(http.HandlerFunc(s.unknown)))
	s.handler = guard.CheckHost(s.mux)
	return s
}

// Serve serves requests until ctx ends, and closes the listener. Trees go on:
// the server only watches them.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	defer s.feeds.close()
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	close(s.drain)
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer stop()
	if srv.Shutdown(ctx) != nil {
		_ = srv.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// display returns the time and the prices that the lines of trees need.
func (s *Server) display() cli.Display { return cli.Display{Now: time.Now(), Prices: s.prices} }

// handle makes the handler of a route.
func (s *Server) handle(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !route.lasting {
			ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
			defer cancel()
			r = r.WithContext(ctx)
			extend(w, requestTimeout+writeTimeout)
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		limit := int64(maxBody)
		if route.takesTask {
			limit = cmp.Or(s.conn.MaxBody(), bus.DefaultMaxBody)
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		if err := route.do(w, r); err != nil {
			s.refuse(w, r, err)
			return
		}
		if r.Method == http.MethodPost {
			s.reads.forget() // the next read shows the change
		}
	})
}

// extend gives a client more time to read the answer.
func extend(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d)) // a test's writer has none
}

// lasts leaves a request without a bound of its own: its body was read. Without
// it the end of bodyTimeout would end the request.
func lasts(w http.ResponseWriter) { _ = http.NewResponseController(w).SetReadDeadline(time.Time{}) }

// unknown answers a request that no route takes.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		probe := &http.Request{Method: method, URL: r.URL, Host: r.Host}
		if _, pattern := s.mux.Handler(probe); pattern != catchAll {
			w.Header().Set("Allow", method)
			s.refuse(w, r, &failure{http.StatusMethodNotAllowed, "method", errors.New("the method must be " + method)})
			return
		}
	}
	s.refuse(w, r, &failure{http.StatusNotFound, "unknown_path", errors.New("no such path: see /v1/openapi.json")})
}

// reply answers with JSON.
func reply(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = cli.PrintJSON(w, v) // the client is gone
	return nil
}

// answered answers with the JSON of v, unless v could not be read.
func answered(w http.ResponseWriter, v any, err error) error {
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, v)
}

// decode reads the JSON body of a request. It refuses unknown keys, and a body
// of another type: a browser sends the form of another site's page without
// asking this server before.
func decode(r *http.Request, into any) error {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return &failure{http.StatusUnsupportedMediaType, "media_type", errors.New("the body must be application/json")}
	}
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return err
		}
		return invalid("the body: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return invalid("the body must be one JSON object")
	}
	return nil
}
