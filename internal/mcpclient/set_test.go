package mcpclient

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/axebus/axe/configs"
)

var errNoHost = errors.New("no such host")

// pipeServer is a server inside the test process. It cannot be reached if inner
// is nil.
type pipeServer struct {
	inner *mcp.Server
	mcp.Transport

	// session is that of the last connection.
	session *mcp.ServerSession
}

// Connect connects to inner through pipes in memory.
func (p *pipeServer) Connect(ctx context.Context) (mcp.Connection, error) {
	if p.inner == nil {
		return nil, errNoHost
	}
	ours, theirs := mcp.NewInMemoryTransports()
	session, err := p.inner.Connect(context.WithoutCancel(ctx), theirs, nil)
	if err != nil {
		return nil, err
	}
	p.session = session
	return ours.Connect(ctx)
}

func (p *pipeServer) stop() {
	if p.session != nil {
		_ = p.session.Close()
	}
}

func (p *pipeServer) failure() error { return nil }

// dialled returns a set that connects to the servers which serverOf makes. It
// also returns the times of the connections, since dialled was called.
func dialled(t *testing.T, serverOf func() server) (*Set, *[]time.Duration) {
	t.Helper()
	s, err := Open(configs.Toolset{Name: "far", URL: "http://example.invalid"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	times := &[]time.Duration{}
	s.newServer = func() server {
		*times = append(*times, time.Since(began))
		return serverOf()
	}
	return s, times
}

// TestPauseGrows: a server that cannot be reached is tried again at the first
// use after a pause. The pause grows from half a second to 30 seconds. Until it
// is over, each use fails at once and says why.
func TestPauseGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, times := dialled(t, func() server { return &pipeServer{} })
		defer s.Close()
		for range 1200 {
			_, err := s.Tools(t.Context())
			if !errors.Is(err, errNoHost) || !strings.Contains(err.Error(), `toolset "far" is down`) {
				t.Fatalf("error %v, want %v and that the toolset is down", err, errNoHost)
			}
			time.Sleep(100 * time.Millisecond)
		}
		tried := []int64{}
		for _, after := range *times {
			tried = append(tried, after.Milliseconds())
		}
		want := []int64{0, 500, 1500, 3500, 7500, 15500, 31500, 61500, 91500}
		if !slices.Equal(tried, want) {
			t.Errorf("tried after %v ms, want %v", tried, want)
		}
	})
}

// TestPauseText: the error of a call says when the server is tried again.
func TestPauseText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := dialled(t, func() server { return &pipeServer{} })
		defer s.Close()
		_, _ = s.Tools(t.Context())
		time.Sleep(200 * time.Millisecond)
		_, err := s.Tools(t.Context())
		want := `the MCP server of the toolset "far" is down: no such host; it is tried again in 300ms`
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	})
}

// TestEndOfConnection: after the end of a connection that lasted long, the next
// use connects at once. If the connection lasted less, the next use fails, and
// the first use after the pause connects. A new connection leaves a token in
// Changed.
func TestEndOfConnection(t *testing.T) {
	for lasted, pause := range map[time.Duration]time.Duration{
		settled:               0,
		settled - time.Second: firstPause,
	} {
		synctest.Test(t, func(t *testing.T) {
			var last *pipeServer
			s, times := dialled(t, func() server {
				last = &pipeServer{inner: testServer()}
				return last
			})
			defer s.Close()
			if _, err := s.session(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(lasted)
			last.stop()
			synctest.Wait()
			if _, err := s.session(t.Context()); (err == nil) != (pause == 0) {
				t.Errorf("lasted %v: error %v, want one: %t", lasted, err, pause != 0)
			}
			time.Sleep(pause)
			if _, err := s.session(t.Context()); err != nil {
				t.Errorf("lasted %v, after the pause: error %v, want none", lasted, err)
			}
			if want := []time.Duration{0, lasted + pause}; !slices.Equal(*times, want) {
				t.Errorf("connected at %v, want %v", *times, want)
			}
			select {
			case <-s.Changed():
			default:
				t.Error("Changed has no token after a new connection")
			}
		})
	}
}

// slowServer does not answer until the context ends.
type slowServer struct{ pipeServer }

func (*slowServer) Connect(ctx context.Context) (mcp.Connection, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestConnectShared: calls at the same time share one attempt. A call whose
// context ends does not end it for the others.
func TestConnectShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, times := dialled(t, func() server { return &slowServer{} })
		defer s.Close()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := s.Tools(impatient); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("error %v after %v, want %v after 1s", err, time.Since(began), context.DeadlineExceeded)
		}
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() {
				_, err := s.Tools(t.Context())
				if !errors.Is(err, errConnecting) || time.Since(began) != connectTime {
					t.Errorf("error %v after %v, want %v after %v", err, time.Since(began), errConnecting, connectTime)
				}
			})
		}
		calls.Wait()
		if len(*times) != 1 {
			t.Errorf("tried %d times, want once", len(*times))
		}
	})
}

// TestCloseWhileConnecting: Close ends an attempt to connect. The waiting call
// and later calls fail with errClosed.
func TestCloseWhileConnecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := dialled(t, func() server { return &slowServer{} })
		var call sync.WaitGroup
		call.Go(func() {
			if _, err := s.Tools(t.Context()); !errors.Is(err, errClosed) {
				t.Errorf("waiting call: error %v, want %v", err, errClosed)
			}
		})
		synctest.Wait()
		s.Close()
		call.Wait()
		if _, err := s.Tools(t.Context()); !errors.Is(err, errClosed) {
			t.Errorf("call after Close: error %v, want %v", err, errClosed)
		}
	})
}

// TestOpenRefuses: a definition with no server or with two servers is an error
// that names the toolset.
func TestOpenRefuses(t *testing.T) {
	for _, def := range []configs.Toolset{
		{Name: "none"},
		{Name: "both", URL: "http://localhost", Command: []string{"true"}},
	} {
		if _, err := Open(def, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), def.Name) {
			t.Errorf("error %v, want one that names the toolset %s", err, def.Name)
		}
	}
}
