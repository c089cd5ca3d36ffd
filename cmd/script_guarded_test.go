package cmd_test

import (
	"crypto/tls"
	"net/http/httptest"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rogpeppe/go-internal/testscript"
)

// startGuarded starts a NATS server with two users, op and bound. Both have the
// password secret. The user bound may make no request to JetStream. With tls
// the server has a certificate that no machine trusts.
func startGuarded(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 0, "guarded [tls]")
	nothing := &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.>"}}}
	opts := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: ts.MkAbs("guarded"),
		Users: []*server.User{
			{Username: "op", Password: "secret"}, {Username: "bound", Password: "secret", Permissions: nothing},
		},
	}
	if len(args) > 0 {
		opts.TLSConfig = untrusted()
	}
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
	ts.Setenv("NATS_URL", "nats://"+s.Addr().String())
}

// untrusted returns a configuration with the certificate of the standard
// library's test servers.
func untrusted() *tls.Config {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}
}
