// Package peertest finds the programs of others with which tests talk. make
// peers installs them with npm. Without them such a test is skipped.
//
//	cmd := exec.Command("node", peertest.File(t, "@copilotkit/aimock/dist/cli.js"))
package peertest

import (
	"os"
	"path/filepath"
	"testing"
)

// variable names a directory in which npm has installed the packages of
// .ci/peers.
const variable = "AXE_PEERS"

// Modules returns the directory of the packages. It skips the test if the
// environment names none.
func Modules(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		t.Skip(variable + " names no directory in which npm has installed the packages of .ci/peers")
	}
	return filepath.Join(dir, "node_modules")
}

// File returns the path of a file of the packages. The test fails if the file
// is missing, and is skipped as by Modules.
func File(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(Modules(t), filepath.FromSlash(name))
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	return file
}
