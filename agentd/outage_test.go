package agentd_test

import (
	"context"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// outage is a server that a test stops or fills, with a worker. Its tests take
// real time, since an in-process connection does not reconnect.
type outage struct {
	*harness
	opts   server.Options
	server *server.Server
}

// newOutage starts a server with the options, and a worker that serves a chain
// of two agents through a connection with the configuration. Later starts of
// the server have the same port and store.
func newOutage(t *testing.T, opts server.Options, cfg bus.Config) *outage {
	t.Helper()
	opts.Host = "127.0.0.1"
	opts.Port = -1
	opts.JetStream = true
	opts.StoreDir = t.TempDir()
	opts.NoSigs = true
	opts.NoLog = true
	o := &outage{opts: opts}
	o.startServer(t)
	t.Cleanup(func() { o.stopServer() })
	_, port, err := net.SplitHostPort(o.server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if o.opts.Port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	cfg.Dial.URL = o.server.ClientURL()
	conn, err := bus.Open(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := conn.Provision(ctx, bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	o.harness = newHarness(ctx, t, conn)
	o.agents = levels(2)
	w := o.startWorker("w", workerOptions{Config: agentd.Config{Log: cfg.Log}, conn: conn})
	t.Cleanup(w.drain)
	return o
}

// startServer starts the server, and waits until it takes connections.
func (o *outage) startServer(t *testing.T) {
	t.Helper()
	opts := o.opts
	var err error
	if o.server, err = server.NewServer(&opts); err != nil {
		t.Fatal(err)
	}
	o.server.Start()
	if !o.server.ReadyForConnections(time.Minute) {
		t.Fatal("the server is not ready")
	}
}

// stopServer stops the server, and waits until it has ended.
func (o *outage) stopServer() {
	o.server.Shutdown()
	o.server.WaitForShutdown()
}

// awaitTurns waits until the model has been asked for n different turns.
func (o *outage) awaitTurns(n int) {
	for o.tree.turnsAsked() < n {
		time.Sleep(10 * time.Millisecond)
	}
}

// expectNoRepeats checks that no turn was asked twice.
func (o *outage) expectNoRepeats() {
	if again := o.tree.repeated(); len(again) > 0 {
		o.tb.Errorf("turns that were asked more than once: %v, want none", again)
	}
}

// TestOutageLongerThanALease: the server is away for three leases. No worker
// can take the run over meanwhile, so the request in flight goes on, and no
// turn is asked again.
func TestOutageLongerThanALease(t *testing.T) {
	t.Parallel()
	thorough(t)
	o := newOutage(t, server.Options{}, bus.Config{AckWait: time.Second})
	o.tree.latency = 5 * time.Second
	r := o.submit("a1", "L")
	o.awaitTurns(1)
	o.stopServer()
	time.Sleep(3 * time.Second) // three leases
	o.startServer(t)
	o.expectAnswer(o.awaitOutcome(r, time.Minute), 0)
	o.expectNoRepeats()
}

// logLines collects log output.
type logLines struct {
	mu sync.Mutex
	b  strings.Builder
}

// Write implements io.Writer.
func (log *logLines) Write(p []byte) (int, error) {
	log.mu.Lock()
	defer log.mu.Unlock()
	return log.b.Write(p)
}

// waitFor waits, a minute at most, until a text is in the log.
func (log *logLines) waitFor(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		log.mu.Lock()
		there := strings.Contains(log.b.String(), text)
		log.mu.Unlock()
		if there {
			return
		}
	}
	t.Errorf("%q was not logged within a minute", text)
}

// TestFullStore: a server without room stores nothing, and writers wait. When
// there is room again, all runs go on.
func TestFullStore(t *testing.T) {
	t.Parallel()
	thorough(t)
	log := &logLines{}
	o := newOutage(
		t,
		server.Options{JetStreamMaxStore: 4 << 20},
		bus.Config{Log: slog.New(slog.NewTextHandler(log, nil))},
	)
	o.tree.latency = 2 * time.Second
	r := o.submit("a0", "L")
	o.awaitTurns(1)
	junk := o.fill(t)
	if _, err := o.writeAtOnce(r); err == nil {
		t.Error("a full server has acknowledged a submission, want an error")
	}
	log.waitFor(t, "write not acknowledged, retrying")
	if err := junk.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.expectAnswer(o.awaitOutcome(r, time.Minute), 1)
	o.expectNoRepeats()
}

// plainClient is a client of the server outside of package bus.
func (o *outage) plainClient(t *testing.T) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(o.server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// fill stores messages in a stream of its own until the server has no room, not
// even for a message of one byte.
func (o *outage) fill(t *testing.T) jetstream.Stream {
	t.Helper()
	js := o.plainClient(t)
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "JUNK", Subjects: []string{"junk"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1 << 18, 1 << 14, 1 << 8, 1} {
		for err = nil; err == nil; {
			_, err = js.Publish(t.Context(), "junk", make([]byte, size))
		}
	}
	return s
}

// writeAtOnce submits a task to the agent of a run, and waits a second at most
// for the acknowledgement.
func (o *outage) writeAtOnce(like subjects.Run) (uint64, error) {
	ctx, cancel := context.WithTimeout(o.ctx, time.Second)
	defer cancel()
	id, err := subjects.ParseTree(bus.NewID())
	if err != nil {
		return 0, err
	}
	return o.conn.Write(
		ctx,
		bus.Message{Subject: like.Space.Submit(like.Agent, id), Body: []byte(strings.Repeat("x", 100))},
	)
}

// TestRemovedLog: the log of a waiting run has been removed. The worker's next
// write is refused, and the run's messages do not explain the refusal. The
// worker logs that.
func TestRemovedLog(t *testing.T) {
	t.Parallel()
	thorough(t)
	log := &logLines{}
	o := newOutage(t, server.Options{}, bus.Config{Log: slog.New(slog.NewTextHandler(log, nil))})
	o.tree.latency = time.Second
	r := o.submit("a0", "L")
	o.awaitTurns(2)
	s, err := o.plainClient(t).Stream(t.Context(), "AXE_RUNS")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), jetstream.WithPurgeSubject(r.Log())); err != nil {
		t.Fatal(err)
	}
	log.waitFor(t, "do not show why message 0 refuses a write")
}
