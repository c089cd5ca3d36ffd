package roles_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/axebus/axe/internal/roles"
)

// checkConf reads users as a server does.
func checkConf(t *testing.T, users string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats-server.conf")
	if err := os.WriteFile(file, []byte("accounts { AXE { users: [\n"+users+"] } }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(opts.Users) != len(roles.All()) {
		t.Fatalf("%d users, want %d", len(opts.Users), len(roles.All()))
	}
	for _, u := range opts.Users {
		want := roles.Role(u.Username).Permissions(roles.Scope{User: u.Username})
		got := u.Permissions
		if len(got.Publish.Allow) != len(want.Publish) || len(got.Subscribe.Allow) != len(want.Subscribe) ||
			(got.Response != nil) != want.Responds {
			t.Errorf("%s: got %v, want %v", u.Username, got, want)
		}
	}
}
