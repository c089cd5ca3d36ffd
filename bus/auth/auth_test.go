package auth_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/auth"
	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/internal/roles"
)

// config returns the configuration of a system in a directory, with a user for
// each role.
func config(dir string) auth.Config {
	c := auth.Config{
		Dir: dir, Account: "AXE", Listen: "127.0.0.1:4222", Hosts: []string{"127.0.0.1"},
		StoreDir: filepath.Join(dir, "jetstream"), MaxStore: 1 << 30, ServerStore: 3 << 30, MaxPayload: 8 << 20,
	}
	for _, r := range roles.All() {
		c.Users = append(c.Users, roles.User{
			Name: string(r), Role: r, Permissions: r.Permissions(roles.Scope{User: string(r)}),
		})
	}
	return c
}

// serve makes a system and starts its server at a free port. Dial returns how a
// role connects.
func serve(t *testing.T) (dial func(roles.Role) bus.Dial) {
	t.Helper()
	_, _, dial = serveSystem(t)
	return dial
}

// serveSystem is serve, and returns the server and its system too.
func serveSystem(t *testing.T) (_ *server.Server, _ auth.Config, dial func(roles.Role) bus.Dial) {
	t.Helper()
	c := config(filepath.Join(t.TempDir(), "auth"))
	// A reload wants a port that stays.
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Listen = free.Addr().String()
	if err := errors.Join(free.Close(), auth.Make(c)); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(filepath.Join(c.Dir, auth.ConfFile))
	if err != nil {
		t.Fatal(err)
	}
	if opts.JetStreamMaxStore != c.ServerStore || opts.MaxPayload != c.MaxPayload || !opts.SyncAlways ||
		opts.TLSConfig == nil {
		t.Errorf("the server has %d bytes of disk, a payload of %d, sync always %v, TLS %v", opts.JetStreamMaxStore,
			opts.MaxPayload, opts.SyncAlways, opts.TLSConfig != nil)
	}
	s := bustest.Serve(t, opts)
	return s, c, func(r roles.Role) bus.Dial {
		return bus.Dial{
			URL: "tls://" + s.Addr().String(), TLSCA: filepath.Join(c.Dir, auth.CAFile),
			Creds: filepath.Join(c.Dir, auth.CredsFile(string(r))),
		}
	}
}

// open connects as a role.
func open(t *testing.T, d bus.Dial) *bus.Conn {
	t.Helper()
	c, err := bus.Open(t.Context(), bus.Config{Dial: d})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestAnswersGoToTheSender: the server answers a submission to its reply
// subject. A submitter names subjects of streams there, and no stream has the
// answer.
func TestAnswersGoToTheSender(t *testing.T) {
	dial := serve(t)
	provisioner := open(t, dial(roles.Provisioner))
	if err := provisioner.Provision(t.Context(), bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	submitter := open(t, dial(roles.Submitter))
	nc, _ := submitter.NATS()
	replies := []string{
		"axe.run.lead.T1.r.cancel", "axe.run.lead.T1.r.log", "axe.submit.other.T2", "$KV.AXE_AGENTS.lead",
		"axe.result.lead.T1",
		"$O.AXE_OBJECTS.M.x", "$JS.API.STREAM.PURGE.AXE_RUNS",
	}
	for i, reply := range replies {
		subject := "axe.submit.lead.T" + strings.Repeat("x", i+1)
		if err := nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	// The last submission has an answer. The server has answered all others.
	last := bus.Message{Subject: "axe.submit.lead.last", Body: []byte("x")}
	if _, err := submitter.Write(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	_, js := open(t, dial(roles.Observer)).NATS()
	for stream, want := range map[string]int{
		"AXE_SUBMIT": len(replies) + 1, "AXE_RUNS": 0, "KV_AXE_AGENTS": 0, "OBJ_AXE_OBJECTS": 0,
	} {
		s, err := js.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.CachedInfo().State.Msgs; got != uint64(want) {
			t.Errorf("%s has %d messages, want %d", stream, got, want)
		}
	}
}

// TestMakeRefuses: no key is replaced, and a certificate of one's own has to be
// there. No file that Make writes is readable for others.
func TestMakeRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	if err := auth.Make(config(dir)); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := auth.Make(config(dir)); !errors.Is(err, auth.ErrNotEmpty) {
		t.Errorf("a second time: %v, want ErrNotEmpty", err)
	}
	c := config(filepath.Join(t.TempDir(), "auth"))
	c.CertFile, c.KeyFile = "missing.pem", "missing.key"
	if err := auth.Make(c); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "missing.pem") {
		t.Errorf("without a certificate: %v, want the missing file", err)
	}
}
