package auth_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/auth"
	"github.com/axebus/axe/internal/roles"
)

// tenantOf returns a tenant of the system in dir, with a user for each role.
func tenantOf(dir, name string) auth.Tenant {
	return auth.Tenant{Dir: dir, Name: name, Users: config(dir).Users, Limits: auth.Limits{MaxStore: 1 << 30}}
}

// almighty returns a connection of a user that an account's key has signed. It
// may do everything in its account.
func almighty(t *testing.T, s *server.Server, system, account string) *nats.Conn {
	t.Helper()
	seed, err := os.ReadFile(filepath.Join(account, "keys", "account.nk"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := nkeys.FromSeed([]byte(strings.TrimSpace(string(seed))))
	if err != nil {
		t.Fatal(err)
	}
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, _ := user.PublicKey()
	token, err := jwt.NewUserClaims(public).Encode(signer)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect("tls://"+s.Addr().String(), nats.RootCAs(filepath.Join(system, auth.CAFile)),
		nats.UserJWT(func() (string, error) { return token, nil }, user.Sign))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// streams returns the state of each stream of an account.
func streams(t *testing.T, nc *nats.Conn) map[string]jetstream.StreamState {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]jetstream.StreamState{}
	list := js.ListStreams(t.Context())
	for info := range list.Info() {
		info.State.Consumers = 0
		all[info.Config.Name] = info.State
	}
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTenantsAreApart: a user of one tenant tries every operation of every
// role, with all rights in its own account. The other tenant, which was added
// while the server ran, gets no message and keeps its streams, and the other
// way round.
func TestTenantsAreApart(t *testing.T) {
	s, c, dial := serveSystem(t)
	if err := auth.Add(tenantOf(c.Dir, "acme")); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	acmeDir := filepath.Join(c.Dir, auth.TenantDir("acme"))
	acme := dial(roles.Provisioner)
	acme.Creds = filepath.Join(acmeDir, auth.CredsFile("provisioner"))
	for _, of := range []struct{ actor, other string }{{c.Dir, acmeDir}, {acmeDir, c.Dir}} {
		// The first actor has deleted its streams.
		for _, d := range []bus.Dial{dial(roles.Provisioner), acme} {
			if err := open(t, d).Provision(t.Context(), bus.Provision{}); err != nil {
				t.Fatal(err)
			}
		}
		actor, other := almighty(t, s, c.Dir, of.actor), almighty(t, s, c.Dir, of.other)
		before := streams(t, other)
		overheard, err := other.SubscribeSync(">")
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Flush(); err != nil {
			t.Fatal(err)
		}
		if len(before) == 0 {
			t.Fatal("the other tenant has no streams")
		}
		tried := 0
		for _, r := range roles.All() {
			for _, o := range r.Operations(roles.Scope{User: string(r)}) {
				if o.Subscribe {
					if _, err := actor.SubscribeSync(o.Subject); err != nil && !errors.Is(err, nats.ErrBadSubject) {
						t.Fatal(err)
					}
				} else if err := actor.Publish(o.Subject, []byte(`{}`)); err != nil {
					t.Fatal(err)
				}
				tried++
			}
		}
		if err := actor.FlushTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
		if tried < 1000 {
			t.Errorf("only %d operations were tried", tried)
		}
		if err := other.FlushTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
		for m, err := overheard.NextMsg(time.Millisecond); err == nil; m, err = overheard.NextMsg(time.Millisecond) {
			// The server's report of the other tenant's own list of
			// streams may come late.
			if m.Subject != "$JS.EVENT.ADVISORY.API" {
				t.Errorf("the other tenant got %s of %d operations", m.Subject, tried)
			}
		}
		if err := overheard.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, streams(t, other)); diff != "" {
			t.Errorf("the streams of the other tenant changed (-before +after):\n%s", diff)
		}
	}
}

// TestTenantLimits: a tenant has no more room and no more clients than its
// limits.
func TestTenantLimits(t *testing.T) {
	s, c, dial := serveSystem(t)
	small := tenantOf(c.Dir, "small")
	small.Limits = auth.Limits{MaxStore: 256 << 10, MaxConnections: 2}
	if err := auth.Add(small); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err != nil {
		t.Fatal(err)
	}
	d := dial(roles.Operator)
	d.Creds = filepath.Join(c.Dir, auth.TenantDir("small"), auth.CredsFile("provisioner"))
	if err := open(t, d).Provision(t.Context(), bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	d.Creds = filepath.Join(c.Dir, auth.TenantDir("small"), auth.CredsFile("operator"))
	_, js := open(t, d).NATS()
	var err error
	for i := 0; i < 10 && err == nil; i++ {
		_, err = js.Publish(t.Context(), "axe.submit.lead.T"+strings.Repeat("x", i+1), make([]byte, 100<<10))
	}
	if err == nil || !strings.Contains(err.Error(), "resource limits exceeded for account") {
		t.Errorf("writes beyond the limit: %v, want the server's refusal", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := bus.Open(ctx, bus.Config{Dial: d}); err == nil ||
		!strings.Contains(err.Error(), "maximum account active connections exceeded") {
		t.Errorf("a third client: %v, want the server's refusal", err)
	}
}

// TestAddRefuses: no tenant replaces another one, no name leaves the directory,
// and a wrong key or a cut-off attempt is said.
func TestAddRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	if err := auth.Make(config(dir)); err != nil {
		t.Fatal(err)
	}
	if err := auth.Add(tenantOf(dir, "acme")); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, auth.TenantsFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := auth.Add(tenantOf(dir, "acme")); !errors.Is(err, auth.ErrTenantExists) {
		t.Errorf("the same tenant: %v, want ErrTenantExists", err)
	}
	for _, name := range []string{"", "../x", "a/b", "a b", "-a", "a\nb", strings.Repeat("a", 33)} {
		if err := auth.Add(tenantOf(dir, name)); !errors.Is(err, auth.ErrTenantName) {
			t.Errorf("the name %q: %v, want ErrTenantName", name, err)
		}
	}
	wrong := tenantOf(dir, "other")
	wrong.OperatorKey = filepath.Join(dir, "keys", "account.nk")
	if err := auth.Add(wrong); err == nil || !strings.Contains(err.Error(), "not the key of this system's operator") {
		t.Errorf("the key of an account: %v, want a refusal", err)
	}
	if err := auth.Add(tenantOf(t.TempDir(), "other")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty directory: %v, want that a file does not exist", err)
	}
	large := tenantOf(dir, "other")
	large.MaxStore = 1<<30 + 1
	if err := auth.Add(large); !errors.Is(err, auth.ErrNoRoom) ||
		!strings.Contains(err.Error(), "tenants have 2147483648 bytes") {
		t.Errorf("more than the server has: %v, want ErrNoRoom", err)
	}
	lock := filepath.Join(dir, auth.TenantsFile+".new")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := auth.Add(tenantOf(dir, "other")); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), lock) {
		t.Errorf("beside another attempt: %v, want the file of that attempt", err)
	}
	if _, err := os.Stat(filepath.Join(dir, auth.TenantDir("other"))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a refused tenant has a directory: %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, auth.TenantsFile)); err != nil || string(after) != string(before) {
		t.Errorf("the file of tenants changed, error %v", err)
	}
	// A killed attempt leaves a directory.
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, auth.TenantDir("left"))
	if err := os.Mkdir(left, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := auth.Add(tenantOf(dir, "left")); !errors.Is(err, auth.ErrTenantExists) ||
		!strings.Contains(err.Error(), "remove the directory") || !strings.Contains(err.Error(), left) {
		t.Errorf("beside the directory of a killed attempt: %v, want the directory to remove", err)
	}
	if err := os.Remove(left); err != nil {
		t.Fatal(err)
	}
	if err := auth.Add(tenantOf(dir, "left")); err != nil {
		t.Errorf("after the directory is removed: %v", err)
	}
}

// TestURLOf: clients of a server at any address use a name of its certificate.
func TestURLOf(t *testing.T) {
	c := config(filepath.Join(t.TempDir(), "auth"))
	c.Listen, c.Hosts = "0.0.0.0:4333", []string{"bus.example.com", "10.0.0.1"}
	if err := auth.Make(c); err != nil {
		t.Fatal(err)
	}
	if got, err := auth.URLOf(c.Dir); got != "tls://bus.example.com:4333" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestURLOfOwnCertificate: clients of a server with a certificate of its own
// use the first name in it that is no pattern. The file may begin with the key.
func TestURLOfOwnCertificate(t *testing.T) {
	for want, hosts := range map[string][]string{
		"tls://bus.example.com:4333": {"*.example.com", "bus.example.com"},
		"tls://10.0.0.1:4333":        {"*.example.com", "10.0.0.1"},
		"":                           {"*.example.com", "*.example.org"},
	} {
		made := config(filepath.Join(t.TempDir(), "auth"))
		made.Hosts = hosts
		if err := auth.Make(made); err != nil {
			t.Fatal(err)
		}
		own := config(filepath.Join(t.TempDir(), "own"))
		own.Listen, own.Hosts = "0.0.0.0:4333", nil
		own.KeyFile = filepath.Join(made.Dir, "tls", "server.key")
		own.CertFile = filepath.Join(t.TempDir(), "both.pem")
		var both []byte
		for _, file := range []string{own.KeyFile, filepath.Join(made.Dir, "tls", "server.pem")} {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			both = append(both, b...)
		}
		if err := errors.Join(os.WriteFile(own.CertFile, both, 0o600), auth.Make(own)); err != nil {
			t.Fatal(err)
		}
		for name, url := range map[string]func() (string, error){
			"before": own.URL, "after": func() (string, error) { return auth.URLOf(own.Dir) },
		} {
			if got, err := url(); got != want || (err != nil) != (want == "") {
				t.Errorf("%v, %s the system is made: got %q, %v; want %q", hosts, name, got, err, want)
			}
		}
	}
}

// TestNoCertificateNothingWritten: a host that no certificate can name leaves
// no directory behind.
func TestNoCertificateNothingWritten(t *testing.T) {
	c := config(filepath.Join(t.TempDir(), "auth"))
	c.Hosts = []string{"bücher.example"}
	err := auth.Make(c)
	if _, there := os.Stat(c.Dir); err == nil || !errors.Is(there, fs.ErrNotExist) {
		t.Errorf("got %v, and the directory: %v; want an error and no directory", err, there)
	}
}
