package bustest

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Serve runs a NATS server until the test ends, and returns it when it takes
// connections. The server writes no log and handles no signals.
func Serve(t *testing.T, opts *server.Options) *server.Server {
	t.Helper()
	opts.NoLog, opts.NoSigs = true, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		t.Fatal("server is not ready")
	}
	return s
}
