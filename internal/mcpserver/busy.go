package mcpserver

import (
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/internal/pause"
)

// busy knows the requests that have no answer yet. A session that is closed
// drops the answers that are not written.
type busy struct {
	mu       sync.Mutex
	requests map[any]bool
	// idle is ready after the last request has its answer.
	idle chan struct{}
}

func newBusy() *busy { return &busy{requests: map[any]bool{}, idle: make(chan struct{}, 1)} }

// add adds a request.
func (b *busy) add(request any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests[request] = true
}

// done removes a request that has its answer.
func (b *busy) done(request any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.requests, request); len(b.requests) == 0 {
		pause.Notify(b.idle)
	}
}

// wait waits until each request has its answer. It returns early when ctx ends.
func (b *busy) wait(ctx context.Context) {
	for b.count() > 0 {
		select {
		case <-b.idle:
		case <-ctx.Done():
			return
		}
	}
}

func (b *busy) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.requests)
}

// counted is a transport that counts the requests of its client.
type counted struct {
	mcp.Transport
	requests *busy
}

// Connect connects the transport below.
func (c counted) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := c.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countedConn{conn, c.requests}, nil
}

// countedConn is the connection of a counted transport.
type countedConn struct {
	mcp.Connection
	requests *busy
}

// Read reads a message. A request that waits for notifications gets its answer
// with the end of the session, and does not count.
func (c countedConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && err == nil && r.IsCall() && r.Method != listenMethod {
		c.requests.add(r.ID)
	}
	return m, err
}

// Write writes a message.
func (c countedConn) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.requests.done(r.ID)
	}
	return err
}
