package cmd_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// collector is an OpenTelemetry collector that takes traces over OTLP/HTTP.
type collector struct {
	t   *testing.T
	url string

	mu    sync.Mutex
	spans []*tracepb.Span
	// refusals is the number of requests that it refuses first.
	refusals int
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

// ServeHTTP takes spans.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		c.t.Errorf("the collector got %s %s, error %v", r.Method, r.URL.Path, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refusals > 0 {
		c.refusals--
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	var data tracepb.TracesData
	if err := proto.Unmarshal(body, &data); err != nil {
		c.t.Error(err)
	}
	for _, resource := range data.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
}

// startCollector starts a collector that takes everything, and names it in the
// environment.
func startCollector(ts *testscript.TestScript, neg bool, args []string) {
	checkUsage(ts, neg, args, 0, "collector")
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ts.Defer(server.Close)
	ts.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
}

// take returns the spans since the last call.
func (c *collector) take() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := c.spans
	c.spans = nil
	return spans
}

// attr returns an attribute of a span as text, "" if it is missing.
func attr(s *tracepb.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// fleet is worker processes of the demo on a bus of the test.
type fleet struct {
	t      *testing.T
	server *bus.Server
	conn   *bus.Conn
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	server, err := bus.Serve(bus.ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	conn, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{Server: server}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := conn.Provision(t.Context(), bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	return &fleet{t, server, conn}
}

// command makes a command with the fleet's bus.
func (f *fleet) command(program string, env []string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(f.t.Context(), filepath.Join(binaries(f.t), program),
		append(args, "--server", f.server.URL())...)
	cmd.Dir = ".."
	cmd.Env = append([]string{"HOME=" + f.t.TempDir(), "PATH=" + os.Getenv("PATH"), "AXE_SCRIPT_SLOWDOWN=4"}, env...)
	return cmd
}

// start starts a worker. The test kills it at its end.
func (f *fleet) start(worker string) *exec.Cmd {
	f.t.Helper()
	cmd := f.command("agentd", nil, "--agents", "configs/examples", "--name", worker, "--ack-wait", "2s",
		"--slots", "4")
	var log buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if f.t.Failed() {
			f.t.Logf("log of %s:\n%s", worker, log.String())
		}
	})
	return cmd
}

// export runs axe export otel.
func (f *fleet) export(c *collector, args ...string) {
	f.t.Helper()
	cmd := f.command("axe", []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.url},
		append([]string{"export", "otel"}, args...)...)
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Run(); err != nil {
		f.t.Fatalf("axe export otel %q: %v: %s", args, err, log.String())
	}
}

// TestTraceOfAKilledWorker: the demo runs on three worker processes, and one of
// them is killed while it asks a model. The trace arrives whole: a span for each
// turn, run and call, once, each below its own parent, and the root's span below
// that of the submitter. A second export makes the same spans.
func TestTraceOfAKilledWorker(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	t.Parallel()
	f := newFleet(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	asks := make(chan struct{}, 1)
	err := f.conn.Watch(ctx, f.conn.Space().Patterns(subjects.Agent{}).Progress(), func(m bus.Stored) {
		var p run.Progress
		if json.Unmarshal(m.Body, &p) == nil && p.Worker == "two" {
			select {
			case asks <- struct{}{}:
			default:
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	f.start("one")
	two := f.start("two")
	f.start("three")
	agent, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := subjects.ParseTree("traced")
	if err != nil {
		t.Fatal(err)
	}
	const trace, submitter = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	if _, err := f.conn.Write(ctx, bus.Message{
		Subject: f.conn.Space().Run(agent, tree, subjects.Root).Submit(),
		Body:    []byte("Review this repository's own files"),
		Header:  [][2]string{{"traceparent", "00-" + trace + "-" + submitter + "-01"}},
	}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-asks:
	case <-ctx.Done():
		t.Fatal("the worker two asks no model")
	}
	if err := two.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	o, err := client.New(f.conn).Wait(ctx, tree)
	if err != nil || o.Status != run.StatusCompleted {
		t.Fatalf("outcome %+v, error %v", o, err)
	}
	c := newCollector(t)
	c.refusals = 1
	f.export(c, "--once")
	spans := c.take()
	byID := map[string]*tracepb.Span{}
	names := map[string]int{}
	for _, s := range spans {
		id := hex.EncodeToString(s.GetSpanId())
		if byID[id] != nil {
			t.Errorf("the span %s %q comes twice", id, s.GetName())
		}
		byID[id] = s
		operation, _, _ := strings.Cut(s.GetName(), " ")
		names[operation]++
		if got := hex.EncodeToString(s.GetTraceId()); got != trace {
			t.Errorf("%s is in the trace %s, want that of the submitter", s.GetName(), got)
		}
		if attr(s, "gen_ai.input.messages") != "" || attr(s, "gen_ai.output.messages") != "" {
			t.Errorf("%s has content", s.GetName())
		}
	}
	// Each run but the root was a call.
	want := map[string]int{
		"invoke_agent": o.Subtree.Runs, "chat": o.Subtree.ModelCalls, "execute_tool": o.Subtree.Runs - 1,
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("numbers of spans (-want +got):\n%s", diff)
	}
	for _, s := range spans {
		parent := hex.EncodeToString(s.GetParentSpanId())
		if attr(s, "axe.path") == "r" && strings.HasPrefix(s.GetName(), "invoke_agent") {
			if parent != submitter {
				t.Errorf("the parent of the root is %s, want the submitter's span", parent)
			}
			continue
		}
		above := byID[parent]
		if above == nil {
			t.Errorf("%s of %s is an orphan", s.GetName(), attr(s, "axe.path"))
			continue
		}
		if s.GetStartTimeUnixNano() < above.GetStartTimeUnixNano() ||
			s.GetEndTimeUnixNano() > above.GetEndTimeUnixNano() ||
			s.GetStartTimeUnixNano() > s.GetEndTimeUnixNano() {
			t.Errorf("%s of %s is not within %s", s.GetName(), attr(s, "axe.path"), above.GetName())
		}
		operation, _, _ := strings.Cut(s.GetName(), " ")
		aboveOperation, _, _ := strings.Cut(above.GetName(), " ")
		if aboveOperation != (map[string]string{
			"chat": "invoke_agent", "execute_tool": "invoke_agent", "invoke_agent": "execute_tool",
		})[operation] {
			t.Errorf("%s is below %s", s.GetName(), above.GetName())
		}
	}

	f.export(c, "--once")
	if again := c.take(); len(again) > 0 {
		t.Errorf("the exporter did not go on where it was: %d spans again", len(again))
	}
	f.export(c, tree.String())
	same := map[string]*tracepb.Span{}
	for _, s := range c.take() {
		same[hex.EncodeToString(s.GetSpanId())] = s
	}
	for id, s := range byID {
		if !proto.Equal(s, same[id]) {
			t.Errorf("a second export makes %v, want %v", same[id], s)
		}
	}
	f.export(c, tree.String(), "--trace-content")
	var withTask bool
	for _, s := range c.take() {
		withTask = withTask || strings.Contains(attr(s, "gen_ai.input.messages"), "Review this repository's own files")
	}
	if !withTask {
		t.Error("with --trace-content no span has the task")
	}
}
