package builtin_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/axebus/axe/internal/builtin"
)

// TestNoPathLeadsOut: no file tool reads, lists or changes anything outside of
// the working directory, neither by a path nor by a symbolic link.
func TestNoPathLeadsOut(t *testing.T) {
	t.Parallel()
	const secret = "a secret\n"
	for _, path := range []string{
		"../outside/secret", "a/../../outside/secret", "link", "dir", "dir/secret", "absolute", "/etc/hostname",
	} {
		for _, use := range []map[string]string{
			{"tool": "read_file"},
			{"tool": "write_file", "content": "x"},
			{"tool": "edit_file", "old_string": "secret", "new_string": "word"},
			{"tool": "list_directory"},
		} {
			t.Run(use["tool"]+" "+path, func(t *testing.T) {
				t.Parallel()
				top := t.TempDir()
				dir, outside := filepath.Join(top, "work"), filepath.Join(top, "outside")
				file := filepath.Join(outside, "secret")
				for _, err := range []error{
					os.MkdirAll(filepath.Join(dir, "a"), 0o700),
					os.Mkdir(outside, 0o700),
					os.WriteFile(file, []byte(secret), 0o600),
					os.Symlink("../outside/secret", filepath.Join(dir, "link")),
					os.Symlink("../outside", filepath.Join(dir, "dir")),
					os.Symlink(file, filepath.Join(dir, "absolute")),
				} {
					if err != nil {
						t.Fatal(err)
					}
				}
				tool, ok := builtin.Find(use["tool"])
				if !ok {
					t.Fatalf("there is no tool %s", use["tool"])
				}
				c := builtin.Call{Dir: dir, Key: "T.r-1-0", Arguments: map[string]string{"path": path}}
				for name, value := range use {
					if name != "tool" {
						c.Arguments[name] = value
					}
				}
				if result, err := tool.Run(t.Context(), c); err == nil {
					t.Errorf("got the result %q, want an error", result)
				}
				if b, err := os.ReadFile(file); err != nil || string(b) != secret {
					t.Errorf("the file outside has %q, error %v; want %q", b, err, secret)
				}
			})
		}
	}
}
