package mcpclient

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/text"
	"github.com/axebus/axe/internal/toolset"
)

const (
	// maxStatusText bounds the text that an error quotes from the body of a
	// bad status, in bytes.
	maxStatusText = 300
	// maxErrorBody bounds the body of a bad status that is read, in bytes.
	maxErrorBody = 64 << 10
	// headerTime bounds the wait for the beginning of an answer to a request
	// without an exchange. It is shorter than connectTime, which bounds the
	// whole start of a connection.
	headerTime = 10 * time.Second
)

// errSilent says that a server has not begun its answer within headerTime, or
// that the toolset was closed before.
var errSilent = errors.New("the server did not begin its answer")

// remote is an MCP server that is reached by streamable HTTP. It implements
// server.
type remote struct {
	mcp.StreamableClientTransport

	base *http.Transport
}

// newRemote returns the server at the URL of a definition. It calls silenced
// when the server ends a stream of notifications. It waits for no stream after
// the end of ctx.
func newRemote(ctx context.Context, def configs.Toolset, silenced func(server)) *remote {
	base := http.DefaultTransport.(*http.Transport).Clone()
	r := &remote{base: base}
	w := &wire{
		base:     base,
		open:     ctx,
		url:      def.URL,
		headers:  def.Headers,
		limit:    maxMessage,
		silenced: func() { silenced(r) },
	}
	r.StreamableClientTransport = mcp.StreamableClientTransport{
		Endpoint:   def.URL,
		HTTPClient: &http.Client{Transport: w},
		// eventTap bounds the events of calls, and comes first.
		MaxEventSize: maxMessage + maxErrorBody,
	}
	return r
}

func (r *remote) stop() { r.base.CloseIdleConnections() }

func (r *remote) failure() error { return nil }

// wire adds the headers of the definition to requests. It notes in the exchange
// of a request whether it was sent, and its answer.
type wire struct {
	base *http.Transport
	// open ends when the toolset is closed.
	open    context.Context //nolint:containedctx // requests outlive their calls
	url     string
	headers map[string]string
	// limit bounds the answer to a call. It is maxMessage, except in tests.
	limit int
	// silenced is called at the end of a stream of notifications.
	silenced func()
	// streamed says that the server has begun a stream after a GET without
	// an exchange.
	streamed atomic.Bool
}

// RoundTrip makes a request. A bad answer to a call with an exchange is an
// error, so that it does not end the connection for other calls.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	req = req.Clone(req.Context())
	w.addHeaders(req)
	switch {
	case x == nil:
		return w.other(req)
	case req.Method == http.MethodGet: // the SDK opens a broken stream again
		resp, err := w.fetch(req)
		if err == nil && isStream(resp) {
			resp.Body = &eventTap{body: resp.Body, exchange: x, limit: w.limit}
		}
		return resp, err
	}
	id, isCall := callID(req)
	if !isCall { // a notification about the exchange
		return w.fetch(req)
	}
	x.expect(id)
	if x.name != "" && req.Header.Get("Mcp-Method") != "" {
		req.Header.Set("Mcp-Name", headerValue(x.name))
	}
	return w.call(req, x)
}

// call makes the request of an exchange.
func (w *wire) call(req *http.Request, x *exchange) (*http.Response, error) {
	trace := &httptrace.ClientTrace{WroteHeaders: func() { x.setSent(true) }}
	resp, err := w.base.RoundTrip(req.WithContext(httptrace.WithClientTrace(req.Context(), trace)))
	switch {
	case err != nil:
		x.failUnsent(fmt.Errorf("the server cannot be reached: %w", err))
		return nil, err
	case isFollowed(resp):
		return resp, nil
	case resp.StatusCode >= http.StatusMultipleChoices:
		err = statusError(req, resp)
	case isStream(resp):
		resp.Body = &eventTap{body: resp.Body, exchange: x, limit: w.limit}
		return resp, nil
	default:
		err = readAnswer(resp, x, w.limit)
	}
	if err != nil {
		_ = resp.Body.Close()
		x.fail(err)
		return nil, err
	}
	return resp, nil
}

// headerValue is a text as a header of the protocol carries it: as it is, or in
// base64 if it has other characters than visible ones and inner spaces.
func headerValue(s string) string {
	const prefix, suffix = "=?base64?", "?="
	visible := strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
	if visible && (!strings.HasPrefix(s, prefix) || !strings.HasSuffix(s, suffix)) {
		return s
	}
	return prefix + base64.StdEncoding.EncodeToString([]byte(s)) + suffix
}

// addHeaders adds the headers of the definition. They may be secrets, so a
// redirect to another host does not get them.
func (w *wire) addHeaders(req *http.Request) {
	u, err := url.Parse(w.url)
	if err != nil || u.Scheme != req.URL.Scheme || u.Host != req.URL.Host {
		return
	}
	for name, value := range w.headers {
		req.Header.Set(name, value)
	}
}

// callID is the id of the call that a request has, if it has one.
func callID(req *http.Request) (jsonrpc.ID, bool) {
	if req.GetBody == nil {
		return jsonrpc.ID{}, false
	}
	body, err := req.GetBody()
	if err != nil {
		return jsonrpc.ID{}, false
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(body)
	if err != nil {
		return jsonrpc.ID{}, false
	}
	msg, err := jsonrpc.DecodeMessage(data)
	call, ok := msg.(*jsonrpc.Request)
	if err != nil || !ok {
		return jsonrpc.ID{}, false
	}
	return call.ID, call.IsCall()
}

// isGood reports whether the status of an answer is a good one.
func isGood(resp *http.Response) bool {
	return resp.StatusCode >= http.StatusOK && resp.StatusCode < http.StatusMultipleChoices
}

// isStream reports whether an answer is a stream of events with a good status.
func isStream(resp *http.Response) bool {
	return isGood(resp) && mediaType(resp) == "text/event-stream"
}

// mediaType is the media type of an answer without its parameters.
func mediaType(resp *http.Response) string {
	base, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return base
}

// isFollowed reports whether the HTTP client makes another request after an
// answer: it has one of the redirects that the client knows, and an address.
func isFollowed(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return resp.Header.Get("Location") != ""
	}
	return false
}

