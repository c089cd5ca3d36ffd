package cmd_test

import (
	"context"
	"crypto/tls"
	"net/http/httptest"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/roles"
	"github.com/axebus/axe/subjects"
)

// startGuarded starts a NATS server with two users, op and bound. Both have the
// password secret. The user bound may make no request to JetStream. With tls
// the server has a certificate that no machine trusts. With roles it also has a
// user for each role, with the role's name, the operators alice and bob, and
// the submitter lead_only and the worker lead_worker, which are bound to
// agents.
func startGuarded(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 0, "guarded [tls|roles]")
	nothing := &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.>"}}}
	opts := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: ts.MkAbs("guarded"),
		Users: []*server.User{
			{Username: "op", Password: "secret"}, {Username: "bound", Password: "secret", Permissions: nothing},
		},
	}
	switch {
	case len(args) > 0 && args[0] == "tls":
		opts.TLSConfig = untrusted()
	case len(args) > 0:
		opts.MaxPayload = 8 << 20
		opts.Users = append(opts.Users, roleUsers(ts)...)
	}
	url := "nats://" + runServer(ts, opts)
	ts.Setenv("NATS_URL", url)
	if len(args) == 0 || args[0] != "roles" {
		return
	}
	// The user op may publish everything.
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	conn, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{URL: url, User: "op", Password: "secret"}})
	ts.Check(err)
	ts.Defer(conn.Close)
	envOf(ts).bus = &testBus{conn}
}

// startConfigured starts a NATS server with a configuration file.
func startConfigured(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 1, "configured FILE")
	opts, err := server.ProcessConfigFile(ts.MkAbs(args[0]))
	ts.Check(err)
	opts.NoLog, opts.NoSigs = true, true
	runServer(ts, opts)
}

// runServer runs a server until the script ends, and returns its address.
func runServer(ts *testscript.TestScript, opts *server.Options) string {
	s, err := server.NewServer(opts)
	ts.Check(err)
	s.Start()
	ts.Defer(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(waitTimeout) {
		ts.Fatalf("the server is not ready within %s", waitTimeout)
	}
	return s.Addr().String()
}

// roleUsers returns a user for each role, and three that are bound to agents.
func roleUsers(ts *testscript.TestScript) (all []*server.User) {
	add := func(name string, r roles.Role, agents ...subjects.Agent) {
		p := r.Permissions(roles.Scope{User: name, Agents: agents, Cancels: name == "caller"})
		permissions := &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: p.Publish, Deny: p.DenyPublish},
			Subscribe: &server.SubjectPermission{Allow: p.Subscribe},
		}
		if p.Responds {
			permissions.Response = &server.ResponsePermission{MaxMsgs: 1, Expires: roles.ResponseTime}
		}
		all = append(all, &server.User{Username: name, Password: "secret", Permissions: permissions})
	}
	for _, r := range roles.All() {
		add(string(r), r)
	}
	add("alice", roles.Operator)
	add("bob", roles.Operator)
	lead, err := subjects.ParseAgent("lead")
	ts.Check(err)
	add("lead_only", roles.Submitter, lead)
	add("caller", roles.Submitter, lead)
	add("lead_worker", roles.Worker, lead)
	return all
}

// untrusted returns a configuration with the certificate of the standard
// library's test servers.
func untrusted() *tls.Config {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}
}
