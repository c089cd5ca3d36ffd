package chaostest

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/auth"
)

// tenant is one of the tenants that share the server of a scenario.
type tenant struct {
	name string
	// dir has the creds of its users, and ca is the authority of the
	// server's certificate.
	dir, ca string
	// beside are the harnesses of the other tenants. A fault of the server
	// strikes them, too.
	beside []*harness
}

// creds is the file of the user of a role.
func (n *tenant) creds(role string) string { return filepath.Join(n.dir, role+".creds") }

// env is the environment in which a command connects as the user of a role. A
// nil tenant needs none.
func (n *tenant) env(role string) []string {
	if n == nil {
		return nil
	}
	return []string{"NATS_CREDS=" + n.creds(role), "NATS_CA=" + n.ca}
}

// dialAs returns how this process connects as the user of a role.
func (h *harness) dialAs(role string) bus.Dial {
	d := bus.Dial{URL: h.servers.urls()}
	if h.tenant != nil {
		d.Creds, d.TLSCA = h.tenant.creds(role), h.tenant.ca
	}
	return d
}

// stock connects a stock client as the user of a role.
func (h *harness) stock(role string) (*nats.Conn, error) {
	if h.tenant == nil {
		return h.servers.dial()
	}
	return nats.Connect(h.servers.urls(), nats.UserCredentials(h.tenant.creds(role)), nats.RootCAs(h.tenant.ca),
		nats.CustomInboxPrefix("_INBOX_"+role))
}

// tenants lets two tenants work on one server while it and their workers are
// killed. Their trees have the same ids. Each tree has its right answer, each
// model is asked for the trees of its own tenant, and no stream has a message
// of the other tenant.
func tenants(t *testing.T, bin string, seed uint64, trees int) {
	t.Helper()
	if trees == 0 {
		trees = 12
	}
	log := newJournal(t)
	g := newGroup(t, log)
	s := newServers(t, g, 1, t.TempDir())
	dir := filepath.Join(t.TempDir(), "auth")
	axe := func(env []string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "axe"), args...)
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("axe %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	axe(nil, "auth", "init", dir, "--listen", s.nodes[0].addr(), "--max-store", "1GiB", "--server-store", "4GiB")
	axe(nil, "auth", "tenant", "add", dir, "two", "--max-store", "1GiB")
	s.nodes[0].Config = filepath.Join(dir, "nats-server.conf")
	if err := s.up(t.Context(), s.nodes[0]); err != nil {
		t.Fatal(err)
	}
	sc := scenario{name: "tenants", ackWait: 2 * time.Second, latency: 200 * time.Millisecond, nodes: 1, partitions: 1}
	kills := faultSequence{500 * time.Millisecond, []kind{killWorker}}
	all := make([]*harness, 0, 2)
	for i, creds := range []string{dir, filepath.Join(dir, auth.TenantDir("two"))} {
		name := []string{"tenant-one", "tenant-two"}[i]
		h := &harness{scenario: sc, bin: bin, log: log, model: newModel(sc.latency), servers: s}
		h.name = name
		h.sequences = []faultSequence{kills}
		h.hits = &faultLog{journal: log}
		h.tenant = &tenant{name: name, dir: creds, ca: filepath.Join(dir, "tls", "ca.pem")}
		web := httptest.NewServer(h.model)
		t.Cleanup(web.Close)
		worker := agentd{
			filepath.Join(bin, "agentd"), writeAgents(t), web.URL, 1, 1, sc.ackWait, nil, "", h.tenant.env("worker"),
		}
		axe(h.tenant.env("provisioner"), "provision", "--server", s.urls())
		h.pool = worker.newPool(t, g, s, 0)
		h.pool.prefix = name + "-"
		all = append(all, h)
	}
	all[0].sequences = append(all[0].sequences, faultSequence{3 * time.Second, []kind{killServer}})
	all[0].tenant.beside = all[1:]
	t.Run("load", func(t *testing.T) {
		for i, h := range all {
			t.Run(h.tenant.name, func(t *testing.T) {
				t.Parallel()
				for _, b := range h.pool.places {
					if err := b.fill(nil); err != nil {
						t.Fatal(err)
					}
				}
				other := all[1-i].tenant.name
				own := 0
				for _, m := range h.perform(t, seed+uint64(i), (trees+1)/2).all {
					if strings.Contains(string(m.Body), other) {
						t.Errorf("%s has a message of the other tenant: %s", h.tenant.name, m.Subject)
					}
					own += strings.Count(string(m.Body), h.tenant.name)
				}
				if own == 0 {
					t.Error("no message of the stream has the text of its own tenant")
				}
			})
		}
	})
}

// marker ends the task of each tree of the tenant. A nil tenant has none.
func (n *tenant) marker() string {
	if n == nil {
		return ""
	}
	return "\na task of " + n.name
}
