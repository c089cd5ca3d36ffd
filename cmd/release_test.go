package cmd_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// releasedModule is a module with the files that a release has, and small
// programs.
const releasedModule = `
-- go.mod --
module example.com/axe

go 1.26
-- LICENSE --
-- README.md --
-- docs/install.md --
-- docs/other.md --
-- cmd/agentd/main.go --
package main

func main() {}
-- cmd/axe/main.go --
package main

func main() {}
-- cmd/axe-submit/main.go --
package main

func main() {}
`

// TestRelease: two clones make the same archive. The programs in it have the
// tag's version, and all files have the commit's date. A clone with changes
// that are not committed makes no archive.
func TestRelease(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	if out, err := exec.CommandContext(t.Context(), "tar", "--version").Output(); err != nil ||
		!strings.Contains(string(out), "GNU tar") {
		t.Skip("a release needs GNU tar")
	}
	date := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	dir := releasedClone(t, date)
	release := func(in string) (string, error) {
		out := filepath.Join(t.TempDir(), "dist")
		cmd := exec.CommandContext(t.Context(), filepath.Join(in, ".ci/release"), out)
		cmd.Env = append(os.Environ(), "PLATFORMS="+runtime.GOOS+"/"+runtime.GOARCH, "CYCLONEDX=")
		// The release sets GOFLAGS itself.
		cmd.Env = append(cmd.Env, "GOFLAGS=-buildvcs=false")
		said, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, said)
		}
		return out, err
	}
	again := filepath.Join(t.TempDir(), "elsewhere")
	git(t, dir, date, "clone", "-q", dir, again)
	var sums [2]string
	var dist string
	for i, in := range []string{dir, again} {
		var err error
		if dist, err = release(in); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(b)
	}
	if sums[0] != sums[1] {
		t.Errorf("two clones make two archives:\n%s%s", sums[0], sums[1])
	}
	name := "axe_v0.1.0_" + runtime.GOOS + "_" + runtime.GOARCH
	if !strings.HasSuffix(sums[0], "  "+name+".tar.gz\n") {
		t.Errorf("SHA256SUMS has no sum of %s: %s", name, sums[0])
	}
	want := []string{
		name + "/ 755", name + "/LICENSE 644", name + "/README.md 644", name + "/agentd 755", name + "/axe 755",
		name + "/axe-submit 755", name + "/docs/ 755", name + "/docs/install.md 644",
	}
	files := unpack(t, filepath.Join(dist, name+".tar.gz"), date)
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files of the archive (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(filepath.Join(again, "new"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := release(again); err == nil || !strings.Contains(err.Error(), "changes that are not committed") {
		t.Errorf("a clone with changes: got %v, want a refusal", err)
	}
}

// releasedClone makes a repository with a commit of a date and the tag v0.1.0.
func releasedClone(t *testing.T, date time.Time) string {
	t.Helper()
	dir := t.TempDir()
	script, err := os.ReadFile("../.ci/release")
	if err != nil {
		t.Fatal(err)
	}
	if err := txtar.Write(txtar.Parse([]byte(releasedModule)), dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".ci"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".ci/release"), script, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"init -q", "add -A", "commit -q -m first", "tag v0.1.0"} {
		git(t, dir, date, strings.Fields(args)...)
	}
	return dir
}

// git runs git in a directory, with a date for a commit.
func git(t *testing.T, dir string, date time.Time, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	for _, person := range []string{"AUTHOR", "COMMITTER"} {
		cmd.Env = append(cmd.Env, "GIT_"+person+"_NAME=a", "GIT_"+person+"_EMAIL=a@example.com",
			"GIT_"+person+"_DATE="+date.Format(time.RFC3339))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// unpack lists the files of an archive with their modes, and checks their
// owners, their times, and the versions of the programs.
func unpack(t *testing.T, archive string, date time.Time) (files []string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, fmt.Sprintf("%s %o", h.Name, h.Mode))
		if h.Uid != 0 || h.Gid != 0 || !h.ModTime.Equal(date) {
			t.Errorf("%s: got owner %d:%d, time %s; want 0:0, %s", h.Name, h.Uid, h.Gid, h.ModTime, date)
		}
		if h.Mode == 0o755 && h.Typeflag == tar.TypeReg {
			b, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			checkProgram(t, h.Name, b, date)
		}
	}
}

// checkProgram checks the version, the commit and the date that the go command
// recorded in a program.
func checkProgram(t *testing.T, name string, program []byte, date time.Time) {
	t.Helper()
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if info.Main.Version != "v0.1.0" || len(settings["vcs.revision"]) != 40 ||
		settings["vcs.time"] != date.Format(time.RFC3339) {
		t.Errorf("%s: got version %s, %v; want v0.1.0, a commit and the date %s",
			name, info.Main.Version, settings, date)
	}
}
