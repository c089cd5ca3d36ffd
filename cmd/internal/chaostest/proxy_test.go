package chaostest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/internal/pause"
)

// proxy is a TCP proxy between one worker and the server.
type proxy struct {
	net.Listener
	target string
	mu     sync.Mutex
	conns  map[net.Conn]bool
	open   chan struct{} // closed while data may pass
	next   chan struct{} // closed by the next connection
	delay  time.Duration
}

// newProxy starts a proxy, which ends with the test.
func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, target: target, conns: map[net.Conn]bool{}, next: make(chan struct{})}
	p.open = make(chan struct{})
	close(p.open)
	var pipes sync.WaitGroup
	pipes.Go(func() { p.accept(t.Context(), &pipes) })
	// The test's context ends before its cleanups, and no connection is
	// held after that.
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		pipes.Wait()
	})
	return p
}

// accept serves connections until the listener is closed.
func (p *proxy) accept(ctx context.Context, pipes *sync.WaitGroup) {
	for {
		near, err := p.Accept()
		if err != nil {
			return
		}
		far, err := new(net.Dialer).DialContext(ctx, "tcp", p.target)
		if err != nil {
			_ = near.Close()
			continue
		}
		p.mu.Lock()
		p.conns[near], p.conns[far] = true, true
		close(p.next)
		p.next = make(chan struct{})
		p.mu.Unlock()
		pipes.Go(func() { p.pipe(ctx, near, far) })
		pipes.Go(func() { p.pipe(ctx, far, near) })
	}
}

// pipe copies data one way. It passes on data that was read during a hold when
// the hold ends, as TCP does when a network recovers.
func (p *proxy) pipe(ctx context.Context, from, to net.Conn) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
	}()
	for buf := make([]byte, 32<<10); ; {
		n, err := from.Read(buf)
		if err != nil || !p.waitOpen(ctx) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// waitOpen waits until data may pass. It returns false if ctx ends first.
func (p *proxy) waitOpen(ctx context.Context) bool {
	p.mu.Lock()
	open, delay := p.open, p.delay
	p.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
		return false
	}
	return delay == 0 || pause.For(ctx, delay) == nil
}

// cut resets all connections at once. It returns a channel that the next
// connection closes.
func (p *proxy) cut() (again <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			// A reset drops the data on its way.
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
	return p.next
}

// hold stops all data until release. Neither side can tell that from a slow
// peer.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

// release ends a hold.
func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.open)
}

// slow delays every piece of data.
func (p *proxy) slow(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}
