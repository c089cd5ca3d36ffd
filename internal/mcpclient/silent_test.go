package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/toolset"
)

// memory is a listener for connections in memory, whose time is virtual in a
// bubble.
type memory struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *memory) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *memory) Close() error {
	close(p.closed)
	return nil
}

func (*memory) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// dial returns the client's end of a connection.
func (p *memory) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours, nil
}

// inMemory returns a set for the server of a handler, which it reaches in
// memory. The caller closes the set, and calls end after that.
func inMemory(t *testing.T, h http.Handler) (s *Set, end func()) {
	t.Helper()
	listener := &memory{make(chan net.Conn), make(chan struct{})}
	web := &http.Server{Handler: h}
	var serving sync.WaitGroup
	serving.Go(func() { _ = web.Serve(listener) })
	s, err := Open(configs.Toolset{Name: "near", URL: "http://127.0.0.1"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	newServer := s.newServer
	s.newServer = func() server {
		made := newServer()
		made.(*remote).base.DialContext = listener.dial
		return made
	}
	return s, func() {
		_ = web.Close()
		serving.Wait()
	}
}

// pingID is in a ping that a silent server may send, and in its answer.
const pingID = `"id":4711`

// silent is a server that begins no stream of notifications, and does not reply
// to the answer of a ping. It redirects a GET once before.
func silent(h http.Handler) http.Handler { return without(h, func(http.ResponseWriter) {}) }

// unfinished is a server like silent, which begins a refusal and does not end
// it.
func unfinished(h http.Handler) http.Handler {
	return without(h, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusNotImplemented)
		_ = http.NewResponseController(w).Flush()
	})
}

// without is the server of h, except that silent and unfinished wait after
// begin.
func without(h http.Handler, begin func(http.ResponseWriter)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		listens := r.Header.Get("Mcp-Method") == "subscriptions/listen" || bytes.Contains(body, []byte(pingID))
		switch {
		case err != nil:
		case r.Method == http.MethodGet && r.URL.Path != "/there":
			http.Redirect(w, r, "/there", http.StatusFound)
		case r.Method == http.MethodGet || listens:
			begin(w)
			<-r.Context().Done()
		default:
			r.Body = io.NopCloser(bytes.NewReader(body))
			h.ServeHTTP(w, r)
		}
	})
}

// inBubble runs a test in a bubble with servers of two versions of the protocol.
// Change returns a changed server.
func inBubble(t *testing.T, change func(http.Handler) http.Handler, test func(t *testing.T, s *Set)) {
	t.Helper()
	old := &mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}}
	for name, server := range map[string]func() http.Handler{
		"listen": func() http.Handler { return streamable(testServer(), false) },
		"get":    func() http.Handler { return streamable(serverWith(old), true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, end := inMemory(t, change(server()))
				defer end()
				defer s.Close()
				test(t, s)
			})
		})
	}
}

// TestSilentStream: a server that does not begin its stream of notifications is
// usable after headerTime, without the stream. So is one that does not end its
// refusal.
func TestSilentStream(t *testing.T) {
	for _, change := range []func(http.Handler) http.Handler{silent, unfinished} {
		inBubble(t, change, func(t *testing.T, s *Set) {
			t.Helper()
			began := time.Now()
			if got := callText(t, s, "echo", `{}`); got != "{} tree.r-1-0" {
				t.Errorf("text %q, want {} tree.r-1-0", got)
			}
			if took := time.Since(began); took != headerTime {
				t.Errorf("the first call took %v, want %v", took, headerTime)
			}
			callText(t, s, "echo", `{}`)
			if s.connections != 1 {
				t.Errorf("%d connections, want 1", s.connections)
			}
		})
	}
}

// TestStreamGoesOn: a stream of notifications that has begun goes on after
// headerTime.
func TestStreamGoesOn(t *testing.T) {
	inBubble(t, func(h http.Handler) http.Handler { return h }, func(t *testing.T, s *Set) {
		t.Helper()
		callText(t, s, "echo", `{}`)
		time.Sleep(2 * headerTime)
		callText(t, s, "grow", `{}`)
		<-s.Changed()
	})
}

