// Package testbus starts NATS servers for tests. Each one has a store directory
// of its own, and ends with the test. Package internal/bustest is its
// counterpart for the tests of package bus itself, which cannot import this
// one.
package testbus

import (
	"testing"

	"github.com/axebus/axe/bus"
)

// Open starts a server in this process, and returns a connection to it. The
// server has all streams.
func Open(tb testing.TB) *bus.Conn {
	tb.Helper()
	conn := Empty(tb)
	provision(tb, conn)
	return conn
}

// Empty is Open without streams on the server.
func Empty(tb testing.TB) *bus.Conn {
	tb.Helper()
	return dial(tb, bus.Dial{Server: serve(tb, "")})
}

// Listen starts a server that listens on a port of 127.0.0.1, and returns its
// URL. The server has all streams.
func Listen(tb testing.TB) string {
	tb.Helper()
	url := serve(tb, "127.0.0.1:0").URL()
	provision(tb, Dial(tb, url))
	return url
}

// Dial connects to the server at a URL.
func Dial(tb testing.TB, url string) *bus.Conn {
	tb.Helper()
	return dial(tb, bus.Dial{URL: url})
}

func serve(tb testing.TB, listen string) *bus.Server {
	tb.Helper()
	server, err := bus.Serve(bus.ServerConfig{Listen: listen, StoreDir: tb.TempDir()})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.Close)
	return server
}

func dial(tb testing.TB, d bus.Dial) *bus.Conn {
	tb.Helper()
	conn, err := bus.Open(tb.Context(), bus.Config{Dial: d})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	return conn
}

func provision(tb testing.TB, conn *bus.Conn) {
	tb.Helper()
	if err := conn.Provision(tb.Context(), bus.Provision{}); err != nil {
		tb.Fatal(err)
	}
}
