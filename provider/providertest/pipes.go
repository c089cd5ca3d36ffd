package providertest

import (
	"context"
	"net"
)

// pipes is a net.Listener that uses net.Pipe instead of sockets. The clock of a
// synctest bubble stops while a goroutine waits for a socket, and advances
// while it waits for a net.Pipe.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. An http.Server calls it once.
func (l *pipes) Close() error {
	close(l.closed)
	return nil
}

// Addr implements net.Listener.
func (l *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	server, client := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
