package bus

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// serveT starts a server that ends with the test. The default store is a new
// directory.
func serveT(tb testing.TB, cfg ServerConfig) *Server {
	tb.Helper()
	if cfg.StoreDir == "" {
		cfg.StoreDir = tb.TempDir()
	}
	s, err := Serve(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// connectT returns a connection and its JetStream. They end with the test.
func connectT(t *testing.T, d Dial) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, api, err := d.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.NewWithAPIPrefix(nc, api)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}

// streamT makes a stream S of the subjects s.>.
func streamT(t *testing.T, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	s, err := js.CreateStream(
		t.Context(),
		jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}, AllowMsgSchedules: true},
	)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestServerListens: clients reach the server at its URL, whatever the listen
// address is. Its largest payload is 8 MiB.
func TestServerListens(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "127.0.0.1:-1", "localhost:0", ":0", "0.0.0.0:0"} {
		s := serveT(t, ServerConfig{Listen: listen})
		nc, js := connectT(t, Dial{URL: s.URL()})
		streamT(t, js)
		if got := nc.MaxPayload(); got != 8<<20 {
			t.Errorf("%s: largest payload %d, want %d", listen, got, 8<<20)
		}
		if strings.Contains(s.URL(), "0.0.0.0") || strings.Contains(s.URL(), "[::]") {
			t.Errorf("%s: URL %s, want one that clients can dial", listen, s.URL())
		}
	}
}

// TestServerWithoutSocket: a server without a listen address has no URL. A Dial
// in the same process reaches it, and publishes 4 MiB.
func TestServerWithoutSocket(t *testing.T) {
	s := serveT(t, ServerConfig{SyncAlways: true})
	if s.URL() != "" {
		t.Errorf("URL %q, want none", s.URL())
	}
	_, js := connectT(t, Dial{Server: s})
	streamT(t, js)
	if _, err := js.Publish(t.Context(), "s.a", make([]byte, 4<<20)); err != nil {
		t.Errorf("publish of 4 MiB: %v", err)
	}
}

// TestServerKeepsItsStore: a server makes its store directory and locks it. A
// server that starts later has the messages of the first one.
func TestServerKeepsItsStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := serveT(t, ServerConfig{StoreDir: dir})
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("store: %v, %v; want a directory of mode 0700", info, err)
	}
	_, js := connectT(t, Dial{Server: s})
	streamT(t, js)
	if _, err := js.Publish(t.Context(), "s.a", []byte("kept")); err != nil {
		t.Fatal(err)
	}

	_, err := Serve(ServerConfig{StoreDir: dir})
	if err == nil || !strings.Contains(err.Error(), dir) ||
		!strings.Contains(err.Error(), "in use by another server") {
		t.Errorf("a second server on one store: got %v, want in use by another server", err)
	}

	s.Close()
	s.Close()
	again := serveT(t, ServerConfig{StoreDir: dir})
	_, js = connectT(t, Dial{Server: again})
	stream, err := js.Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.GetLastMsgForSubject(t.Context(), "s.a"); err != nil || string(m.Data) != "kept" {
		t.Errorf("after a restart: got %v, %v; want the message", m, err)
	}
}

// TestServerRefuses: Serve returns an error that names the wrong setting, and
// leaves the store unlocked.
func TestServerRefuses(t *testing.T) {
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		cfg  ServerConfig
		want string
	}{
		{"no store", ServerConfig{}, "store directory must be set"},
		{"a store that is a file", ServerConfig{StoreDir: file}, file},
		{"a store below a file", ServerConfig{StoreDir: filepath.Join(file, "x")}, file},
		{"no port", ServerConfig{StoreDir: dir, Listen: "localhost"}, `must be HOST:PORT, got "localhost"`},
		{"a port that is no number", ServerConfig{StoreDir: dir, Listen: "localhost:nats"}, "port"},
		{"a port too high", ServerConfig{StoreDir: dir, Listen: "localhost:65536"}, "port"},
		{"a negative interval", ServerConfig{StoreDir: dir, SyncInterval: -time.Second}, "sync interval"},
		{"a port in use", ServerConfig{StoreDir: dir, Listen: taken.Addr().String()}, taken.Addr().String()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Serve(tt.cfg)
			if err == nil {
				s.Close()
				t.Fatal("the server has started")
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %s", err, tt.want)
			}
		})
	}
	serveT(t, ServerConfig{StoreDir: dir})
}

// TestServerLogs: notices of the server are at level debug. Its start and its
// end log no error.
func TestServerLogs(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := serveT(t, ServerConfig{Listen: "127.0.0.1:0", Log: log})
	s.Close()
	if got := out.String(); !strings.Contains(got, "level=DEBUG msg=\"nats server\" line=\"Server is ready\"") ||
		strings.Contains(got, "level=INFO") || strings.Contains(got, "level=ERROR") {
		t.Errorf("got the log\n%s\nwant that the server is ready, at level debug, and no error", got)
	}
}

// TestServerHasNoLimitOnConsumers: a stream takes 1,001 consumers. The default
// of NATS is 1,000.
func TestServerHasNoLimitOnConsumers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	s := serveT(t, ServerConfig{})
	_, js := connectT(t, Dial{Server: s})
	stream := streamT(t, js)
	for range 1001 {
		if _, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{MemoryStorage: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestServerInVirtualTime: a timer fires after 20 minutes of virtual time.
func TestServerInVirtualTime(t *testing.T) {
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		s, err := Serve(ServerConfig{StoreDir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		nc, api, err := Dial{Server: s}.connect(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		js, err := jetstream.NewWithAPIPrefix(nc, api)
		if err != nil {
			t.Fatal(err)
		}
		c, err := streamT(t, js).CreateConsumer(t.Context(), jetstream.ConsumerConfig{FilterSubject: "s.a"})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		m := nats.NewMsg("s.timer")
		m.Header.Set("Nats-Schedule", "@at "+start.Add(20*time.Minute).UTC().Format(time.RFC3339))
		m.Header.Set("Nats-Schedule-Target", "s.a")
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Next(jetstream.FetchMaxWait(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < 20*time.Minute || d > 21*time.Minute {
			t.Errorf("fired after %v, want 20m to 21m", d)
		}
	})
}
