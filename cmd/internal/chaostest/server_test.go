package chaostest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
)

// serverEnv has the configuration of a process that is a server.
const serverEnv = "AXE_CHAOS_SERVER"

// node is a NATS server that restarts with the same name, ports and store.
type node struct {
	Name, Store string
	Port        int
	// Cluster is the server's port for the other nodes. It is 0 for a
	// server without other nodes.
	Cluster int
	Routes  string // to all nodes
	// Config is the file with the server's configuration. It is "" for a
	// server that is configured by the other fields.
	Config string

	proc *process
	gen  int // number of starts
}

// serve runs the server of a node, whose JSON is config. It returns an error or
// never.
func serve(config string) error {
	var n node
	if err := json.Unmarshal([]byte(config), &n); err != nil {
		return err
	}
	if n.Config != "" {
		return serveConfig(n.Config)
	}
	if n.Cluster == 0 {
		_, err := bus.Serve(
			bus.ServerConfig{Listen: fmt.Sprintf("127.0.0.1:%d", n.Port), StoreDir: n.Store, SyncAlways: true},
		)
		if err != nil {
			return err
		}
		select {}
	}
	srv, err := server.NewServer(&server.Options{
		ServerName: n.Name,
		Host:       "127.0.0.1",
		Port:       n.Port,
		JetStream:  true,
		StoreDir:   n.Store,
		SyncAlways: true,
		NoSigs:     true,
		NoLog:      true,
		Cluster:    server.ClusterOpts{Name: "chaos", Host: "127.0.0.1", Port: n.Cluster},
		Routes:     server.RoutesFromStr(n.Routes),
	})
	if err != nil {
		return err
	}
	srv.Start()
	select {}
}

// serveConfig runs the server of a configuration file, which SIGHUP makes it
// read again. It returns an error or never.
func serveConfig(file string) error {
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		return err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	srv.Start()
	select {}
}

// servers is one server, or a cluster of three.
type servers struct {
	group *group
	nodes []*node
	// program is this test's own binary, or one with another clock. env is
	// added to its environment.
	program string
	env     []string
	// in is the command of the workers that the servers run in; nil: the
	// servers have processes of their own.
	in *agentd
}

// newServers makes n nodes with stores below the directory store. No node is
// started.
func newServers(t *testing.T, g *group, n int, store string) *servers {
	t.Helper()
	s := &servers{group: g, program: os.Args[0]}
	var routes []string
	for i := range n {
		nd := &node{Name: fmt.Sprintf("s%d", i), Port: freePort(t)}
		nd.Store = filepath.Join(store, nd.Name)
		if n > 1 {
			nd.Cluster = freePort(t)
			routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", nd.Cluster))
		}
		s.nodes = append(s.nodes, nd)
	}
	for _, nd := range s.nodes {
		nd.Routes = strings.Join(routes, ",")
	}
	return s
}

// freePort returns a port without a listener at this moment.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
}

// urls returns the addresses for clients, with commas between them.
func (s *servers) urls() string {
	var all []string
	for _, n := range s.nodes {
		all = append(all, "nats://"+n.addr())
	}
	return strings.Join(all, ",")
}

// dial connects a stock client. The server in a worker admits only clients with
// its key.
func (s *servers) dial() (*nats.Conn, error) {
	if s.in == nil {
		return nats.Connect(s.urls())
	}
	file, err := bus.LocalKeyFile(s.nodes[0].addr())
	if err != nil {
		return nil, err
	}
	key, err := nats.NkeyOptionFromSeed(file)
	if err != nil {
		return nil, err
	}
	return nats.Connect(s.urls(), key)
}

func (n *node) addr() string { return fmt.Sprintf("127.0.0.1:%d", n.Port) }

// command returns the command of a node. A worker that contains a node has a
// new name each time.
func (s *servers) command(n *node) (*exec.Cmd, error) {
	n.gen++
	if s.in != nil {
		return s.in.named(
			fmt.Sprintf("%s-%d", n.Name, n.gen),
			"--embedded",
			"--listen",
			n.addr(),
			"--store",
			n.Store,
		), nil
	}
	config, err := json.Marshal(n)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(s.program) //nolint:noctx // the group ends it
	cmd.Env = append(append(os.Environ(), roleEnv+"=server", serverEnv+"="+string(config)), s.env...)
	return cmd, nil
}

// up starts a node and waits until it accepts connections. By then it has
// recovered its store.
func (s *servers) up(ctx context.Context, n *node) error {
	cmd, err := s.command(n)
	if err != nil {
		return err
	}
	if n.proc, err = s.group.start(n.Name, cmd); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", n.addr())
		if err == nil {
			return c.Close()
		}
		select {
		case <-n.proc.ended:
			return fmt.Errorf("server %s ended: %w", n.Name, n.proc.err)
		default:
		}
		if err := pause.For(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("server %s does not come up: %w", n.Name, err)
		}
	}
}

// leader returns the node that leads the stream of runs. A server without
// other nodes is the leader.
func (s *servers) leader(ctx context.Context) (*node, error) {
	if len(s.nodes) == 1 {
		return s.nodes[0], nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nc, err := s.dial()
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, "AXE_RUNS")
	if err != nil {
		return nil, err
	}
	for _, n := range s.nodes {
		if c := stream.CachedInfo().Cluster; c != nil && c.Leader == n.Name {
			return n, nil
		}
	}
	return nil, errors.New("no server leads the stream")
}
