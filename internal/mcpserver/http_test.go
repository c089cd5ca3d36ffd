package mcpserver

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/internal/httpguard"
)

// secret is the token of the servers in the tests.
const secret = "s3cret"

// versions has a version of the protocol without sessions, and one with them.
var versions = map[string]string{"without sessions": sessionless, "with sessions": "2025-11-25"}

// authorized is a transport that adds a token to each request.
type authorized struct{ token string }

func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+a.token)
	return http.DefaultTransport.RoundTrip(r)
}

// dial connects a host over HTTP, with the token and a version of the protocol.
func (h *harness) dial(url, version string) *host {
	return h.connect(&mcp.StreamableClientTransport{
		Endpoint: url, HTTPClient: &http.Client{Transport: authorized{secret}}, MaxRetries: -1,
	}, version)
}

// TestHTTP: a host lists tools, gets notifications of changes and calls a tool
// with progress over HTTP, without and with sessions.
func TestHTTP(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			c := h.dial(h.listen(Config{Agents: []string{"lead", "new"}}, secret), version)
			if got := strings.Join(c.names(), " "); got != "lead" {
				t.Errorf("tools %s, want lead", got)
			}
			h.put(agentd.Card{Name: "new", Digest: "1"})
			await(t, c.changed)
			if got := strings.Join(c.names(), " "); got != "lead new" {
				t.Errorf("tools %s, want lead new", got)
			}
			params := &mcp.CallToolParams{Name: "lead", Arguments: args{"task": "x"}}
			params.SetProgressToken("p1")
			b := c.begin(h, params)
			for r := await(t, c.reports); !strings.HasSuffix(r.Message, ", 1 of 3 runs done"); {
				r = await(t, c.reports)
			}
			close(h.gate.open)
			if res := b.result(); text(res) != "together: echo: x, opened" {
				t.Errorf("result %q, want the answers of echo and gate", text(res))
			}
		})
	}
}

// TestHTTPCancel: if the host cancels a call, the server cancels its tree,
// without and with sessions.
func TestHTTPCancel(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			c := h.dial(h.listen(Config{}, secret), version)
			params := &mcp.CallToolParams{Name: "gate", Arguments: args{"task": "x", "id": "T1"}}
			if version == sessionless {
				// A call with a key waits for its client to
				// come back: see TestHTTPReturn.
				params = &mcp.CallToolParams{Name: "gate", Arguments: args{"task": "x"}}
			}
			h.watchTrees()
			b := c.begin(h, params)
			b.stop()
			b.result()
			if o := h.outcome(await(t, h.trees)); o.Kind != run.KindCancelled || o.Error != cancelReason {
				t.Errorf("outcome %s %s: %s; want cancelled: %s", o.Status, o.Kind, o.Error, cancelReason)
			}
		})
	}
}

// TestHTTPReturn: without sessions, a call with a key loses its connection. Its
// tree goes on for Config.ReturnTime. A client that calls again in time gets
// the answer. If no client does, the tree is cancelled.
func TestHTTPReturn(t *testing.T) {
	for name, back := range map[string]bool{"in time": true, "never": false} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			cfg := Config{ReturnTime: time.Hour}
			if !back {
				cfg.ReturnTime = time.Millisecond
			}
			s := h.server(cfg)
			url, _ := h.serveHTTP(s, secret)
			params := &mcp.CallToolParams{Name: "gate", Arguments: args{"task": "x", "id": "T1"}}
			b := h.dial(url, sessionless).begin(h, params)
			b.stop()
			b.result()
			if !back {
				if o := h.outcome("T1"); o.Kind != run.KindCancelled || o.Error != cancelReason {
					t.Errorf("outcome %s %s: %s; want cancelled: %s", o.Status, o.Kind, o.Error, cancelReason)
				}
				return
			}
			for began := time.Now(); s.calls.countLeaving() == 0; time.Sleep(time.Millisecond) {
				if time.Since(began) > patience {
					t.Fatal("the server does not wait for the client, want it to wait for an hour")
				}
			}
			close(h.gate.open)
			if res, _ := h.dial(url, sessionless).ask("gate", args{"task": "x", "id": "T1"}); text(res) != "opened" {
				t.Errorf("result %q, want opened", text(res))
			}
		})
	}
}

