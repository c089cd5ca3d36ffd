package mcpclient

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestWorkerKilled: a worker is killed. The kernel kills its server too, which
// ignores the end of its input.
func TestWorkerKilled(t *testing.T) {
	worker := exec.CommandContext(t.Context(), program(t, "").Command[0], serveArgument, "work")
	worker.Stderr = os.Stderr
	stdout, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = worker.Wait() }()
	defer func() { _ = worker.Process.Kill() }()
	var server, child int
	if _, err := fmt.Fscan(stdout, &server, &child); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(-server, syscall.SIGKILL) }() // the child lives on
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	awaitEnd(t, []int{server})
}

// TestThreadsEnd: threads of the worker end all the time. The servers that it
// starts meanwhile live on, and answer. A thread of a server that is not kept
// ends by chance, in three of four runs of the test.
func TestThreadsEnd(t *testing.T) {
	over := make(chan struct{})
	var churn sync.WaitGroup
	churn.Go(func() {
		for ended := make(chan struct{}); ; <-ended {
			select {
			case <-over:
				return
			case <-time.After(time.Millisecond):
			}
			go func() {
				runtime.LockOSThread() // without an unlock, the thread ends with the goroutine
				ended <- struct{}{}
			}()
		}
	})
	var sets []*Set
	for range 20 {
		s := open(t, program(t, "raw"))
		names(t, s)
		sets = append(sets, s)
	}
	close(over)
	churn.Wait()
	for _, s := range sets {
		names(t, s)
		if s.connections != 1 {
			t.Errorf("%d connections, want 1", s.connections)
		}
	}
}
