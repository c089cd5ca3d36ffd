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
)

// serverEnv tells a process that is a server what to be.
const serverEnv = "AXE_CHAOS_SERVER"

// node is a NATS server that comes back as the same one: same name, ports and
// store.
type node struct {
	Name, Store string
	Port        int
	// its port for the others, 0: it is alone
	Cluster int
	Routes  string // to the others

	proc *process
	gen  int // how often it was started
}

// serve is the whole of a server process.
func serve(config string) error {
	var n node
	if err := json.Unmarshal([]byte(config), &n); err != nil {
		return err
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
		ServerName: n.Name, Host: "127.0.0.1", Port: n.Port, JetStream: true, StoreDir: n.Store, SyncAlways: true, NoSigs: true, NoLog: true,
		Cluster: server.ClusterOpts{
			Name: "chaos",
			Host: "127.0.0.1",
			Port: n.Cluster,
		}, Routes: server.RoutesFromStr(n.Routes),
	})
	if err != nil {
		return err
	}
	srv.Start()
	select {}
}

// servers is one server, or three that replicate.
type servers struct {
	group *group
	nodes []*node
	// the workers that the servers are in, nil: they are processes of their
	// own
	in *agentd
}

func newServers(t *testing.T, g *group, n int, store string) *servers {
	t.Helper()
	s := &servers{group: g}
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

// freePort is one that nobody listens on at this moment.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
}

// urls is where clients connect.
func (s *servers) urls() string {
	var all []string
	for _, n := range s.nodes {
		all = append(all, "nats://"+n.addr())
	}
	return strings.Join(all, ",")
}

func (n *node) addr() string { return fmt.Sprintf("127.0.0.1:%d", n.Port) }

// command is what runs a node. The worker in whose process one is has a new
// name each time.
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
	cmd := exec.Command(os.Args[0]) //nolint:noctx // the group ends it
	cmd.Env = append(os.Environ(), roleEnv+"=server", serverEnv+"="+string(config))
	return cmd, nil
}

// up starts a node and waits until it takes connections: it has recovered its
// store by then.
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
		if err := bus.Pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("server %s does not come up: %w", n.Name, err)
		}
	}
}

// leader is the node that leads the stream of runs; the first one where it is
// alone.
func (s *servers) leader(ctx context.Context) (*node, error) {
	if len(s.nodes) == 1 {
		return s.nodes[0], nil
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nc, err := nats.Connect(s.urls())
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
	return nil, errors.New("nobody leads")
}
