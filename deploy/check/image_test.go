package check_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// imageContext makes the context of the image, and returns its directory.
func imageContext(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "../docker/context", dir)
	cmd.Env = append(os.Environ(), "PROGRAMS="+programs)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("context: %v: %s", err, out)
	}
	return dir
}

// TestImageFiles: the image has the programs, the authorities and the names of
// the users, which belong to root, and two directories that its user may write
// to. It has no other file. The same files make the same bytes.
func TestImageFiles(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), "tar", "--version").Output(); err != nil ||
		!strings.Contains(string(out), "GNU tar") {
		t.Skip("the image needs GNU tar")
	}
	first, err := os.ReadFile(filepath.Join(imageContext(t), "rootfs.tar"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(filepath.Join(imageContext(t), "rootfs.tar"))
	if err != nil || string(first) != string(again) {
		t.Errorf("the second context has other bytes, error %v", err)
	}
	want := map[string]string{
		".": "0755 0", "etc": "0755 0", "etc/passwd": "0644 0", "etc/group": "0644 0",
		"etc/axe": "0755 0", "etc/axe/agents": "0755 0",
		"etc/ssl": "0755 0", "etc/ssl/certs": "0755 0", "etc/ssl/certs/ca-certificates.crt": "0644 0",
		"usr": "0755 0", "usr/local": "0755 0", "usr/local/bin": "0755 0", "usr/local/bin/agentd": "0755 0",
		"usr/local/bin/axe": "0755 0", "usr/local/bin/axe-submit": "0755 0",
		"var": "0755 0", "var/lib": "0755 0", "var/lib/axe": "0700 65532", "tmp": "1777 0",
	}
	files := tar.NewReader(strings.NewReader(string(first)))
	for {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Clean(h.Name)
		if got := fmt.Sprintf("%04o %d", h.Mode, h.Uid); got != want[name] || h.Uid != h.Gid {
			t.Errorf("%s has the mode and owner %s, want %q", name, got, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("the image lacks %v", want)
	}
}

// buildah runs buildah with a store of its own.
type buildah struct {
	t     *testing.T
	store []string
}

// newBuildah skips the test on a machine without buildah, or where it cannot
// work.
func newBuildah(t *testing.T) *buildah {
	t.Helper()
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Skip("there is no buildah: the image is not built (Debian has it in the package buildah)")
	}
	dir, err := os.MkdirTemp("", "axe-image-")
	if err != nil {
		t.Fatal(err)
	}
	b := &buildah{t, []string{
		"--storage-driver", "vfs", "--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"),
	}}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if out, err := b.command(t.Context(), "info").CombinedOutput(); err != nil {
		t.Skipf("buildah does not work here: %v: %s", err, out)
	}
	return b
}

func (b *buildah) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "buildah", append(b.store, args...)...)
}

// do runs buildah, and returns its output.
func (b *buildah) do(args ...string) string {
	b.t.Helper()
	cmd := b.command(b.t.Context(), args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		b.t.Fatalf("buildah %q: %v: %s%s", args, err, out, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// free returns a free port of this machine.
func free(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// below returns the process of a program below another process. Buildah passes
// no signal on.
func below(t *testing.T, pid int, program string) int {
	t.Helper()
	for {
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		name, err := os.ReadFile(filepath.Join(dir, "comm"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(name)) == program {
			return pid
		}
		var children []int
		tasks, err := filepath.Glob(filepath.Join(dir, "task/*/children"))
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			text, err := os.ReadFile(task)
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
				continue // the thread has ended since
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, child := range strings.Fields(string(text)) {
				number, err := strconv.Atoi(child)
				if err != nil {
					t.Fatal(err)
				}
				children = append(children, number)
			}
		}
		if len(children) != 1 {
			t.Fatalf("%s has the processes %v below it, want one", strings.TrimSpace(string(name)), children)
		}
		pid = children[0]
	}
}

// TestImage builds the image without a registry. In its container, as its user,
// a worker with a server carries out a task, and the health check of
// compose.yaml tells whether it is ready. SIGTERM drains the worker.
func TestImage(t *testing.T) {
	b := newBuildah(t)
	b.do("build", "--isolation", "chroot", "--tag", "axe", imageContext(t))
	if got := b.do("inspect", "--type", "image", "--format", "{{.OCIv1.Config.User}}", "axe"); got != "65532:65532" {
		t.Errorf("the image has the user %q", got)
	}
	container := b.do("from", "--pull-never", "axe")
	agents, err := filepath.Abs("../../configs/examples")
	if err != nil {
		t.Fatal(err)
	}
	inside := func(command ...string) []string {
		return append([]string{"run", "--isolation", "chroot", "--volume", agents + ":/etc/axe/agents:ro", container},
			command...)
	}
	if got := b.do(inside("axe", "version")...); !strings.HasPrefix(got, "axe version ") {
		t.Errorf("axe version prints %q", got)
	}
	server, probes := free(t), free(t)
	ready := inside("axe", "probe", "http://"+probes+"/readyz")
	if err := b.command(t.Context(), ready...).Run(); err == nil {
		t.Error("a worker is ready that does not run")
	}
	worker := b.command(t.Context(), inside("agentd", "--agents", "/etc/axe/agents", "--embedded",
		"--listen", server, "--metrics", probes, "--grace", "5s")...)
	var log strings.Builder
	worker.Stderr = &log
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Wait() }()
	for begin := time.Now(); b.command(t.Context(), ready...).Run() != nil; {
		select {
		case err := <-ended:
			t.Fatalf("the worker has ended: %v: %s", err, log.String())
		default:
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("the worker is not ready after a minute")
		}
	}
	answer := b.do(inside("axe-submit", "--server", "nats://"+server, "lead", "Review the bus package")...)
	if !strings.Contains(answer, "#") {
		t.Errorf("the answer is %q", answer)
	}
	if err := syscall.Kill(below(t, worker.Process.Pid, "agentd"), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the worker ends with %v: %s", err, log.String())
	}
}
