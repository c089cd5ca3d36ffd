package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/toolset"
	"github.com/axebus/axe/internal/traceparent"
)

// KeyMeta is the field of _meta in which a server finds the key of a call. The
// key is the same for every attempt at the call, and no other call has it.
const KeyMeta = "axe/idempotency-key"

// protocolWithHeaders is the first protocol in which a tool may want arguments
// in headers, and in which the server decides whether a call makes a task.
const protocolWithHeaders = "2026-07-28"

// server is an MCP server that is to be connected once: a process or a URL.
type server interface {
	mcp.Transport
	// stop ends the process that Connect has started, and waits for its
	// end. Of a URL it closes the idle connections. It may be called more
	// than once.
	stop()
	// failure is the reason why a process has ended, or is ended now since
	// it hangs. Of any other one it has the last lines of its standard
	// error, and is nil without any. For a URL it is always nil.
	failure() error
}

// session is one connection to a server.
type session struct {
	client *mcp.ClientSession
	server server
	began  time.Time
	// over is closed when the connection has ended and its process too.
	over chan struct{}
	// probe ends the ping of the server. It is nil if the server is not
	// pinged.
	probe atomic.Pointer[context.CancelFunc]
	// listing has a token while the tools are listed.
	listing chan struct{}
	// tasks says of each tool of the newest whole list, by name, whether a
	// call of it has to make a task. It is nil before the first one. The
	// token of listing guards it.
	tasks map[string]bool
}

// dial connects to the server.
func (s *Set) dial(ctx context.Context) (*session, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "axe", Version: version()}, &mcp.ClientOptions{
		Logger: s.log,
		// Axe offers a server neither roots nor sampling. It answers
		// questions between two calls (withoutInput).
		Capabilities: &mcp.ClientCapabilities{
			Elicitation: &mcp.ElicitationCapabilities{
				Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
			},
			Extensions: map[string]any{tasksExtension: map[string]any{}},
		},
		// Results that ask for input are for resultOf.
		MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			pause.Notify(s.changed)
		},
	})
	client.AddSendingMiddleware(withoutInput, withTask, withCursor)
	if err := addTaskMethods(client); err != nil {
		return nil, err
	}
	to := s.newServer()
	conn, err := client.Connect(ctx, to, nil)
	if err != nil {
		failure := to.failure() // a process that is late has not ended yet
		to.stop()
		if ctx.Err() == nil {
			failure = to.failure()
		}
		return nil, dialError(ctx, err, failure)
	}
	return &session{
		client:  conn,
		server:  to,
		began:   time.Now(),
		over:    make(chan struct{}),
		listing: make(chan struct{}, 1),
	}, nil
}

// dialError is the most exact of the errors of a connection that was not made.
func dialError(ctx context.Context, err, failure error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	switch {
	case failure == nil:
		return err
	case ctx.Err() != nil:
		return fmt.Errorf("%w (%w)", err, failure)
	}
	return failure
}

// version is the version of this program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// wait waits for the end of the connection, ends what is left of the server,
// and returns the reason.
func (c *session) wait() error {
	err := c.client.Wait()
	c.server.stop()
	_ = c.client.Close() // ends the subscription
	if failure := c.server.failure(); failure != nil {
		return failure
	}
	if err == nil {
		return errors.New("the server has ended the connection")
	}
	return err
}

// ended reports whether the connection has ended.
func (c *session) ended() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// close ends the connection after its last call, and waits for the end of the
// server. It does not wait for the answer to a ping.
func (c *session) close() {
	if stop := c.probe.Load(); stop != nil {
		(*stop)()
	}
	_ = c.client.Close()
	<-c.over
}

// call asks the server to carry out a tool, and returns the JSON of its result.
func (c *session) call(ctx context.Context, call toolset.Call) (json.RawMessage, error) {
	c.describe(ctx)
	ctx = c.mayMakeTask(ctx, call.Tool)
	params := mcp.CallToolParams{Meta: mcp.Meta{KeyMeta: call.Key}, Name: call.Tool, Arguments: call.Arguments}
	if value := traceparent.Of(ctx); value != "" {
		params.Meta[traceparent.Name] = value
	}
	if f := call.Filled; f != nil {
		answers, err := responses(f)
		if err != nil {
			return nil, err
		}
		params.InputResponses, params.RequestState = answers, f.State
	}
	return request(ctx, func(ctx context.Context) error {
		_, err := c.client.CallTool(ctx, &params)
		return err
	})
}

// describe lists the tools before a call, unless this connection has listed all
// of them. By HTTP the SDK needs the definitions, since a tool may want
// arguments in headers of the request. In the protocols before 2026-07-28 a
// definition says whether a call makes a task. Any other call needs no list. If
// the list fails, the call is made without it, and the server says which header
// it misses.
func (c *session) describe(ctx context.Context) {
	if _, ok := c.server.(*remote); ok || c.isLegacy() {
		_ = c.listOnce(ctx)
	}
}

// isLegacy reports whether the protocol is one before 2026-07-28.
func (c *session) isLegacy() bool {
	return c.client.InitializeResult().ProtocolVersion < protocolWithHeaders
}

// object returns arguments that are a JSON object, and {} for none.
func object(arguments json.RawMessage) (json.RawMessage, error) {
	arguments = bytes.TrimSpace(arguments)
	if len(arguments) == 0 {
		return json.RawMessage("{}"), nil
	}
	if arguments[0] != '{' || !json.Valid(arguments) {
		return nil, errors.New("the arguments are no JSON object")
	}
	return arguments, nil
}
