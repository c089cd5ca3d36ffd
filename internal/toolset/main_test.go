package toolset_test

import (
	"os"
	"testing"

	"github.com/axebus/axe/internal/sandbox"
)

// TestMain lets the test binary be the helper of a sandbox.
func TestMain(m *testing.M) {
	sandbox.MaybeExec()
	os.Exit(m.Run())
}
