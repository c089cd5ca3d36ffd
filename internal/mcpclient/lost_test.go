package mcpclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/toolset"
)

// running connects a set, and returns the process of the connection.
func running(t *testing.T, s *Set) *process {
	t.Helper()
	c, err := s.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c.server.(*process)
}

// skipPause lets a set connect again without a pause.
func skipPause(s *Set) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down.until = time.Time{}
}

// TestDeathDuringCall: a call is lost if its server dies, and its error has the
// reason. The next call fails at once, and is not lost. After the pause another
// process carries calls out.
func TestDeathDuringCall(t *testing.T) {
	s := open(t, program(t, "tools"))
	c, err := s.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = callError(t, s, "die", `{}`)
	for _, want := range []string{"exit status 7", "out of luck"} {
		if !errors.Is(err, toolset.ErrLost) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s and %v", err, want, toolset.ErrLost)
		}
	}
	<-c.over
	err = callError(t, s, "echo", `{}`)
	if errors.Is(err, toolset.ErrLost) || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("error %v, want one that has the exit status and is not %v", err, toolset.ErrLost)
	}
	skipPause(s)
	if got := callText(t, s, "echo", `{}`); got != "{} tree.r-1-0" {
		t.Errorf("text %q, want {} tree.r-1-0", got)
	}
}

// TestDeathBeforeCall: a call that comes after the death of its server is not
// lost. Another process carries it out, or it fails since the server is down.
func TestDeathBeforeCall(t *testing.T) {
	s := open(t, program(t, "tools"))
	for range 5 {
		p := running(t, s)
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.exited
		_, err := s.Call(t.Context(), toolset.Call{Tool: "echo", Key: "k"})
		if errors.Is(err, toolset.ErrLost) || err != nil && !strings.Contains(err.Error(), "signal: killed") {
			t.Errorf("error %v, want none, or that the server was killed and not %v", err, toolset.ErrLost)
		}
		skipPause(s)
	}
}

// TestDeathAfterLongLife: a server dies after a long connection. The next call
// starts another process at once, without a pause.
func TestDeathAfterLongLife(t *testing.T) {
	s := open(t, program(t, "tools"))
	c, err := s.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.began = time.Now().Add(-settled)
	p := c.server.(*process)
	_ = p.cmd.Process.Kill()
	<-p.exited
	if got := callText(t, s, "echo", `{}`); got != "{} tree.r-1-0" {
		t.Errorf("text %q, want {} tree.r-1-0", got)
	}
}

// TestStartFails: the error of a server that does not start has its reason.
func TestStartFails(t *testing.T) {
	for name, tt := range map[string]struct {
		def  configs.Toolset
		want []string
	}{
		"exits": {program(t, "broken"), []string{"exit status 3", "no token is set"}},
		"no file": {
			configs.Toolset{Name: "test", Command: []string{"./missing"}},
			[]string{"missing", "no such file"},
		},
		"no server": {configs.Toolset{Name: "test", Command: []string{"true"}}, []string{"has ended (exit status 0)"}},
		"no host":   {configs.Toolset{Name: "test", URL: "http://127.0.0.1:1"}, []string{"connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := open(t, tt.def).Tools(t.Context())
			for _, want := range append(tt.want, "is down", "tried again in") {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			}
		})
	}
}

// breaking returns the definition of a toolset with the raw server. The handler
// broken answers the calls of tools. The header Test-Id has the id of the call.
func breaking(t *testing.T, broken http.HandlerFunc) configs.Toolset {
	t.Helper()
	return service(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "tools/call" {
			var call struct {
				ID json.RawMessage `json:"id"`
			}
			if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
				t.Errorf("body of a call: %v", err)
			}
			r.Header.Set("Test-Id", string(call.ID))
			broken(w, r)
			return
		}
		rawHandler(false)(w, r)
	}))
}

