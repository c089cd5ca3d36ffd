package cmd_test

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// serviceManager is the socket that a service manager gives to a process.
type serviceManager struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

func newServiceManager(t *testing.T) *serviceManager {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &serviceManager{t, conn, path}
}

// next returns the states of the next message.
func (m *serviceManager) next() []string {
	m.t.Helper()
	buf := make([]byte, 4096)
	if err := m.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		m.t.Fatal(err)
	}
	n, err := m.conn.Read(buf)
	if err != nil {
		m.t.Fatal(err)
	}
	return strings.Split(string(buf[:n]), "\n")
}

// await returns the states up to the first message that has one of them.
func (m *serviceManager) await(state string) (before []string) {
	m.t.Helper()
	for {
		got := m.next()
		if slices.Contains(got, state) {
			return before
		}
		before = append(before, got...)
	}
}

// signsOfLife waits for so many signs of life in a row, and fails if any other
// state comes.
func (m *serviceManager) signsOfLife(n int) {
	m.t.Helper()
	for range n {
		if got := m.next(); !slices.Equal(got, []string{"WATCHDOG=1"}) {
			m.t.Errorf("got %q, want a sign of life", got)
		}
	}
}

// TestServiceManager: a worker says that it is ready when it serves, and not
// while its server is away. It says that it stops when it begins to drain. It
// gives signs of life from its start to its end.
func TestServiceManager(t *testing.T) {
	p := newScenario(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	p.agent("slow", "", func(*modelRequest) reply {
		close(asked)
		<-answer
		return reply{text: "done"}
	})
	manager := newServiceManager(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()

	worker := p.command("--agents", p.path("agents"), "--server", "nats://"+address, "--grace", "60s")
	worker.Path = filepath.Join(binaries(t), "agentd")
	worker.Env = append(worker.Env, "NOTIFY_SOCKET="+manager.path, "WATCHDOG_USEC=100000")
	var log buffer
	worker.Stderr = &log
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	if got := manager.next(); len(got) != 1 || !strings.HasPrefix(got[0], "STATUS=starting") {
		t.Errorf("at the start: got %q, want a status", got)
	}
	manager.signsOfLife(10)

	server, err := bus.Serve(bus.ServerConfig{Listen: address, StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	manager.await("READY=1")
	conn, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{Server: server}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	c := client.New(conn)
	agent, err := subjects.ParseAgent("slow")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := c.Submit(t.Context(), client.Task{Agent: agent, Text: "work"})
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if before := manager.await("STOPPING=1"); slices.Contains(before, "READY=1") {
		t.Errorf("the worker said twice that it is ready: %q", before)
	}
	manager.signsOfLife(10)
	close(answer)
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v: %s", err, log.String())
	}
	if o, err := c.Wait(t.Context(), tree); err != nil || o.Result != "done" {
		t.Errorf("the run of the drained worker has the outcome %+v, error %v", o, err)
	}
}
