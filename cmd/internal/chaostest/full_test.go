package chaostest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// fullDisk is a file system in memory for the server's store. Ballast fills it.
type fullDisk struct{ dir string }

// diskSize is the size of the file system. A tree takes some 60 KiB of it.
const diskSize = 256 << 20

// newFullDisk mounts the file system. It skips the test where the machine does
// not allow that.
func newFullDisk(t *testing.T) fullDisk {
	t.Helper()
	d := fullDisk{t.TempDir()}
	size := fmt.Sprintf("size=%d", diskSize)
	cmd := exec.CommandContext(t.Context(), "mount", "-t", "tmpfs", "-o", size, "tmpfs", d.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("no file system in memory can be mounted, which root may do on Linux: %v: %s", err, out)
	}
	t.Cleanup(func() {
		// A process that is about to end may hold a file open.
		for range 50 {
			if syscall.Unmount(d.dir, 0) == nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("%s is still mounted", d.dir)
	})
	return d
}

// ballast returns the file that fills the file system.
func (d fullDisk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill takes all the room that is left.
func (d fullDisk) fill() error {
	f, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for size := len(block); size > 0; size /= 2 {
		for err == nil {
			_, err = f.Write(block[:size])
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		err = nil
	}
	return nil
}

// empty frees the room that fill has taken.
func (d fullDisk) empty() error { return os.Remove(d.ballast()) }

// full lets the server run out of room while trees are under way: its disk is
// full, or its account's limit is reached.
func full(t *testing.T, bin string, trees int) {
	t.Helper()
	if trees == 0 {
		t.Skip("not in a short run: make chaos CHAOS=full")
	}
	start := func(t *testing.T, store string) (*harness, agentd) {
		t.Helper()
		h, worker := newFleet(t, bin, store, 200*time.Millisecond)
		h.name, h.log.keep = "full", "stream at fault"
		worker.agents = writeAgents(t)
		return h, worker
	}
	t.Run("disk", func(t *testing.T) {
		disk := newFullDisk(t)
		h, worker := start(t, disk.dir)
		h.startFleet(t, worker)
		node := h.servers.nodes[0]
		h.runFull(t, trees, disk.fill, func() error {
			if err := disk.empty(); err != nil {
				return err
			}
			node.proc.kill()
			return h.servers.up(t.Context(), node)
		})
	})
	t.Run("account", func(t *testing.T) {
		h, worker := start(t, t.TempDir())
		node := h.servers.nodes[0]
		node.Config = filepath.Join(t.TempDir(), "nats.conf")
		if err := node.limit(diskSize); err != nil {
			t.Fatal(err)
		}
		h.startFleet(t, worker)
		// The trees under way have stored more than that by now.
		fill := func() error { return node.relimit(64 << 10) }
		h.runFull(t, trees, fill, func() error { return node.relimit(diskSize) })
	})
}

// limit writes the configuration of a node with an account that may store so
// many bytes.
func (n *node) limit(bytes int) error {
	return os.WriteFile(n.Config, fmt.Appendf(nil, `
		listen: %q
		jetstream { store_dir: %q, sync_interval: always }
		accounts { AXE { users: [{user: axe, password: axe}], jetstream: { max_file: %d } } }
		no_auth_user: axe
	`, n.addr(), n.Store, bytes), 0o600)
}

// relimit changes the limit of the account while the node runs.
func (n *node) relimit(bytes int) error {
	return errors.Join(n.limit(bytes), n.proc.cmd.Process.Signal(syscall.SIGHUP))
}

// runFull takes all room while trees are under way. Each worker logs the reason
// within a minute. After that axe-submit fails within three seconds, and the
// model is not asked. With room again, all trees complete.
func (h *harness) runFull(t *testing.T, trees int, fill, free func() error) {
	t.Helper()
	conn := h.connect(t)
	lead, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	l := &load{h: h, client: client.New(conn), lead: lead}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var load sync.WaitGroup
	load.Go(func() { l.run(ctx, trees, func() bool { return true }) })
	for int(l.ended.Load()) < trees/2 {
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	h.log.log("all room is taken after %d trees", l.ended.Load())
	if err := fill(); err != nil {
		t.Fatal(err)
	}
	h.expectNoRoom(ctx, t)
	asked := h.model.count()
	if err := pause.For(ctx, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if now := h.model.count(); now != asked {
		t.Errorf("the model was asked %d times without room, want 0", now-asked)
	}
	h.log.log("there is room again")
	if err := free(); err != nil {
		t.Fatal(err)
	}
	freed := time.Now()
	load.Wait()
	t.Logf("%d trees; the rest ended within %.1fs with room again; the model was asked %d times, %d of them again",
		l.ended.Load(), time.Since(freed).Seconds(), h.model.count(), h.model.extra())
	if len(l.wrong) > 0 {
		t.Errorf("%d trees are wrong:\n%s", len(l.wrong), strings.Join(l.wrong[:min(10, len(l.wrong))], "\n"))
	}
	if err := h.awaitQuiet(t.Context()); err != nil {
		t.Error(err)
	}
	h.verify(t)
}

// expectNoRoom expects that each worker logs within a minute that there is no
// room, and that axe-submit then fails within three seconds with the next step.
func (h *harness) expectNoRoom(ctx context.Context, t *testing.T) {
	t.Helper()
	filled := time.Now()
	for i := range fleetSize {
		for name := fmt.Sprintf("w%d", i+1); !h.log.saidSo(name, "stores nothing"); {
			if time.Since(filled) > time.Minute {
				t.Errorf("the worker %s has not logged within a minute that there is no room", name)
				break
			}
			if err := pause.For(ctx, 50*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("all workers have logged it after %.1fs", time.Since(filled).Seconds())
	for _, flag := range []string{"--detach", "--progress=plain"} {
		begin := time.Now()
		bounded, end := context.WithTimeout(ctx, 30*time.Second)
		cmd := exec.CommandContext(bounded, filepath.Join(h.bin, "axe-submit"),
			"--server", h.servers.urls(), "--id", "full"+flag, flag, "lead", "x")
		out, err := cmd.CombinedOutput()
		end()
		exit, _ := errors.AsType[*exec.ExitError](err)
		took := time.Since(begin)
		t.Logf("axe-submit %s after %.1fs: %v: %s", flag, took.Seconds(), err, out)
		if exit == nil || exit.ExitCode() != 1 || !strings.Contains(string(out), "submit it again with --id") {
			t.Errorf("axe-submit %s: %v, want exit code 1 and the next step:\n%s", flag, err, out)
		}
		if took > 3*time.Second {
			t.Errorf("axe-submit %s took %s, want at most 3s", flag, took)
		}
	}
}
