//go:build unix

package agentd_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// storeEnv names the directory of the server that TestIsServer runs.
const storeEnv = "AXE_BENCH_STORE"

// TestIsServer runs a server in a process of its own until its standard input
// ends. Without storeEnv it does nothing.
func TestIsServer(t *testing.T) {
	dir := os.Getenv(storeEnv)
	if dir == "" {
		t.Skip("it is a part of BenchmarkIdle")
	}
	s, err := bus.Serve(bus.ServerConfig{StoreDir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fmt.Printf("\nserves %s\n", s.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// serveApart starts a server in another process and returns its URL.
func serveApart(b *testing.B) (url string) {
	b.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(b.Context()), os.Args[0], "-test.run", "^TestIsServer$")
	cmd.Env = append(os.Environ(), storeEnv+"="+b.TempDir())
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = in.Close(), cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "serves "); ok {
			return url
		}
	}
	b.Fatal("the server's output ended without a line that has its address")
	return ""
}

// forksOfOne is the number of forks that a parent makes and that answer.
const forksOfOne = 100

// forker is the model of a parent and its forks. The parent makes forksOfOne
// forks that answer, and one more that waits for mail that never comes. The
// parent then waits for that one.
func forker(_ context.Context, req *provider.Request) (*provider.Response, error) {
	switch first, last := req.Messages[0], req.Messages[len(req.Messages)-1]; {
	case len(last.ToolResults) > 0:
		return toolTurn(use("wait", "from", []string{last.ToolResults[forksOfOne].Content})), nil
	case first.Content == "hold":
		return toolTurn(use("wait")), nil
	case first.Content == "lead":
		var calls []provider.ToolCall
		for range forksOfOne {
			calls = append(calls, use("fork", "prompt", "a task"))
		}
		return toolTurn(append(calls, use("fork", "prompt", "hold"))...), nil
	}
	return &provider.Response{Content: "done"}, nil
}

// measureIdle waits until the worker is idle, and returns the number of
// goroutines and the bytes of the heap of this process.
func measureIdle() (goroutines int, heap uint64) {
	// A goroutine that has emptied its run queue ends after a second.
	time.Sleep(3 * time.Second)
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return runtime.NumGoroutine(), m.HeapAlloc
}

// BenchmarkIdle makes 10,000 forks that have answered and are idle, with a
// worker of the default configuration and a server in another process. It
// reports the goroutines of the worker's process before and after, and its heap
// before, with the forks in the cache, and without them. It also reports the
// median times in which an idle fork answers a message, and a new leaf its
// call.
func BenchmarkIdle(b *testing.B) {
	const parents = 100
	leaf, _ := subjects.ParseAgent("leaf")
	lead, _ := subjects.ParseAgent("lead")
	w := worldAt(b, serveApart(b), agentd.Config{Slots: 64}, forker, benchAgent("leaf"), forkingAgent())
	// Each fork that becomes idle sends its parent a notice.
	var idle atomic.Int64
	if _, err := w.nc.Subscribe("axe.live.run.lead.*.r.in.mail.>", func(m *nats.Msg) {
		idle.Add(1)
		if c, ok := w.wait.LoadAndDelete(m.Subject); ok {
			close(c.(chan struct{}))
		}
	}); err != nil {
		b.Fatal(err)
	}
	w.call(b, leaf)
	goroutines, heap := measureIdle()
	var roots []subjects.Run
	for range parents {
		id, _ := subjects.ParseTree(bus.NewID())
		roots = append(roots, w.conn.Space().Run(lead, id, subjects.Root))
		m := bus.Message{Subject: w.conn.Space().Submit(lead, id), Body: []byte("lead")}
		if _, err := w.conn.Write(b.Context(), m); err != nil {
			b.Fatal(err)
		}
	}
	for end := time.Now().Add(5 * time.Minute); idle.Load() < parents*forksOfOne; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			b.Fatalf("%d forks are idle after 5 minutes, want %d", idle.Load(), parents*forksOfOne)
		}
	}
	_, cached := measureIdle()
	time.Sleep(time.Minute) // the cache drops the runs
	more, held := measureIdle()
	var woken, fresh []time.Duration
	for b.Loop() {
		n := len(woken)
		fork := roots[n%parents]
		fork.Path = fork.Path.Child(1, n/parents%forksOfOne)
		begun := time.Now()
		w.wake(b, fork, 2+n/parents/forksOfOne)
		woken = append(woken, time.Since(begun))
		begun = time.Now()
		w.call(b, leaf)
		fresh = append(fresh, time.Since(begun))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(goroutines), "goroutines-before")
	b.ReportMetric(float64(more), "goroutines-after")
	b.ReportMetric(float64(heap)/1024, "heap-KiB-before")
	b.ReportMetric(float64(cached)/1024, "heap-KiB-cached")
	b.ReportMetric(float64(held)/1024, "heap-KiB-after")
	b.ReportMetric(float64(median(woken).Microseconds()), "woken-µs")
	b.ReportMetric(float64(median(fresh).Microseconds()), "leaf-µs")
	b.ReportMetric(median(woken).Seconds()/median(fresh).Seconds(), "woken/leaf")
}

// forkingAgent returns the agent lead. Its runs may fork.
func forkingAgent() configs.Agent {
	a := benchAgent("lead")
	mailing(&a)
	return a
}

// wake writes to an idle fork and waits for the answer, which is its n-th turn.
func (w *world) wake(b *testing.B, fork subjects.Run, n int) {
	b.Helper()
	parent, _, _, _ := fork.Path.Parent()
	up := fork.Space.Run(fork.Agent, fork.Tree, parent)
	done := w.expect(fork.Space.Live(up.Mail(fork.Path.IdleKey(n))))
	key, _ := subjects.ParseKey(bus.NewID())
	m := bus.Message{
		Subject: fork.Mail(key),
		Body:    []byte(`{"from":"somebody","text":"go on"}`),
		Fence:   bus.After(fork.Mail(key), 0),
	}
	if _, err := w.conn.Write(b.Context(), m); err != nil {
		b.Fatal(err)
	}
	<-done
}

func median(all []time.Duration) time.Duration {
	return slices.Sorted(slices.Values(all))[len(all)/2]
}
