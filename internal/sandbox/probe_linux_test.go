package sandbox

import "testing"

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
