package builtin_test

import (
	"errors"
	"maps"
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

// TestLinksAreFollowed: a file that is written or edited through symbolic links
// is the one that a read through them finds, also where a link leads to a
// directory and .. follows. The links stay.
func TestLinksAreFollowed(t *testing.T) {
	const old, now = "old words", "new words"
	links := map[string]string{
		"link": "a/b", "a/b/f": "../g", "chain": "link/../step", "a/step": "g", "plain": "a/g",
	}
	for _, path := range []string{"link/f", "chain", "plain", "a/g"} {
		for tool, arguments := range map[string]map[string]string{
			"write_file": {"content": now},
			"edit_file":  {"old_string": "old", "new_string": "new"},
		} {
			t.Run(tool+" "+path, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				errs := []error{os.MkdirAll(filepath.Join(dir, "a/b"), 0o700)}
				for link, to := range links {
					errs = append(errs, os.Symlink(to, filepath.Join(dir, link)))
				}
				errs = append(errs, os.WriteFile(filepath.Join(dir, "a/g"), []byte(old), 0o600))
				if err := errors.Join(errs...); err != nil {
					t.Fatal(err)
				}
				arguments = maps.Clone(arguments)
				arguments["path"] = path
				used, _ := builtin.Find(tool)
				c := builtin.Call{Dir: dir, Key: "T.r-1-0", Arguments: arguments}
				if _, err := used.Run(t.Context(), c); err != nil {
					t.Fatal(err)
				}
				if b, err := os.ReadFile(filepath.Join(dir, "a/g")); err != nil || string(b) != now {
					t.Errorf("a/g has %q, error %v; want %q", b, err, now)
				}
				for link, to := range links {
					if got, err := os.Readlink(filepath.Join(dir, link)); got != to {
						t.Errorf("the link %s leads to %q, error %v; want %q", link, got, err, to)
					}
				}
				for _, dirs := range []string{"", "a", "a/b"} {
					all, err := os.ReadDir(filepath.Join(dir, dirs))
					if want := map[string]int{"": 4, "a": 3, "a/b": 1}[dirs]; err != nil || len(all) != want {
						t.Errorf("directory %q has %v, error %v; want %d entries", dirs, all, err, want)
					}
				}
			})
		}
	}
}
