package auth_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/axebus/axe/bus/auth"
)

// A new system has a configuration for nats-server and a creds file for each
// user.
func Example() {
	dir, err := os.MkdirTemp("", "axe-auth-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	c := config(filepath.Join(dir, "auth"))
	if err := auth.Make(c); err != nil {
		fmt.Println(err)
		return
	}
	for _, file := range []string{auth.ConfFile, auth.CredsFile("worker"), auth.CAFile} {
		_, err := os.Stat(filepath.Join(c.Dir, file))
		fmt.Println(file, err == nil)
	}
	// Output:
	// nats-server.conf true
	// worker.creds true
	// tls/ca.pem true
}