// TestBadAnswers: a call is lost if its server sends no answer to it, or one
// that cannot be read. A refusal is an answer. In both cases the connection
// goes on.
func TestBadAnswers(t *testing.T) {
	status := func(code int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			body := strings.ReplaceAll(body, "ID", r.Header.Get("Test-Id"))
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	const kind, events = "application/json", "text/event-stream"
	rpc := `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no such tree"}}`
	other := strings.ReplaceAll(rpc, "ID", "77")
	for name, tt := range map[string]struct {
		broken http.HandlerFunc
		want   string
		lost   bool
	}{
		"hang up":        {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF", true},
		"broken stream":  {status(200, events, "event: message\ndata: {\"jso"), "without response", true},
		"broken body":    {brokenBody, "unexpected EOF", true},
		"no JSON":        {status(200, kind, "<html>"), "malformed", true},
		"another answer": {status(200, kind, other), "malformed", true},
		"another event":  {status(200, events, "data: "+other), "without response", true},
		"a page":         {status(200, "text/html", "<html>"), "text/html", true},
		"no body":        {status(202, "", ""), "not MCP", true},
		"gateway":        {status(502, "text/plain", "upstream"), "502 Bad Gateway: upstream", true},
		"broken server":  {status(500, "text/plain", ""), "500", true},
		"error of a 500": {status(500, kind, rpc), "no such tree", false},
		"forbidden":      {status(403, "text/plain", "not you"), "403 Forbidden: not you", false},
		"error":          {status(200, kind, rpc), "no such tree", false},
		"error of a 400": {status(400, kind, rpc), "no such tree", false},
		"error event":    {status(200, events, "data: "+rpc), "no such tree", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, breaking(t, tt.broken))
			err := callError(t, s, "a", `{}`)
			if errors.Is(err, toolset.ErrLost) != tt.lost || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q and lost %v", err, tt.want, tt.lost)
			}
			_ = callError(t, s, "a", `{}`)
			if s.connections != 1 {
				t.Errorf("%d connections, want 1", s.connections)
			}
		})
	}
}

// TestRedirect: a call that is redirected with its method is carried out at the
// other address. The client follows any other redirect with a GET. An answer
// that it gets so, even one to the right id, says nothing about the call, which
// is lost.
func TestRedirect(t *testing.T) {
	for code, lost := range map[int]bool{
		http.StatusMovedPermanently: true, http.StatusFound: true, http.StatusSeeOther: true,
		http.StatusTemporaryRedirect: false, http.StatusPermanentRedirect: false,
	} {
		s := open(t, service(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/there" && r.Method == http.MethodGet:
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, r.URL.RawQuery)
			case r.URL.Path != "/there" && r.Header.Get("Mcp-Method") == "tools/call":
				var call struct{ ID json.RawMessage }
				_ = json.NewDecoder(r.Body).Decode(&call)
				http.Redirect(w, r, "/there?"+string(call.ID), code)
			default:
				rawHandler(false)(w, r)
			}
		})))
		_, err := s.Call(t.Context(), toolset.Call{Tool: "a", Arguments: []byte(`{"size":1}`)})
		if errors.Is(err, toolset.ErrLost) != lost || (err != nil) != lost {
			t.Errorf("status %d: error %v, want one that is lost: %t", code, err, lost)
		}
	}
}

// brokenBody sends less than it has announced.
func brokenBody(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, `{"jsonrpc":`)
}

// TestServerAway: a call is not lost if its server takes no connection, so that
// its request was not sent. It fails soon.
func TestServerAway(t *testing.T) {
	web := httptest.NewServer(rawHandler(false))
	s := open(t, configs.Toolset{Name: "test", URL: web.URL})
	names(t, s)
	web.Close()
	s.current.server.(*remote).base.CloseIdleConnections()
	began := time.Now()
	err := callError(t, s, "a", `{}`)
	if errors.Is(err, toolset.ErrLost) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error %v, want %v alone", err, syscall.ECONNREFUSED)
	}
	if took := time.Since(began); took >= endingTime {
		t.Errorf("the call took %v, want less than %v", took, endingTime)
	}
}

// TestSessionForgotten: a server was started anew, and does not know the
// session of a call. The call opens another session, and is carried out.
func TestSessionForgotten(t *testing.T) {
	for _, code := range []int{http.StatusNotFound, http.StatusBadRequest} {
		old := &mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}}
		var mu sync.Mutex
		handler := streamable(serverWith(old), true)
		def := service(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			h := handler
			mu.Unlock()
			if h == nil {
				w.WriteHeader(code)
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no session"}}`)
				return
			}
			h.ServeHTTP(w, r)
		}))
		s := open(t, def)
		callText(t, s, "echo", `{}`)
		mu.Lock()
		handler = forgetful(streamable(serverWith(old), true), code)
		mu.Unlock()
		if got := callText(t, s, "echo", `{}`); got != "{} tree.r-1-0" {
			t.Errorf("text %q, want {} tree.r-1-0", got)
		}
		if s.connections != 2 {
			t.Errorf("status %d: %d connections, want 2", code, s.connections)
		}
	}
}

