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
	"github.com/nats-io/nkeys"
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
	// Protected admits only clients with the server's key: the nkey of the
	// seed in Server.KeyFile. Without it the server asks for no
	// credentials, so it must listen only where all clients are trusted. A
	// server without a socket needs no key.
	Protected bool
	// KeyFile is the file of the key; empty: LocalKeyFile of the address,
	// where this user's clients find it. Serve makes it, with mode 0600, if
	// it is missing.
	KeyFile string
	// Log may be nil: nothing is logged then.
	Log *slog.Logger
}

// Server is a NATS server with JetStream inside this process. A Dial with it
// needs no credentials.
type Server struct {
	// KeyFile is the file of the key that other processes need. It is empty
	// if the server asks for no credentials.
	KeyFile string

	srv    *server.Server
	listen bool
	// key is nil if the server asks for no credentials.
	key nkeys.KeyPair
	// passing says that KeyFile is of use only while the server runs.
	passing bool
	unlock  func()
	once    sync.Once
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
	s := &Server{listen: cfg.Listen != "", unlock: unlock}
	if cfg.Protected && s.listen {
		err = s.protect(cfg, opts)
	}
	if err == nil {
		s.srv, err = server.NewServer(opts)
	}
	if err != nil {
		unlock()
		return nil, err
	}
	lines := &serverLog{log: cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))}
	s.srv.SetLoggerV2(lines, false, false, false)
	// Start returns after it has recovered the store, however long that
	// takes.
	s.srv.Start()
	if err := lines.fatal(); err != nil {
		s.Close()
		return nil, err
	}
	if !s.srv.ReadyForConnections(readyTimeout) {
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
	opts.Port = cmp.Or(opts.Port, server.RANDOM_PORT)
	return opts, nil
}

// protect makes the server admit only clients with its key. A server at a free
// port takes the port here, so that its key has a file that clients find. Close
// removes that file.
func (s *Server) protect(cfg ServerConfig, opts *server.Options) (err error) {
	s.KeyFile = cfg.KeyFile
	if s.KeyFile == "" {
		if opts.Port == server.RANDOM_PORT {
			if opts.Port, err = freePort(opts.Host); err != nil {
				return err
			}
			s.passing = true
		}
		if s.KeyFile, err = LocalKeyFile(net.JoinHostPort(dialled(opts.Host), strconv.Itoa(opts.Port))); err != nil {
			return err
		}
	}
	if s.key, err = ownKey(s.KeyFile); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	public, err := s.key.PublicKey()
	if err != nil {
		return err
	}
	opts.Nkeys = []*server.NkeyUser{{Nkey: public}}
	return nil
}

// freePort returns a port of a host without a listener.
func freePort(host string) (int, error) {
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.ParseIP(dialled(host))})
	if err != nil {
		return 0, err
	}
	defer l.Close()
	addr, _ := l.Addr().(*net.TCPAddr)
	return addr.Port, nil
}

// dialled returns the host that clients of this machine dial for a host that a
// server listens on.
func dialled(host string) string {
	if ip := net.ParseIP(host); host == "" || host == "localhost" || ip != nil && ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return host
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
	return "nats://" + net.JoinHostPort(dialled(addr.IP.String()), strconv.Itoa(addr.Port))
}

// Close shuts the server down and waits until its store is closed. A second
// call does nothing.
func (s *Server) Close() {
	s.once.Do(func() {
		s.srv.Shutdown()
		s.srv.WaitForShutdown()
		if s.passing {
			_ = os.Remove(s.KeyFile)
		}
		s.unlock()
	})
}
