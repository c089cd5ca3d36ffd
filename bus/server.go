package bus

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats-server/v2/server"
)

// ServerConfig says what an embedded server listens on and where it keeps its
// streams.
type ServerConfig struct {
	// HOST:PORT, port 0 for a free one; "": no socket, only Dial.Server
	// reaches it
	Listen string
	// required; made if it is not there, and this server's alone while it
	// runs
	StoreDir string
	// fsync before every acknowledgement: survives a power cut, costs 0.3
	// ms a write
	SyncAlways bool
	// how often to fsync otherwise; 0: the server's own default
	SyncInterval time.Duration
	Log          *slog.Logger // nil: discard
}

// Server is a NATS server with JetStream inside this process. It asks nobody
// for credentials: let it listen where only friends can reach it.
type Server struct {
	srv    *server.Server
	listen bool
	unlock func()
	once   sync.Once
}

const (
	maxPayload   = 8 << 20
	readyTimeout = 10 * time.Second
	lockFile     = "axe.lock"
)

var (
	errLocked   = errors.New("in use by another server")
	errNotReady = errors.New("not ready after " + readyTimeout.String())
)

// Serve starts a server and returns when it takes connections. The caller
// closes it.
func Serve(cfg ServerConfig) (*Server, error) {
	s, err := serve(cfg)
	if err != nil {
		return nil, fmt.Errorf("embedded server: %w", err)
	}
	return s, nil
}

func serve(cfg ServerConfig) (*Server, error) {
	opts, err := cfg.options()
	if err != nil {
		return nil, err
	}
	unlock, err := own(cfg.StoreDir)
	if err != nil {
		return nil, err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		unlock()
		return nil, err
	}
	lines := &serverLog{log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))}
	srv.SetLoggerV2(lines, false, false, false)
	s := &Server{srv: srv, listen: cfg.Listen != "", unlock: unlock}
	// recovers the store before it returns, for as long as that takes
	srv.Start()
	if err := lines.fatal(); err != nil {
		s.Close()
		return nil, err
	}
	if !srv.ReadyForConnections(readyTimeout) {
		s.Close()
		return nil, errNotReady
	}
	return s, nil
}

// options leaves the store's and the memory's limits to the server, which
// derives them from the disk and the machine. Nothing is reserved: a small disk
// refuses writes when it is full, not streams.
func (cfg ServerConfig) options() (*server.Options, error) {
	if cfg.StoreDir == "" {
		return nil, errors.New("no store directory")
	}
	if cfg.SyncInterval < 0 {
		return nil, errors.New("negative sync interval")
	}
	opts := &server.Options{
		DontListen:   cfg.Listen == "",
		NoSigs:       true,
		MaxPayload:   maxPayload,
		JetStream:    true,
		StoreDir:     cfg.StoreDir,
		SyncAlways:   cfg.SyncAlways,
		SyncInterval: cfg.SyncInterval,
	}
	// 1,000 otherwise: two for each agent
	opts.JetStreamLimits.DefaultMaxConsumers = -1
	if opts.DontListen {
		return opts, nil
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: want HOST:PORT: %w", cfg.Listen, err)
	}
	opts.Host = host
	if opts.Port, err = strconv.Atoi(port); err != nil || opts.Port < -1 || opts.Port > 65535 {
		return nil, fmt.Errorf("listen on %q: port: want a number up to 65535", cfg.Listen)
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	return opts, nil
}

// own makes dir if need be and takes it for this process alone. The lock ends
// with the process, so one that was killed leaves nothing to clean up.
func own(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	lock := flock.New(filepath.Join(dir, lockFile), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	taken, err := lock.TryLock()
	if err == nil && !taken {
		err = errLocked
	}
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// URL is where clients connect, "" when the server listens on no socket.
func (s *Server) URL() string {
	addr, ok := s.srv.Addr().(*net.TCPAddr)
	if !s.listen || !ok {
		return ""
	}
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "nats://" + net.JoinHostPort(host, strconv.Itoa(addr.Port))
}

// Close shuts the server down and waits until its store is closed. Closing
// again does nothing.
func (s *Server) Close() {
	s.once.Do(func() {
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
		s.unlock()
	})
}
