package chaostest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
)

// proxy lies between one worker and the server.
type proxy struct {
	net.Listener
	target string
	mu     sync.Mutex
	conns  map[net.Conn]bool
	open   chan struct{} // closed while bytes may pass
	delay  time.Duration
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, target: target, conns: map[net.Conn]bool{}, open: make(chan struct{})}
	close(p.open)
	var pipes sync.WaitGroup
	pipes.Go(func() { p.accept(t.Context(), &pipes) })
	// t's context is over by now, so nobody is held up any more
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		pipes.Wait()
	})
	return p
}

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
		p.mu.Unlock()
		pipes.Go(func() { p.pipe(ctx, near, far) })
		pipes.Go(func() { p.pipe(ctx, far, near) })
	}
}

// pipe passes bytes one way. What was read while nothing may pass is passed
// later: that is what TCP makes of a network that comes back.
func (p *proxy) pipe(ctx context.Context, from, to net.Conn) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
	}()
	for buf := make([]byte, 32<<10); ; {
		n, err := from.Read(buf)
		if err != nil || !p.pass(ctx) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// pass waits until bytes may pass.
func (p *proxy) pass(ctx context.Context) bool {
	p.mu.Lock()
	open, delay := p.open, p.delay
	p.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
		return false
	}
	return delay == 0 || bus.Pause(ctx, delay) == nil
}

// cut ends all connections at once, without a word to either side.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			// a reset: what is on its way is lost
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}

// hold lets nothing pass until release: neither side can tell it from a slow
// other side.
func (p *proxy) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open = make(chan struct{})
}

func (p *proxy) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.open)
}

// slow makes every piece of data late.
func (p *proxy) slow(by time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = by
}
