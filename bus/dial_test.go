package bus

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/internal/bustest"
)

const hidden = "hunter2"

// record keeps log lines and lets a test wait for a message.
type record struct{ lines chan string }

// newRecord returns a record with room for 1,000 lines.
func newRecord() record { return record{make(chan string, 1000)} }

func (r record) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

func (r record) Write(line []byte) (int, error) {
	r.lines <- string(line)
	return len(line), nil
}

// wait returns the next line with a message. It fails the test if a line before
// it shows the secret.
func (r record) wait(t *testing.T, msg string) string {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case line := <-r.lines:
			if strings.Contains(line, hidden) {
				t.Errorf("a secret in the log: %s", line)
			}
			if strings.Contains(line, `msg="`+msg+`"`) || strings.Contains(line, "msg="+msg+" ") {
				return line
			}
		case <-late:
			t.Fatalf("%q was not logged within 20 s", msg)
		}
	}
}

// natsT starts a plain NATS server with the given options, until the test ends.
// It returns its HOST:PORT.
func natsT(t *testing.T, opts *server.Options) string {
	t.Helper()
	opts.Host = "127.0.0.1"
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	return bustest.Serve(t, opts).Addr().String()
}

// freeAddr returns an address without a listener.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// fileT writes a file in a directory of its own and returns its path.
func fileT(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// contextT writes a context of the nats CLI. A Dial finds it by its name. The
// contexts of earlier calls are not found any more.
func contextT(t *testing.T, name string, values map[string]string) {
	t.Helper()
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	dir := filepath.Join(home, "nats", "context")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// userKey makes an nkey of a user. It returns the public key and the file of
// the seed.
func userKey(t *testing.T) (public, file string) {
	t.Helper()
	kp, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := kp.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = kp.PublicKey(); err != nil {
		t.Fatal(err)
	}
	return public, fileT(t, "user.nk", seed)
}

// refused dials and returns the error. It fails the test if the dial connects,
// or waits for the server, or if the error shows the secret.
func refused(t *testing.T, d Dial) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	nc, _, err := d.connect(ctx)
	switch {
	case err == nil:
		nc.Close()
		t.Fatal("connected")
	case errors.Is(err, context.DeadlineExceeded):
		t.Fatalf("waited for a server that had refused: %v", err)
	case strings.Contains(err.Error(), hidden):
		t.Errorf("a secret in the error: %v", err)
	}
	return err
}

// TestDialCredentials: a dial connects with a user and a password, with a token
// and with an nkey. With wrong ones it fails at once. No secret is in an error
// or in the log.
func TestDialCredentials(t *testing.T) {
	password := natsT(t, &server.Options{Username: "worker", Password: hidden})
	token := natsT(t, &server.Options{Authorization: hidden})
	public, seed := userKey(t)
	_, strangers := userKey(t)
	nkey := natsT(t, &server.Options{Nkeys: []*server.NkeyUser{{Nkey: public}}})

	for name, d := range map[string]Dial{
		"user":                     {URL: "nats://" + password, User: "worker", Password: hidden},
		"no scheme":                {URL: password, User: "worker", Password: hidden},
		"user in the URL":          {URL: "nats://worker:" + hidden + "@" + password},
		"user wins over the URL's": {URL: "nats://worker:wrong@" + password, User: "worker", Password: hidden},
		"token":                    {URL: "nats://" + token, Token: hidden},
		"token in the URL":         {URL: "nats://" + hidden + "@" + token},
		"nkey":                     {URL: "nats://" + nkey, NKey: seed},
	} {
		t.Run(name, func(t *testing.T) {
			log := newRecord()
			d.Log = log.logger()
			nc, _ := connectT(t, d)
			if err := nc.FlushTimeout(5 * time.Second); err != nil {
				t.Errorf("flush: %v", err)
			}
			log.wait(t, "connected")
		})
	}
	for name, d := range map[string]Dial{
		"wrong password": {URL: "nats://" + password, User: "worker", Password: "wrong"},
		"no password":    {URL: "nats://" + password},
		"wrong token":    {URL: "nats://" + token, Token: "wrong"},
		"another's key":  {URL: "nats://" + nkey, NKey: strangers},
	} {
		t.Run(name, func(t *testing.T) {
			if err := refused(t, d); !errors.Is(err, nats.ErrAuthorization) {
				t.Errorf("got %v, want %v", err, nats.ErrAuthorization)
			}
		})
	}
}

// TestDialMistakes: a dial that cannot succeed fails at once, and its error
// says why.
func TestDialMistakes(t *testing.T) {
	nowhere := "nats://" + freeAddr(t)
	garbage := fileT(t, "garbage", []byte("garbage"))
	absent := filepath.Join(t.TempDir(), "absent")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, tt := range []struct {
		name, want string
		d          Dial
	}{
		{"creds that are absent", absent, Dial{URL: nowhere, Creds: absent}},
		{"creds that are garbage", "credentials", Dial{URL: nowhere, Creds: garbage}},
		{"key that is absent", absent, Dial{URL: nowhere, NKey: absent}},
		{"key that is garbage", garbage, Dial{URL: nowhere, NKey: garbage}},
		{"CA that is absent", absent, Dial{URL: nowhere, TLSCA: absent}},
		{"CA that is garbage", garbage, Dial{URL: nowhere, TLSCA: garbage}},
		{"certificate that is absent", absent, Dial{URL: nowhere, TLSCert: absent, TLSKey: absent}},
		{"certificate without its key", "key", Dial{URL: nowhere, TLSCert: garbage}},
		{"unknown context", `unknown context "absent"`, Dial{Context: "absent"}},
		{"scheme", "malformed", Dial{URL: "http://u:" + hidden + "@host"}},
		{"port", "malformed", Dial{URL: "nats://u:" + hidden + "@host:port"}},
		{"port too high", "malformed", Dial{URL: "nats://host:65536"}},
		{"slash in a password", "malformed", Dial{URL: "nats://u:1/" + hidden + "@host"}},
		{"hash in a password", "malformed", Dial{URL: "nats://u:1#" + hidden + "@host"}},
		{"password without a host", "malformed", Dial{URL: "nats://u:" + hidden}},
		{"second", "server URL 2", Dial{URL: nowhere + ",nats://"}},
		{"user and token", "only one of", Dial{URL: nowhere, User: "a", Token: "b"}},
		{"password alone", "needs a user", Dial{URL: nowhere, Password: "b"}},
		{"server and URL", "excludes a URL", Dial{URL: nowhere, Server: &Server{}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := refused(t, tt.d); !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want an error with %s", err, tt.want)
			}
		})
	}
}

