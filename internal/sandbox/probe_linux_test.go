package sandbox

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
)

// TestProbe: Probe succeeds on a kernel with Landlock, if the package has a
// seccomp filter for the processor. Other tests are skipped where it fails.
func TestProbe(t *testing.T) {
	t.Parallel()
	if _, err := landlockVersion(); err != nil || auditArch == 0 {
		t.Skipf("no sandbox here: %v", err)
	}
	means, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the sandbox uses %s", means)
}

// TestProbeIsUnsure: a probe that cannot make its files, or has no time, says
// nothing about the kernel. So it is with the probe of namespaces.
func TestProbeIsUnsure(t *testing.T) {
	if _, err := landlockVersion(); err != nil || auditArch == 0 {
		t.Skipf("no sandbox here: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, namespaces := range []bool{false, true} {
		if err := probe(ended, Config{Namespaces: namespaces}); !errors.Is(err, ErrUnsure) {
			t.Errorf("namespaces %t, without time: %v, want ErrUnsure", namespaces, err)
		}
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	if _, err := Probe(t.Context()); !errors.Is(err, ErrUnsure) {
		t.Errorf("without a directory: %v, want ErrUnsure", err)
	}
}