// noted is a writer that calls session with an answer's session, before it
// writes the answer.
type noted struct {
	http.ResponseWriter
	session func(id string)
}

func (n noted) WriteHeader(code int) {
	n.session(n.Header().Get("Mcp-Session-Id"))
	n.ResponseWriter.WriteHeader(code)
}

func (n noted) Write(b []byte) (int, error) {
	n.session(n.Header().Get("Mcp-Session-Id"))
	return n.ResponseWriter.Write(b)
}

func (n noted) Flush() { _ = http.NewResponseController(n.ResponseWriter).Flush() }

// forgetful is a server with sessions. It answers a request of a session that
// it did not open with a code.
func forgetful(h http.Handler, code int) http.Handler {
	var mu sync.Mutex
	known := map[string]bool{"": true}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		ok := known[r.Header.Get("Mcp-Session-Id")]
		mu.Unlock()
		if !ok {
			http.Error(w, "no session", code)
			return
		}
		h.ServeHTTP(noted{w, func(id string) {
			mu.Lock()
			defer mu.Unlock()
			known[id] = true
		}}, r)
	})
}

// TestCancelReachesServer: the end of a call's context ends the call, which
// counts as lost, and the tool at the server. Later calls are carried out.
func TestCancelReachesServer(t *testing.T) {
	for name, sessions := range map[string]bool{"sessions": true, "stateless": false} {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan struct{}), make(chan struct{})
			server := testServer()
			server.AddTool(tool("wait"), waiter(began, ended))
			testCancel(t, open(t, service(t, streamable(server, sessions))), began, ended)
		})
	}
}

// waiter is a tool that waits for its cancellation. It closes began, and ended
// after that.
func waiter(began, ended chan<- struct{}) mcp.ToolHandler {
	return func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		close(began)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	}
}

var errStop = errors.New("the run is cancelled")

// testCancel calls the tool wait, and ends the context when the tool has begun.
// The call and the tool must end.
func testCancel(t *testing.T, s *Set, began, ended <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-began
		cancel(errStop)
	}()
	_, err := s.Call(ctx, toolset.Call{Tool: "wait"})
	if !errors.Is(err, errStop) || !errors.Is(err, toolset.ErrLost) {
		t.Errorf("error %v, want %v and %v", err, errStop, toolset.ErrLost)
	}
	<-ended
	if got := callText(t, s, "echo", `{}`); got != "{} tree.r-1-0" {
		t.Errorf("text %q, want {} tree.r-1-0", got)
	}
}

// TestCancelReachesProcess: the situation of TestCancelReachesServer, over
// standard input and output.
func TestCancelReachesProcess(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	t.Setenv("MCP_TEST_REPORT", l.Addr().String())
	def := program(t, "tools")
	def.Env = []string{"MCP_TEST_REPORT"}
	began, ended := make(chan struct{}), make(chan struct{})
	go func() {
		conn, err := l.Accept() // of the tool wait
		if err != nil {
			return
		}
		buf := make([]byte, 1)
		_, _ = io.ReadFull(conn, buf)
		close(began)
		_, _ = io.ReadFull(conn, buf)
		close(ended)
	}()
	testCancel(t, open(t, def), began, ended)
}

// hang makes the server "hanging" read nothing more.
func hang(t *testing.T, s *Set) {
	t.Helper()
	if got := callText(t, s, "a", `{"result":{"content":[{"type":"text","text":"done"}]}}`); got != "done" {
		t.Fatalf("text %q, want done", got)
	}
}

// TestCancelStuckServer: a call to a server that reads nothing ends with its
// context, and so does the next one.
func TestCancelStuckServer(t *testing.T) {
	s := open(t, program(t, "hanging"))
	p := running(t, s)
	hang(t, s)
	large := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, err := s.Call(ctx, toolset.Call{Tool: "a", Arguments: []byte(large)})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
		}
		cancel()
	}
	_ = p.cmd.Process.Kill()
}

