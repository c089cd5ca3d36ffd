package cmd_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/ballast"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// probed is a worker process with metrics.
type probed struct {
	t *testing.T
	// url is the address of the probes.
	url string
}

// get returns the status and the body of a request.
func (p probed) get(path string) (status int, body string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(b))
}

// awaitReady waits for an answer of /readyz. The process works meanwhile.
func (p probed) awaitReady(want string) {
	p.t.Helper()
	var got string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		status, body := p.get("/readyz")
		if got = body; got == want {
			code := http.StatusServiceUnavailable
			if want == "ok" {
				code = http.StatusOK
			}
			if status != code {
				p.t.Errorf("/readyz says %q with status %d", body, status)
			}
			break
		}
		if err := pause.For(p.t.Context(), 10*time.Millisecond); err != nil {
			p.t.Fatal(err)
		}
	}
	if got != want {
		p.t.Fatalf("/readyz says %q, want %q", got, want)
	}
	if status, body := p.get("/healthz"); status != http.StatusOK {
		p.t.Errorf("%s: /healthz says %d %q, want 200", want, status, body)
	}
}

// nextCollection returns the size of the heap in bytes at its next collection.
// It asks until there were two collections, so that the second one began after
// the first answer. The answers are the garbage.
func (p probed) nextCollection() float64 {
	p.t.Helper()
	first := p.metric("go_gc_duration_seconds_count")
	for now := first; now < first+2; {
		now = p.metric("go_gc_duration_seconds_count")
	}
	return p.metric("go_memstats_next_gc_bytes")
}

// metric returns the value of a metric without labels.
func (p probed) metric(name string) float64 {
	p.t.Helper()
	_, text := p.get("/metrics")
	m := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	if m == nil {
		p.t.Fatalf("the metrics have no %s:\n%s", name, text)
	}
	value, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		p.t.Fatal(err)
	}
	return value
}

var metricsAddress = regexp.MustCompile(`metrics at (http://[^/]+)/metrics`)

// TestProbes: a worker process is ready while it is connected and takes work.
// It is not before its server is there, while the server is away, and while it
// drains. It works all the time, and serves its metrics until it ends.
func TestProbes(t *testing.T) {
	p := newScenario(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	p.agent("slow", "", func(*modelRequest) reply {
		close(asked)
		<-answer
		return reply{text: "done"}
	})
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()

	worker := p.command("--agents", p.path("agents"), "--server", "nats://"+address, "--grace", "60s",
		"--metrics", "127.0.0.1:0")
	worker.Path = filepath.Join(binaries(t), "agentd")
	var log buffer
	worker.Stderr = &log
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	var at []string
	for at == nil {
		at = metricsAddress.FindStringSubmatch(log.String())
		if err := pause.For(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	probes := probed{t, at[1]}
	probes.awaitReady("starting")

	store := t.TempDir()
	serve := func() *bus.Server {
		server, err := bus.Serve(bus.ServerConfig{Listen: address, StoreDir: store})
		if err != nil {
			t.Fatal(err)
		}
		return server
	}
	server := serve()
	probes.awaitReady("ok")
	server.Close()
	probes.awaitReady("not connected")
	server = serve()
	t.Cleanup(func() { server.Close() })
	probes.awaitReady("ok")

	conn, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{Server: server}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	agent, err := subjects.ParseAgent("slow")
	if err != nil {
		t.Fatal(err)
	}
	c := client.New(conn)
	tree, err := c.Submit(t.Context(), client.Task{Agent: agent, Text: "work"})
	if err != nil {
		t.Fatal(err)
	}
	<-asked
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	probes.awaitReady("draining")
	_, text := probes.get("/metrics")
	for _, line := range []string{
		`axe_queue_calls_in_hand{agent="slow"} 1`, `axe_slots_free{kind="model"} 63`, `axe_runs_in_hand 1`,
		`axe_bus_request_seconds_count{op="write"}`,
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the metrics have no line %s:\n%s", line, text)
		}
	}
	if got := probes.nextCollection(); got < 2*ballast.Size {
		t.Errorf("the heap is collected at %.0f bytes, want at twice the ballast or later", got)
	}
	close(answer)
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v: %s", err, log.String())
	}
	if o, err := c.Wait(t.Context(), tree); err != nil || o.Result != "done" {
		t.Errorf("the run of the drained worker has the outcome %+v, error %v", o, err)
	}
}
