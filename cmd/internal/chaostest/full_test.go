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

// full fills the disk of the server while trees are under way. Each worker logs
// the reason within a minute. After that axe-submit fails within three seconds,
// and the model is not asked. With room again and a restarted server, all trees
// complete.
func full(t *testing.T, bin string, trees int) {
	t.Helper()
	if trees == 0 {
		t.Skip("not in a short run: make chaos CHAOS=full")
	}
	disk := newFullDisk(t)
	h, worker := newFleet(t, bin, disk.dir, 200*time.Millisecond)
	h.name = "full"
	h.log.keep = "stream at fault"
	worker.agents = writeAgents(t)
	h.startFleet(t, worker)
	node := h.servers.nodes[0]
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
	h.log.log("the disk is filled after %d trees", l.ended.Load())
	if err := disk.fill(); err != nil {
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
	if err := disk.empty(); err != nil {
		t.Fatal(err)
	}
	h.log.log("there is room, and the server restarts")
	node.proc.kill()
	if err := h.servers.up(ctx, node); err != nil {
		t.Fatal(err)
	}
	restarted := time.Now()
	load.Wait()
	t.Logf("%d trees; the rest ended within %.1fs of the restart; the model was asked %d times, %d of them again",
		l.ended.Load(), time.Since(restarted).Seconds(), h.model.count(), h.model.extra())
	if len(l.wrong) > 0 {
		t.Errorf("%d trees are wrong:\n%s", len(l.wrong), strings.Join(l.wrong[:min(10, len(l.wrong))], "\n"))
	}
	if err := h.awaitQuiet(t.Context()); err != nil {
		t.Error(err)
	}
	h.verify(t)
}

// expectNoRoom expects that each worker logs within a minute that the disk is
// full, and that axe-submit then fails within three seconds with the next step.
func (h *harness) expectNoRoom(ctx context.Context, t *testing.T) {
	t.Helper()
	filled := time.Now()
	for i := range fleetSize {
		for name := fmt.Sprintf("w%d", i+1); !h.log.saidSo(name, "stores nothing"); {
			if time.Since(filled) > time.Minute {
				t.Errorf("the worker %s has not logged within a minute that the disk is full", name)
				break
			}
			if err := pause.For(ctx, 50*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("all workers have logged the full disk after %.1fs", time.Since(filled).Seconds())
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