// TestDialContext: a Dial uses the settings of a context of the nats CLI. Its
// own URL and credentials win over those of the context.
func TestDialContext(t *testing.T) {
	addr := natsT(
		t,
		&server.Options{Users: []*server.User{{Username: "a", Password: hidden}, {Username: "b", Password: "other"}}},
	)
	contextT(t, "prod", map[string]string{
		"url": "nats://" + addr, "user": "a", "password": hidden,
		"jetstream_domain": "hub", "inbox_prefix": "_MINE",
	})
	nc, api, err := Dial{Context: "prod"}.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if api != "$JS.hub.API." || !strings.HasPrefix(nc.NewInbox(), "_MINE.") {
		t.Errorf("API prefix %s, inbox %s; want $JS.hub.API. and _MINE.", api, nc.NewInbox())
	}

	connectT(t, Dial{Context: "prod", User: "b", Password: "other"})
	if err := refused(t, Dial{Context: "prod", Token: "x"}); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("with a token in place of the context's user: got %v, want %v", err, nats.ErrAuthorization)
	}
	elsewhere := natsT(t, &server.Options{Authorization: hidden})
	connectT(t, Dial{Context: "prod", URL: "nats://" + hidden + "@" + elsewhere})

	contextT(
		t,
		"prefixed",
		map[string]string{"url": addr, "user": "b", "password": "other", "jetstream_api_prefix": "from.hub"},
	)
	nc, api, err = Dial{Context: "prefixed"}.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if api != "from.hub." {
		t.Errorf("API prefix %s, want from.hub.", api)
	}

	contextT(t, "bad", map[string]string{"url": "nats://u:" + hidden + "@host:port"})
	if err := refused(t, Dial{Context: "bad"}); !errors.Is(err, errMalformedURL) {
		t.Errorf("a malformed URL: got %v, want %v", err, errMalformedURL)
	}
	contextT(t, "proxied", map[string]string{"url": addr, "socks_proxy": "socks5://u:" + hidden + "@host:port"})
	if err := refused(t, Dial{Context: "proxied"}); !errors.Is(err, errMalformedURL) {
		t.Errorf("a malformed proxy: got %v, want %v", err, errMalformedURL)
	}
}

