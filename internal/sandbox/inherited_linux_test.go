package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
)

// TestInheritedFile: a program that Run starts does not have a file that the
// worker has inherited. A program that the worker starts without Run has it.
func TestInheritedFile(t *testing.T) {
	t.Parallel()
	bothModes(t, func(t *testing.T, c Config) {
		t.Helper()
		secret := filepath.Join(filepath.Dir(c.Dir), "secret")
		if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		argv := []string{os.Args[0], attemptArg, "inherited", strconv.Itoa(inheritable(t, secret))}
		if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("the file does not reach a program of the worker: %v, %s", err, out)
		}
		c.Read = []string{os.Args[0]}
		r, err := Run(t.Context(), c, argv, nil)
		if err != nil || r.Code != 1 {
			t.Errorf("ended with %+v, error %v, want code 1: the file is closed", r, err)
		}
	})
}
