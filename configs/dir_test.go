package configs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/configs"
)

// agent returns the smallest definition of an agent.
func agent(name string) string { return "name = \"" + name + "\"\nmodel = \"openai/x\"\n" }

// names returns the names of agents, in their order.
func names(agents []configs.Agent) []string {
	var all []string
	for _, a := range agents {
		all = append(all, a.Name)
	}
	return all
}

// TestLoadDir: LoadDir returns the valid agents by name, and an error for each
// invalid file. It skips hidden files, other files and directories.
func TestLoadDir(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a.toml", "a-b.toml", "c.toml", ".hidden.toml", "notes.txt"} {
		write(t, dir, name, agent(strings.TrimSuffix(name, ".toml")))
	}
	write(t, dir, "bad.toml", "nam = 3")
	write(t, dir, "worse.toml", "=")
	if err := os.Mkdir(filepath.Join(dir, "dir.toml"), 0o700); err != nil {
		t.Fatal(err)
	}
	agents, err := configs.LoadDir(dir)
	// The directory lists a-b.toml before a.toml.
	if diff := cmp.Diff([]string{"a", "a-b", "c"}, names(agents)); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("got %T: %v, want joined errors", err, err)
	}
	var files []string
	for _, err := range joined.Unwrap() {
		e, ok := errors.AsType[*configs.Error](err)
		if !ok {
			t.Fatalf("got %T: %v, want a *configs.Error", err, err)
		}
		files = append(files, filepath.Base(e.File))
	}
	if diff := cmp.Diff([]string{"bad.toml", "worse.toml"}, files); diff != "" {
		t.Errorf("files with an error (-want +got):\n%s", diff)
	}
}

// TestLoadDirThroughConfigMap: Kubernetes mounts the files of a ConfigMap as
// links into a hidden directory. LoadDir reads each of them once.
func TestLoadDirThroughConfigMap(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "..2025"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "..2025/a.toml", agent("a"))
	for link, to := range map[string]string{"..data": "..2025", "a.toml": "..data/a.toml"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	agents, err := configs.LoadDir(dir)
	if err != nil || len(agents) != 1 || agents[0].File != filepath.Join(dir, "a.toml") {
		t.Errorf("got %+v, %v; want the agent of a.toml", agents, err)
	}
}

// TestLoadDirMissing: a missing directory is an error, and an empty one is not.
func TestLoadDirMissing(t *testing.T) {
	if _, err := configs.LoadDir(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing directory: got %v, want fs.ErrNotExist", err)
	}
	if agents, err := configs.LoadDir(t.TempDir()); agents != nil || err != nil {
		t.Errorf("an empty directory: got %v, %v; want no agents and no error", agents, err)
	}
}
