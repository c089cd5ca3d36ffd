package bus

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// protectedT starts a server that admits only this test. The default address is
// a free port.
func protectedT(t *testing.T, listen string) *Server {
	t.Helper()
	return serveT(t, ServerConfig{Listen: listen, Protected: true})
}

// TestProtectedServer: a Dial without credentials reaches this user's server at
// each name of its address, and so does a Dial in its process. The file of the
// key is readable for its owner alone, and goes with a server at a free port.
func TestProtectedServer(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s := protectedT(t, "localhost:0")
	port := s.URL()[strings.LastIndex(s.URL(), ":"):]
	for _, d := range []Dial{{URL: s.URL()}, {URL: "localhost" + port}, {NKey: s.KeyFile, URL: s.URL()}, {Server: s}} {
		_, js := connectT(t, d)
		if _, err := js.AccountInfo(t.Context()); err != nil {
			t.Errorf("%+v: %v", d, err)
		}
	}
	for file, want := range map[string]os.FileMode{s.KeyFile: 0o600, filepath.Dir(s.KeyFile): 0o700} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want mode %o", file, info, err, want)
		}
	}
	s.Close()
	if _, err := os.Stat(s.KeyFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the end: %v, want no key file", err)
	}
}

// TestStranger: a client without the key, or with another one, reads nothing,
// publishes nothing and asks JetStream nothing. Its connection ends. The server
// has no monitoring port.
func TestStranger(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s := protectedT(t, "127.0.0.1:0")
	owner := openT(t, Dial{URL: s.URL()}, true)
	_, otherKey := userKey(t)
	for _, d := range []Dial{
		{URL: s.URL(), NKey: otherKey}, {URL: s.URL(), Token: hidden}, {URL: s.URL(), User: "u", Password: hidden},
	} {
		if err := refused(t, d); !Unauthorized(err) {
			t.Errorf("a stranger: %v, want an authorization violation", err)
		}
	}
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	if err := refused(t, Dial{URL: s.URL()}); !Unauthorized(err) {
		t.Errorf("another user: %v, want an authorization violation", err)
	}
	if _, err := nats.Connect(s.URL()); !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("a stock client: %v, want an authorization violation", err)
	}
	for _, lines := range []string{
		"SUB > 1\r\nPING\r\n",
		"PUB axe.submit.lead.stolen 1\r\nx\r\nPING\r\n",
		"CONNECT {}\r\nSUB > 1\r\nPING\r\n",
		"CONNECT {\"verbose\":false,\"no_responders\":true}\r\nPUB axe.submit.lead.stolen 1\r\nx\r\nPING\r\n",
		"CONNECT {}\r\nSUB i 1\r\nPUB $JS.API.STREAM.NAMES i 0\r\n\r\nPING\r\n",
		"CONNECT {}\r\nPUB axe.run.lead.t.r.cancel 0\r\n\r\nPING\r\n",
		"CONNECT {\"nkey\":\"UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4\",\"sig\":\"x\"}\r\nPING\r\n",
	} {
		got := converse(t, strings.TrimPrefix(s.URL(), "nats://"), lines)
		if !strings.HasPrefix(got, "INFO ") || !strings.HasSuffix(got, "-ERR 'Authorization Violation'\r\n") ||
			strings.Contains(got, "MSG") || strings.Contains(got, "PONG") {
			t.Errorf("%q: got %q, want a greeting, the violation and the end", lines, got)
		}
	}
	for _, stream := range []string{"AXE_SUBMIT", "AXE_RUNS"} {
		_, js := owner.NATS()
		of, err := js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		if n := of.CachedInfo().State.Msgs; n != 0 {
			t.Errorf("%s has %d messages of strangers", stream, n)
		}
	}
	if at := s.srv.MonitorAddr(); at != nil {
		t.Errorf("monitoring listens on %v", at)
	}
}

// converse sends lines of the protocol to a server, and returns its answer up
// to the end of the connection. The error of a connection that was reset is its
// end too.
func converse(t *testing.T, addr, lines string) string {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(conn, lines); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	b, err := io.ReadAll(conn)
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("%q: the connection is still open", lines)
	}
	return string(b)
}

// TestProtectedServerComesBack: a server at a fixed port keeps its key, so a
// client reconnects by itself.
func TestProtectedServerComesBack(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	cfg := ServerConfig{Listen: freeAddr(t), StoreDir: t.TempDir(), Protected: true}
	s := serveT(t, cfg)
	log := newRecord()
	nc, _ := connectT(t, Dial{URL: s.URL(), Log: log.logger()})
	s.Close()
	log.wait(t, "disconnected")
	serveT(t, cfg)
	log.wait(t, "reconnected")
	if err := nc.Flush(); err != nil {
		t.Error(err)
	}
}

// TestKeyOfAnotherServer: a server that knows no nkeys listens where this
// user's server had listened before. Clients connect without the key.
func TestKeyOfAnotherServer(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	addr := freeAddr(t)
	file, err := LocalKeyFile(addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ownKey(file); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	natsT(t, &server.Options{Port: n})
	connectT(t, Dial{URL: addr})
}

// TestExposedKey: a key that other users may read is not used: by the server,
// or by a client.
func TestExposedKey(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	addr := freeAddr(t)
	s := protectedT(t, addr)
	if err := os.Chmod(s.KeyFile, 0o640); err != nil {
		t.Fatal(err)
	}
	err := refused(t, Dial{URL: s.URL()})
	if !errors.Is(err, ErrCredentials) || !strings.Contains(err.Error(), s.KeyFile) ||
		!strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a client: %v, want advice on the key's file", err)
	}
	s.Close()
	_, err = Serve(ServerConfig{Listen: addr, StoreDir: t.TempDir(), Protected: true})
	if err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a server: %v, want advice on the key's file", err)
	}
}