// TestDialWaits: a dial waits for a missing server until its context ends. It
// logs that once, and the error names the server without the password.
func TestDialWaits(t *testing.T) {
	addr := freeAddr(t)
	log := newRecord()
	d := Dial{URL: "nats://u:" + hidden + "@" + addr, Log: log.logger()}
	// This is long enough for two attempts.
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	_, _, err := d.connect(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, nats.ErrNoServers) ||
		!strings.Contains(err.Error(), "nats://"+addr) || strings.Contains(err.Error(), hidden) {
		t.Errorf("got %v, want a passed deadline and no server at %s", err, addr)
	}
	if n := len(log.lines); n != 1 {
		t.Errorf("%d lines in the log, want 1", n)
	}
	if line := log.wait(t, "waiting for the server"); !strings.Contains(line, "url=nats://"+addr) {
		t.Errorf("logged %s, want the URL of %s", line, addr)
	}
}

// TestDialWaitsForTheServer: a dial that waits connects when the server starts.
func TestDialWaitsForTheServer(t *testing.T) {
	addr := freeAddr(t)
	log := newRecord()
	done := make(chan error, 1)
	go func() {
		nc, _, err := Dial{URL: "nats://" + addr, Log: log.logger()}.connect(t.Context())
		if err == nil {
			nc.Close()
		}
		done <- err
	}()
	log.wait(t, "waiting for the server")
	serveT(t, ServerConfig{Listen: addr})
	log.wait(t, "connected")
	if err := <-done; err != nil {
		t.Errorf("dial: %v", err)
	}
}

// TestDialReconnects: a connection is made again after its server was away.
// Meanwhile a publish fails at once. Closed is called when the owner closes the
// connection.
func TestDialReconnects(t *testing.T) {
	cfg := ServerConfig{Listen: freeAddr(t), StoreDir: t.TempDir()}
	s := serveT(t, cfg)
	log, closed := newRecord(), make(chan struct{})
	nc, js := connectT(t, Dial{URL: s.URL(), Log: log.logger(), Closed: func() { close(closed) }})
	streamT(t, js)
	s.Close()
	log.wait(t, "disconnected")
	if _, err := js.Publish(t.Context(), "s.a", nil); !errors.Is(err, nats.ErrReconnectBufExceeded) {
		t.Errorf("publish without a server: got %v, want %v", err, nats.ErrReconnectBufExceeded)
	}
	serveT(t, cfg)
	if line := log.wait(t, "reconnected"); !strings.Contains(line, s.URL()) {
		t.Errorf("logged %s, want the URL %s", line, s.URL())
	}
	if _, err := js.Publish(t.Context(), "s.a", nil); err != nil {
		t.Errorf("publish after the reconnect: %v", err)
	}
	nc.Close()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("Closed was not called within 10 s")
	}
}

// TestDialClosesWithoutCredentials: a connection is closed for good when the
// server that comes back refuses its password.
func TestDialClosesWithoutCredentials(t *testing.T) {
	addr := freeAddr(t)
	opts := func(password string) *server.Options {
		return &server.Options{
			Host:     "127.0.0.1",
			Port:     portOf(t, addr),
			NoLog:    true,
			NoSigs:   true,
			Username: "u",
			Password: password,
		}
	}
	first, err := server.NewServer(opts(hidden))
	if err != nil {
		t.Fatal(err)
	}
	first.Start()
	closed := make(chan struct{})
	connectT(t, Dial{URL: addr, User: "u", Password: hidden, Closed: func() { close(closed) }})
	first.Shutdown()
	first.WaitForShutdown()
	natsT(t, opts("other"))
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Error("the connection still tries to reconnect")
	}
}

// portOf returns the port of HOST:PORT.
func portOf(t *testing.T, addr string) int {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return a.Port
}