// other makes a request without an exchange.
func (w *wire) other(req *http.Request) (*http.Response, error) {
	resp, err := w.begin(req)
	if err == nil && isStream(resp) && req.Header.Get("Mcp-Method") == "subscriptions/listen" {
		resp.Body = &notifications{resp.Body, w.silenced}
	}
	return resp, err
}

// begin makes a request, and bounds the wait for the beginning of its answer by
// headerTime and by the end of the toolset. Otherwise a silent server would
// hold up a connection that is being made, and one that is being closed, for
// ever. A request with a deadline needs no other bound. There is none for a
// stream that the SDK opens again: nothing waits for it, and an error would end
// the connection.
func (w *wire) begin(req *http.Request) (*http.Response, error) {
	isGet := req.Method == http.MethodGet
	if _, bounded := req.Context().Deadline(); bounded || isGet && w.streamed.Load() {
		return w.fetch(req)
	}
	within, done := context.WithTimeout(w.open, headerTime)
	defer done()
	ctx, cancel := context.WithCancel(req.Context()) // for the body too
	stop := context.AfterFunc(within, cancel)        //nolint:contextcheck // of the set, which may end before
	resp, err := w.fetch(req.WithContext(ctx))
	inTime := stop()
	switch {
	case inTime && err != nil:
		cancel()
		return nil, err
	case inTime:
		if isGet && isStream(resp) {
			w.streamed.Store(true)
		}
		return resp, nil
	case err == nil:
		_ = resp.Body.Close()
	}
	if isGet { // the SDK then goes on without a stream, and tries again after an error
		return &http.Response{
			StatusCode: http.StatusMethodNotAllowed, Header: http.Header{}, Body: http.NoBody, Request: req,
		}, nil
	}
	return nil, errSilent
}

// fetch makes a request. The SDK reads the whole body of an answer, unless that
// is a stream, of which it bounds the events. So fetch bounds any other body.
// It reads that of a bad status, for which the SDK has no bound of time either.
func (w *wire) fetch(req *http.Request) (*http.Response, error) {
	resp, err := w.base.RoundTrip(req)
	switch {
	case err != nil:
		return nil, err
	case !isGood(resp):
		resp.Body = io.NopCloser(bytes.NewReader(errorBody(resp)))
	case !isStream(resp):
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxMessage)
	}
	return resp, nil
}

// errorBody reads and closes the body of a bad status.
func errorBody(resp *http.Response) []byte {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	_ = resp.Body.Close()
	return body
}

// notifications is a stream of notifications.
type notifications struct {
	io.ReadCloser

	silenced func()
}

// Read reads from the stream. It reports the end of the stream.
func (n *notifications) Read(p []byte) (int, error) {
	k, err := n.ReadCloser.Read(p)
	if err != nil {
		n.silenced()
	}
	return k, err
}

// readAnswer reads an answer that is no stream, of at most limit bytes. It
// notes the answer in the exchange, and gives its bytes back to the response.
func readAnswer(resp *http.Response, x *exchange, limit int) error {
	if kind := mediaType(resp); kind != "application/json" {
		return fmt.Errorf("the server answered with the media type %q, which is not MCP: %w", kind, toolset.ErrLost)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", err, toolset.ErrLost)
	case len(body) > limit:
		return errTooLarge
	}
	msg, err := jsonrpc.DecodeMessage(body)
	answer, ok := msg.(*jsonrpc.Response)
	if err != nil || !ok || !x.answered(answer) {
		return fmt.Errorf("the server sent a malformed answer: %w", toolset.ErrLost)
	}
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// statusError is the error of a bad status. A status of 500 or more without an
// answer of JSON-RPC may come after the server, or a proxy before it, has begun
// the call.
func statusError(req *http.Request, resp *http.Response) error {
	body := errorBody(resp)
	err := fmt.Errorf("the server answered with the HTTP status %s", resp.Status)
	said := jsonrpc.Error{Message: strings.TrimSpace(strings.ToValidUTF8(string(body), "?"))}
	msg, _ := jsonrpc.DecodeMessage(body)
	answer, isAnswer := msg.(*jsonrpc.Response)
	if isAnswer {
		if refusal, ok := errors.AsType[*jsonrpc.Error](answer.Error); ok {
			said.Code, said.Message = refusal.Code, refusal.Message
		}
	}
	if said.Message != "" {
		said.Message = text.Truncate(said.Message, maxStatusText)
		err = fmt.Errorf("%w: %w", err, &said)
	}
	switch {
	case isForgotten(req, resp):
		return fmt.Errorf("%w: %w", errGone, err)
	case resp.StatusCode >= http.StatusInternalServerError && !isAnswer:
		return fmt.Errorf("%w: %w", err, toolset.ErrLost)
	}
	return err
}

// isForgotten reports whether a server may have refused a request since it does
// not know its session. By the protocol it answers 404 then. Many answer 400.
func isForgotten(req *http.Request, resp *http.Response) bool {
	return req.Header.Get("Mcp-Session-Id") != "" &&
		(resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusBadRequest)
}
