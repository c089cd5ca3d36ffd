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

// ServerConfig says where an embedded server listens and keeps its streams.
type ServerConfig struct {
	// Listen is HOST:PORT, with port 0 for a free one. If it is empty the
	// server has no socket, and only Dial.Server reaches it.
	Listen string
	// StoreDir is required. It is created if it is missing, and locked
	// while the server runs.
	StoreDir string
	// SyncAlways makes the server fsync before every acknowledgement. Then
	// a power cut loses no acknowledged message, and a write costs 0.3 ms.
	SyncAlways bool
	// SyncInterval is the time between two fsyncs without SyncAlways; 0:
	// the server's default of 2 minutes. A negative one is an error.
	SyncInterval time.Duration
	// Log may be nil: nothing is logged then.
	Log *slog.Logger
}

// Server is a NATS server with JetStream inside this process. It requires no
// credentials, so it must listen only where all clients are trusted.
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
	errLocked   = errors.New("directory is in use by another server")
	errNotReady = errors.New("server not ready after " + readyTimeout.String())
)

// Serve starts a server and returns when it accepts connections. The caller
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
	// Start returns after it has recovered the store, however long that
	// takes.
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

// options leaves the limits of the store and of memory to the server, which
// derives them from the disk and the machine. The server reserves nothing: a
// small disk refuses writes when it is full, not streams.
func (cfg ServerConfig) options() (*server.Options, error) {
	if cfg.StoreDir == "" {
		return nil, errors.New("store directory must be set")
	}
	if cfg.SyncInterval < 0 {
		return nil, fmt.Errorf("sync interval must not be negative, got %s", cfg.SyncInterval)
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
	// Each agent has two consumers; the default is 1,000.
	opts.JetStreamLimits.DefaultMaxConsumers = -1
	if opts.DontListen {
		return opts, nil
	}
	host, port, err := net.SplitHostPort(cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen address must be HOST:PORT, got %q: %w", cfg.Listen, err)
	}
	opts.Host = host
	if opts.Port, err = strconv.Atoi(port); err != nil || opts.Port < -1 || opts.Port > 65535 {
		return nil, fmt.Errorf("listen port must be 0 to 65535, got %q", cfg.Listen)
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	return opts, nil
}

// own locks dir for this process, and creates it if it is missing. The lock
// ends with the process, so a killed process leaves nothing to clean up.
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

// URL is the address for clients. It is empty if the server has no socket.
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

// Close shuts the server down and waits until its store is closed. A second
// call does nothing.
func (s *Server) Close() {
	s.once.Do(func() {
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
		s.unlock()
	})
}
