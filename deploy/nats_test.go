package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/auth"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/internal/roles"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// domain is the JetStream domain of the servers in nats/.
const domain = "hub"

// natsSystem is a system of axe auth init, with the configurations of nats/ on
// this machine instead of their own.
type natsSystem struct {
	t   *testing.T
	dir string
	// ports has the port of each of the names in the configurations.
	ports map[string]int
}

func newNATSSystem(t *testing.T) *natsSystem {
	t.Helper()
	s := &natsSystem{t: t, dir: filepath.Join(t.TempDir(), "nats"), ports: map[string]int{}}
	c := auth.Config{
		Dir: s.dir, Account: "AXE", Listen: "0.0.0.0:4222", StoreDir: filepath.Join(s.dir, "store"),
		Hosts: []string{"nats-1", "nats-2", "nats-3", "127.0.0.1"}, MaxStore: 20 << 30, MaxPayload: 8 << 20,
		Domain: domain,
	}
	for _, r := range roles.All() {
		c.Users = append(c.Users, roles.User{
			Name: string(r), Role: r, Permissions: r.Permissions(roles.Scope{User: string(r), Domain: domain}),
		})
	}
	if err := auth.Make(c); err != nil {
		t.Fatal(err)
	}
	return s
}

// port returns the port of a name, a free one at first.
func (s *natsSystem) port(name string) int {
	s.t.Helper()
	if s.ports[name] == 0 {
		l, err := new(net.ListenConfig).Listen(s.t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			s.t.Fatal(err)
		}
		defer l.Close()
		s.ports[name] = l.Addr().(*net.TCPAddr).Port
	}
	return s.ports[name]
}

// account returns the public key of the account of the streams.
func (s *natsSystem) account() string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, auth.AccountsFile))
	if err != nil {
		s.t.Fatal(err)
	}
	m := regexp.MustCompile(`# AXE:.*\n\s*(\w+):`).FindSubmatch(text)
	if m == nil {
		s.t.Fatalf("%s does not name the account AXE", auth.AccountsFile)
	}
	return string(m[1])
}

// start starts a server with a configuration of nats/, and more lines at its
// end. The directories, the ports and the names of machines are replaced by
// those of this machine.
func (s *natsSystem) start(file, name, more string) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join("nats", file))
	if err != nil {
		s.t.Fatal(err)
	}
	local := strings.NewReplacer(
		"/etc/nats", s.dir, "/var/lib/nats", filepath.Join(s.dir, "store-"+name),
		"0.0.0.0:4222", s.address(name), "127.0.0.1:8222", "127.0.0.1:-1",
		"0.0.0.0:6222", s.address(name+" route"),
		"nats-1:6222", s.address("nats-1 route"), "nats-2:6222", s.address("nats-2 route"),
		"nats-3:6222", s.address("nats-3 route"),
		"0.0.0.0:7422", s.address(name+" leaf"),
		"nats-1:7422", s.address("nats-1 leaf"), "nats-2:7422", s.address("nats-2 leaf"),
		"nats-3:7422", s.address("nats-3 leaf"),
	).Replace
	conf := filepath.Join(s.dir, name+".conf")
	if err := os.WriteFile(conf, []byte(local(string(text)+more)), 0o600); err != nil {
		s.t.Fatal(err)
	}
	leafnodes, err := os.ReadFile("nats/leafnodes.conf")
	if err != nil {
		s.t.Fatal(err)
	}
	included := filepath.Join(s.dir, "leafnodes.conf")
	if err := os.WriteFile(included, []byte(local(string(leafnodes))), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.t.Setenv("AXE_ACCOUNT", s.account())
	s.t.Setenv("NATS_NAME", name)
	opts, err := server.ProcessConfigFile(conf)
	if err != nil {
		s.t.Fatalf("%s: %v", file, err)
	}
	bustest.Serve(s.t, opts)
}

func (s *natsSystem) address(name string) string { return fmt.Sprintf("127.0.0.1:%d", s.port(name)) }

// open connects to a server as a role.
func (s *natsSystem) open(name string, r roles.Role) *bus.Conn {
	s.t.Helper()
	dial := bus.Dial{
		URL: "tls://" + s.address(name), TLSCA: filepath.Join(s.dir, auth.CAFile),
		Creds: filepath.Join(s.dir, auth.CredsFile(string(r))),
	}
	if strings.HasPrefix(name, "leaf") {
		dial.Context = filepath.Join(s.dir, name+".json")
		context := fmt.Sprintf(`{"url": %q, "ca": %q, "jetstream_domain": %q}`, dial.URL, dial.TLSCA, domain)
		if err := os.WriteFile(dial.Context, []byte(context), 0o600); err != nil {
			s.t.Fatal(err)
		}
		dial.URL, dial.TLSCA = "", ""
	}
	conn, err := bus.Open(s.t.Context(), bus.Config{Dial: dial})
	if err != nil {
		s.t.Fatalf("%s at %s: %v", r, name, err)
	}
	s.t.Cleanup(conn.Close)
	return conn
}

