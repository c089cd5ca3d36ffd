package cli

import (
	"os"
	"os/user"
	"path/filepath"
	"testing"
)

// TestCompleteContextWithoutHome: a completion offers the contexts that
// --context finds. The nats CLI does not look at HOME for them.
func TestCompleteContextWithoutHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", home)
	owner, err := user.Current()
	if err != nil || owner.HomeDir == home {
		t.Skip("HOME is the only home directory here")
	}
	dir := filepath.Join(home, ".config", "nats", "context")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "not-found-by-nats.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if names, _ := completeContext(nil, nil, "not-found-by"); len(names) > 0 {
		t.Errorf("a completion offers %q, want none", names)
	}
}
