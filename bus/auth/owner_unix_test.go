//go:build unix

package auth_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/axebus/axe/bus/auth"
)

// TestAddKeepsPermissions: a server can read the file of tenants after another
// user has added a tenant, as before.
func TestAddKeepsPermissions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "auth")
	if err := auth.Make(config(dir)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, auth.TenantsFile)
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(file, 4222, 4223); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := auth.Add(tenantOf(dir, "acme")); err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if after.Mode() != before.Mode() {
		t.Errorf("the file has mode %v, want %v", after.Mode(), before.Mode())
	}
	had, _ := before.Sys().(*syscall.Stat_t)
	has, _ := after.Sys().(*syscall.Stat_t)
	if has.Uid != had.Uid || has.Gid != had.Gid {
		t.Errorf("the file is of user %d and group %d, want %d and %d", has.Uid, has.Gid, had.Uid, had.Gid)
	}
}