// TestCloseSilentStream: Close ends the wait for a stream of notifications.
func TestCloseSilentStream(t *testing.T) {
	inBubble(t, silent, func(t *testing.T, s *Set) {
		t.Helper()
		var call sync.WaitGroup
		call.Go(func() { _, _ = s.Tools(t.Context()) })
		synctest.Wait()
		began := time.Now()
		s.Close()
		call.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v, want no time", took)
		}
	})
}

// TestCloseSilentAnswer: Close does not wait for a server that takes no answer
// to its ping.
func TestCloseSilentAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, end := inMemory(t, silent(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Mcp-Method") == "tools/call" {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: {\"jsonrpc\":\"2.0\","+pingID+",\"method\":\"ping\"}\n\n")
			}
			rawHandler(true)(w, r)
		})))
		defer end()
		defer s.Close()
		callText(t, s, "a", `{"result":{"content":[]}}`)
		synctest.Wait()
		began := time.Now()
		s.Close()
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v, want no time", took)
		}
	})
}

// endless writes a body of 64 MiB, and adds the bytes that the client took to
// written.
func endless(w http.ResponseWriter, code int, kind string, written *atomic.Int64) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(code)
	for piece := bytes.Repeat([]byte("data: x\n"), 8<<10); written.Load() < 64<<20; {
		n, err := w.Write(piece)
		written.Add(int64(n))
		if err != nil {
			return
		}
	}
}

// TestEndlessAnswer: the client takes no more than maxMessage of a body that is
// no good stream of events, and the call fails.
func TestEndlessAnswer(t *testing.T) {
	const events, object = "text/event-stream", "application/json"
	isCall := func(r *http.Request) bool { return r.Header.Get("Mcp-Method") == "tools/call" }
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, *atomic.Int64) bool{
		"bad status": func(w http.ResponseWriter, _ *http.Request, written *atomic.Int64) bool {
			endless(w, http.StatusTeapot, events, written)
			return true
		},
		"no redirect": func(w http.ResponseWriter, r *http.Request, written *atomic.Int64) bool {
			if isCall(r) {
				endless(w, http.StatusMultipleChoices, object, written)
			}
			return isCall(r)
		},
		"redirect": func(w http.ResponseWriter, r *http.Request, written *atomic.Int64) bool {
			switch {
			case r.URL.Path == "/there":
				endless(w, http.StatusOK, object, written)
			case isCall(r):
				http.Redirect(w, r, "/there", http.StatusFound)
			default:
				return false
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			var written atomic.Int64
			s := open(t, service(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !answer(w, r, &written) {
					rawHandler(false)(w, r)
				}
			})))
			_ = callError(t, s, "a", `{}`)
			// The kernel takes a few MiB beside those that the client reads.
			if n := written.Load(); n >= 2*maxMessage {
				t.Errorf("the client took %d MiB, want at most %d", n>>20, maxMessage>>20)
			}
		})
	}
}

// TestEndlessRefusal: the client takes no more than maxErrorBody of the answer
// to a notification.
func TestEndlessRefusal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var written atomic.Int64
	refused := make(chan struct{})
	s := open(t, service(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Header.Get("Mcp-Method") == "tools/call":
			cancel()
			<-r.Context().Done()
		case bytes.Contains(body, []byte("notifications/cancelled")) && written.Load() == 0:
			endless(w, http.StatusBadRequest, "application/json", &written)
			close(refused)
		default:
			r.Body = io.NopCloser(bytes.NewReader(body))
			rawHandler(false)(w, r)
		}
	})))
	if _, err := s.Call(ctx, toolset.Call{Tool: "a"}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	<-refused
	if n := written.Load(); n >= 2*maxMessage {
		t.Errorf("the client took %d MiB, want less", n>>20)
	}
}