// hanging returns a set, and its connection to a server that hangs and got a
// call. The time of the call is over. The server is pinged for pingTime.
func hanging(t *testing.T, pingTime time.Duration) (*Set, *session) {
	t.Helper()
	def := program(t, "hanging")
	s := open(t, def)
	s.newServer = func() server {
		p := newProcess(def, s.log)
		p.grace, p.pingTime = 10*time.Millisecond, pingTime
		return p
	}
	c, err := s.session(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hang(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if _, err := s.Call(ctx, toolset.Call{Tool: "a"}); !errors.Is(err, toolset.ErrLost) {
		t.Fatalf("error %v, want %v", err, toolset.ErrLost)
	}
	return s, c
}

// TestHangingServer: a server that answers neither a call nor the ping after it
// is ended. The next call fails and says why. After the pause another process
// carries calls out.
func TestHangingServer(t *testing.T) {
	s, c := hanging(t, 500*time.Millisecond)
	<-c.over
	err := callError(t, s, "a", `{}`)
	for _, want := range []string{"did not answer, not even a ping within 500ms", "tried again in"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	s.newServer = func() server { return newProcess(program(t, "tools"), s.log) }
	skipPause(s)
	if got := callText(t, s, "echo", `{}`); got != "{} tree.r-1-0" {
		t.Errorf("text %q, want {} tree.r-1-0", got)
	}
}

// TestCloseHangingServer: Close does not wait for the answer to a ping.
func TestCloseHangingServer(t *testing.T) {
	s, c := hanging(t, time.Minute)
	for c.probe.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	s.Close()
	if took := time.Since(began); took >= time.Minute/2 {
		t.Errorf("Close took %v, want less than the time of the ping", took)
	}
}

// TestSlowServer: a server that answers a ping is not ended, whichever protocol
// it speaks. A refusal is an answer.
func TestSlowServer(t *testing.T) {
	for _, name := range []string{"tools", "legacy", "raw"} {
		s := open(t, program(t, name))
		running(t, s)
		s.probe(t.Context(), s.current)
		names(t, s)
		if s.connections != 1 {
			t.Errorf("%s: %d connections, want 1", name, s.connections)
		}
	}
}

// callT is a call of the protocol.
func callT(t *testing.T) *jsonrpc.Request {
	t.Helper()
	id, err := jsonrpc.MakeID("1")
	if err != nil {
		t.Fatal(err)
	}
	return &jsonrpc.Request{ID: id, Method: "tools/call"}
}

// TestHandedOverIsSent: a call ends when the writer has taken its line and has
// not begun to write. It counts as sent, since it may be written yet. A line
// that the writer never takes is not sent.
func TestHandedOverIsSent(t *testing.T) {
	for _, taken := range []bool{true, false} {
		ctx, end := context.WithCancel(t.Context())
		x := &exchange{}
		c := newStdio(&process{limit: maxMessage})
		written := make(chan error)
		call := callT(t)
		go func() { written <- c.Write(context.WithValue(ctx, exchangeKey{}, x), call) }()
		if taken {
			<-c.queue
		}
		x.mu.Lock()
		atOnce := x.sent
		x.mu.Unlock()
		end()
		if err := <-written; !errors.Is(err, context.Canceled) || x.sent != taken || taken && !atOnce {
			t.Errorf("taken %t: error %v, sent %t, and at the end of the call %t", taken, err, atOnce, x.sent)
		}
	}
}

// TestWriteBroken: a request counts as sent if its write succeeds, and does not
// if the write fails.
func TestWriteBroken(t *testing.T) {
	for _, broken := range []bool{false, true} {
		out, in, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if broken {
			_ = out.Close()
		}
		x := &exchange{}
		c := newStdio(&process{pipes: pipes{in: in}, limit: maxMessage})
		writing := make(chan struct{})
		go func() {
			defer close(writing)
			c.writeAll()
		}()
		err = c.Write(context.WithValue(t.Context(), exchangeKey{}, x), callT(t))
		close(c.closed)
		<-writing
		if (err != nil) != broken || x.sent == broken {
			t.Errorf("broken %t: error %v, sent %t; want an error: %t, sent %t", broken, err, x.sent, broken, !broken)
		}
		closeAll(out, in)
	}
}