// answers is a model that answers every request.
type answers struct{}

// Send implements provider.Provider.
func (answers) Send(context.Context, *provider.Request) (*provider.Response, error) {
	return &provider.Response{Content: "done", StopReason: "stop"}, nil
}

// run provisions the streams at the first server, serves an agent at the second
// one, and submits a task at the third one, each with the credentials of its
// role.
func (s *natsSystem) run(replicas int, first, second, third string) {
	s.t.Helper()
	provisioner := s.open(first, roles.Provisioner)
	s.retry("provision", func() error {
		return provisioner.Provision(s.t.Context(), bus.Provision{Replicas: replicas})
	})
	if err := bus.MakeBuckets(s.t.Context(), provisioner); err != nil {
		s.t.Fatal(err)
	}
	conn := s.open(second, roles.Worker)
	s.retry("streams", func() error { return conn.Provisioned(s.t.Context()) })
	w, err := agentd.New(conn, agentd.Config{
		Open: func(string) (provider.Provider, string, error) { return answers{}, "any", nil },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := w.Serve(configs.Definitions{Agents: []configs.Agent{{Name: "lead", Model: "any/any"}}}); err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(s.t.Context())
	var worker sync.WaitGroup
	worker.Go(func() {
		if err := w.Run(ctx); err != nil {
			s.t.Errorf("worker: %v", err)
		}
	})
	defer worker.Wait()
	defer stop()
	agent, err := subjects.ParseAgent("lead")
	if err != nil {
		s.t.Fatal(err)
	}
	c := client.New(s.open(third, roles.Submitter))
	var tree subjects.Tree
	// The worker has to subscribe first, and the third server to learn of it.
	s.retry("submit", func() error {
		tree, err = c.Submit(s.t.Context(), client.Task{Agent: agent, Text: "work"})
		return err
	})
	limit, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	defer cancel()
	if o, err := c.Wait(limit, tree); err != nil || o.Result != "done" {
		s.t.Errorf("got the outcome %+v, error %v", o, err)
	}
	_, js := s.open(first, roles.Observer).NATS()
	stream, err := js.Stream(s.t.Context(), "AXE_RUNS")
	if err != nil {
		s.t.Fatal(err)
	}
	if got := stream.CachedInfo().Config.Replicas; got != replicas {
		s.t.Errorf("the runs have %d replicas, want %d", got, replicas)
	}
}

// retry calls fn until it succeeds, for a minute at most. A cluster elects its
// leader first.
func (s *natsSystem) retry(of string, fn func() error) {
	s.t.Helper()
	for begin := time.Now(); ; {
		err := fn()
		switch {
		case err == nil:
			return
		case time.Since(begin) > time.Minute:
			s.t.Fatalf("%s: %v", of, err)
		}
		if err := pause.For(s.t.Context(), 50*time.Millisecond); err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestSingleServer: a tree runs on one server.
func TestSingleServer(t *testing.T) {
	s := newNATSSystem(t)
	s.start("single.conf", "nats-1", "")
	s.run(1, "nats-1", "nats-1", "nats-1")
}

// TestCluster: a tree runs on a cluster of three servers, each role at another
// one.
func TestCluster(t *testing.T) {
	s := newNATSSystem(t)
	for _, name := range []string{"nats-1", "nats-2", "nats-3"} {
		s.start("cluster.conf", name, "")
	}
	s.run(3, "nats-1", "nats-2", "nats-3")
}

// TestLeaf: a worker at a leaf node carries out a task of the bus. The leaf node
// holds its clients to their permissions, and a client is not admitted with the
// leaf node's own creds.
func TestLeaf(t *testing.T) {
	s := newNATSSystem(t)
	s.start("single.conf", "nats-1", "include \"leafnodes.conf\"\n")
	s.start("leaf.conf", "leaf-1", "")
	s.run(1, "nats-1", "leaf-1", "nats-1")
	observer := s.open("leaf-1", roles.Observer)
	s.retry("read through the leaf node", func() error { return observer.Provisioned(t.Context()) })
	_, err := observer.Write(t.Context(), bus.Message{Subject: "axe.submit.lead.forged", Body: []byte("x")})
	if !errors.Is(err, nats.ErrPermissionViolation) {
		t.Errorf("a submission of an observer at the leaf node: %v, want a violation", err)
	}
	for _, name := range []string{"nats-1", "leaf-1"} {
		_, err := nats.Connect("tls://"+s.address(name), nats.RootCAs(filepath.Join(s.dir, auth.CAFile)),
			nats.UserCredentials(filepath.Join(s.dir, auth.LeafFile)))
		if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("a client with the creds of the leaf node at %s: %v, want ErrAuthorization", name, err)
		}
	}
}