// countLeaving returns the number of trees that wait for their clients.
func (s *attachments) countLeaving() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.leaving)
}

// TestHTTPSessionEnds: a host that ends its session leaves its trees running.
func TestHTTPSessionEnds(t *testing.T) {
	h := newHarness(t)
	url := h.listen(Config{}, secret)
	c := h.dial(url, versions["with sessions"])
	b := c.begin(h, &mcp.CallToolParams{Name: "gate", Arguments: args{"task": "x", "id": "T1"}})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set(headerSession, c.ID())
	if status, _ := h.do(req, secret); status != http.StatusNoContent {
		t.Errorf("status %d of the end of the session, want %d", status, http.StatusNoContent)
	}
	b.stop()
	b.result()
	close(h.gate.open)
	if o := h.outcome("T1"); o.Result != "opened" {
		t.Errorf("outcome %s: %s; want the result opened", o.Kind, o.Error)
	}
}

// TestHTTPLost: with sessions, a connection that ends leaves the tree running.
// The client resumes the stream and gets the answer.
func TestHTTPLost(t *testing.T) {
	h := newHarness(t)
	url := h.listen(Config{}, secret)
	_, header := h.do(h.post(t.Context(), url, initialize), secret)
	session := header.Get(headerSession)
	// send sends a request of the session, and returns the lines of its
	// answer; nil if the server refused it.
	send := func(request func() *http.Request) *bufio.Scanner {
		t.Helper()
		r := request()
		r.Header.Set("Authorization", "Bearer "+secret)
		r.Header.Set(headerSession, session)
		r.Header.Set(headerVersion, versions["with sessions"])
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		if res.StatusCode != http.StatusOK {
			return nil
		}
		return bufio.NewScanner(res.Body)
	}
	// line returns the rest of the next line that begins with prefix.
	line := func(events *bufio.Scanner, prefix string) string {
		t.Helper()
		for events.Scan() {
			if rest, ok := strings.CutPrefix(events.Text(), prefix); ok {
				return rest
			}
		}
		t.Fatalf("no line begins with %q: %v", prefix, events.Err())
		return ""
	}

	ctx, stop := context.WithCancel(t.Context())
	id := line(send(func() *http.Request {
		return h.post(ctx, url, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"gate",`+
			`"arguments":{"task":"x","id":"T1"}}}`)
	}), "id: ")
	await(t, h.gate.asked)
	stop()
	close(h.gate.open)
	var events *bufio.Scanner
	for began := time.Now(); events == nil && time.Since(began) < patience; {
		events = send(func() *http.Request { // refused until the server has seen the end of the connection
			r := h.post(t.Context(), url, "")
			r.Method = http.MethodGet
			r.Header.Set("Last-Event-Id", id)
			return r
		})
	}
	if answer := line(events, "data: {"); !strings.Contains(answer, `"text":"opened"`) {
		t.Errorf("answer %s, want the text opened", answer)
	}
	if o := h.outcome("T1"); o.Result != "opened" {
		t.Errorf("outcome %s: %s; want the result opened", o.Kind, o.Error)
	}
}

// post returns a POST request with a message, and without a token.
func (h *harness) post(ctx context.Context, url, message string) *http.Request {
	h.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(message))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	return r
}

// TestHTTPStop: a server stops though a host has an open stream. It answers the
// calls in flight that their trees are running, and the trees go on.
func TestHTTPStop(t *testing.T) {
	for name, version := range versions {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			url, stop := h.listenUntil(Config{}, secret)
			c := h.dial(url, version)
			b := c.begin(h, &mcp.CallToolParams{Name: "gate", Arguments: args{"task": "x", "id": "T1"}})
			stop()
			if res := b.result(); res == nil || structured(t, res).Status != "running" {
				t.Errorf("result %+v, want one with the status running", res)
			}
			close(h.gate.open)
			if o := h.outcome("T1"); o.Result != "opened" {
				t.Errorf("outcome %s: %s; want the result opened", o.Kind, o.Error)
			}
		})
	}
}

// do sends a request, with a token unless that is empty. It returns the status
// and the headers of the answer.
func (h *harness) do(r *http.Request, token string) (status int, header http.Header) {
	h.t.Helper()
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.StatusCode, res.Header
}

// initialize is the first message of a client with sessions.
const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
	`"capabilities":{},"clientInfo":{"name":"host","version":"1"}}}`

// TestRefused: a request without the token is refused with 401, and a
// challenge. A request of a page of another site, or to the name of another
// host, is refused with 403.
func TestRefused(t *testing.T) {
	h := newHarness(t)
	url := h.listen(Config{}, secret)
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), Path)
	for name, test := range map[string]struct {
		method, token, header, value string
		want                         int
	}{
		"fine":               {http.MethodPost, secret, "", "", http.StatusOK},
		"own page":           {http.MethodPost, secret, "Origin", "http://" + host, http.StatusOK},
		"no token":           {http.MethodPost, "", "", "", http.StatusUnauthorized},
		"no token, DELETE":   {http.MethodDelete, "", "", "", http.StatusUnauthorized},
		"another token":      {http.MethodPost, secret + "x", "", "", http.StatusUnauthorized},
		"part of the token":  {http.MethodPost, secret[:3], "", "", http.StatusUnauthorized},
		"another scheme":     {http.MethodPost, "", "Authorization", "Basic " + secret, http.StatusUnauthorized},
		"another site":       {http.MethodPost, secret, "Origin", "http://evil.example", http.StatusForbidden},
		"another site, GET":  {http.MethodGet, secret, "Origin", "http://evil.example", http.StatusForbidden},
		"another host":       {http.MethodPost, secret, "Host", "evil.example", http.StatusForbidden},
		"cross-site request": {http.MethodPost, secret, "Sec-Fetch-Site", "cross-site", http.StatusForbidden},
	} {
		r := h.post(t.Context(), url, initialize)
		r.Method = test.method
		if test.header == "Host" {
			r.Host = test.value
		} else if test.header != "" {
			r.Header.Set(test.header, test.value)
		}
		status, header := h.do(r, test.token)
		if status != test.want {
			t.Errorf("%s: status %d, want %d", name, status, test.want)
		}
		challenge := strings.HasPrefix(header.Get("WWW-Authenticate"), "Bearer ")
		if challenge != (test.want == http.StatusUnauthorized) {
			t.Errorf("%s: WWW-Authenticate %q, want a challenge: %t", name, header.Get("WWW-Authenticate"), !challenge)
		}
	}
}

// TestNoToken: a server that has no token admits every request.
func TestNoToken(t *testing.T) {
	h := newHarness(t)
	if got := h.dial(h.listen(Config{}, ""), "").names(); len(got) == 0 {
		t.Error("the server offers no tools, want those of the worker")
	}
}

// TestListenerClosed: a listener that fails ends the server with its error.
func TestListenerClosed(t *testing.T) {
	h := newHarness(t)
	s := h.server(Config{})
	l := h.listener()
	_ = l.Close()
	if err := s.ServeHTTP(context.WithoutCancel(t.Context()), l, httpguard.OneToken(secret)); err == nil {
		t.Error("ServeHTTP returned no error for a closed listener")
	}
}

// TestStopAtOnce: a server that is stopped before it has read the list of
// agents ends without an error.
func TestStopAtOnce(t *testing.T) {
	h := newHarness(t)
	s := h.server(Config{})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := s.ServeHTTP(ctx, h.listener(), httpguard.OneToken(secret)); err != nil {
		t.Errorf("got the error %q, want none", err)
	}
}
