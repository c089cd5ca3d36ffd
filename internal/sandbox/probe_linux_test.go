package sandbox

import "testing"

// TestProbe: Probe succeeds on every kernel that has what the sandbox needs.
// The other tests are skipped where it fails.
func TestProbe(t *testing.T) {
	t.Parallel()
	if _, err := landlockVersion(); err != nil || auditArch == 0 {
		t.Skipf("no sandbox here: %v", err)
	}
	means, err := Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("programs are held by %s", means)
}
