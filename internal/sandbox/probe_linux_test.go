package sandbox

import "testing"

// Other tests are skipped where the probe fails. This one is not, if the kernel
// has all that the sandbox needs.
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
