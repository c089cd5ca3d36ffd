package toolset_test

import (
	"os"
	"testing"

	"github.com/axebus/axe/internal/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.MaybeExec()
	os.Exit(m.Run())
}
