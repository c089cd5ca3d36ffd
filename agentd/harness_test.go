package agentd_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nkeys"
	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// harness runs whole workers against a real NATS server, all in one process.
// TestHarness is an example of its use.
//
// Server, workers and test share a synctest bubble, so time is virtual. It
// begins at midnight UTC 2000-01-01 and passes only while every goroutine of
// the bubble is blocked. A wait of an hour costs nothing, and a test may sleep.
//
// A test
//
//   - sets h.agents, made by define or levels;
//   - scripts their models: h.models["lead"] answers for the agent that
//     define("lead", …) makes. An agent without a script answers with its name;
//   - starts workers with h.startWorker. workerOptions.atStep sees every
//     operation of a worker on the bus, and may fail it or kill the worker;
//   - submits a task with h.submit, and waits with h.awaitOutcome,
//     h.expectCompleted or h.eventually;
//   - checks the stored messages: h.checkVerified applies the rules of package
//     verify to the whole stream.
//
// The harness kills the workers that are left when the test returns.
type harness struct {
	tb  testReporter
	ctx context.Context //nolint:containedctx // the bubble's, as long as it lasts
	// server is the server of the bubble; nil where a test brings its own
	// server.
	server *bus.Server
	// conn is the connection of the test itself, as submitter and as
	// observer.
	conn *bus.Conn
	// agents are the agents that a worker serves unless its options name
	// others.
	agents []configs.Agent
	// toolsets are the toolsets that a worker serves unless its options
	// name others.
	toolsets []configs.Toolset
	// models has the scripts by the name of the model: models["lead"]
	// answers for an agent with the model "sim/lead".
	models map[string]scriptedModel
	// tree is the model of the agents that levels makes; it is
	// models["tree"].
	tree *treeModel
	// mailCount is the number of mail messages in the trees that checkTree
	// has seen.
	mailCount int

	mu      sync.Mutex
	workers []*worker
	// asks are the requests to models so far, in order.
	asks   []*modelRequest
	opened uint64 // connections
	// settings are the changes of the server's clock so far, in order.
	settings []clockSetting
	// beforeServerTime is called once, when a connection reads the server's
	// time next. It may be nil.
	beforeServerTime atomic.Pointer[func()]
}

// clockSetting is a change of the server's clock. From at on, the clock differs
// from the bubble's time by ahead.
type clockSetting struct {
	at    time.Time
	ahead time.Duration
}

// setServerClock sets the server's clock ahead of the bubble's time or, if
// ahead is negative, behind it. Messages keep the times that they were stored
// with. The server itself goes on in the bubble's time: only the connections
// show another one. The timers that are due by the new time fire at once.
func (h *harness) setServerClock(ahead time.Duration) {
	h.mu.Lock()
	h.settings = append(h.settings, clockSetting{time.Now(), ahead})
	h.mu.Unlock()
	for m, err := range h.conn.Scan(h.ctx, h.conn.Space().Timers(), 0) {
		if h.ctx.Err() != nil {
			return
		}
		if err != nil {
			h.tb.Errorf("timers: %v", err)
			return
		}
		h.fireIfDue(m)
	}
}

// fireIfDue fires a timer as the server does, if it is due by the server's
// clock.
func (h *harness) fireIfDue(m bus.Stored) {
	at, err := time.Parse(time.RFC3339Nano, strings.TrimPrefix(m.Header.Get("Nats-Schedule"), "@at "))
	if err != nil || at.After(h.serverTime(time.Now())) {
		return
	}
	_, err = h.conn.Write(h.ctx, bus.Message{
		Subject: m.Header.Get("Nats-Schedule-Target"), Body: m.Body, Disarm: m.Subject,
		Header: [][2]string{{"Axe-Written", m.Header.Get("Axe-Written")}}, Fence: bus.After(m.Subject, m.Seq),
	})
	if _, gone := errors.AsType[*bus.ConflictError](err); err != nil && !gone && h.ctx.Err() == nil {
		h.tb.Errorf("fire %s: %v", m.Subject, err)
	}
}

// serverTime is the time that the server's clock shows at a time of the bubble.
func (h *harness) serverTime(t time.Time) time.Time {
	if do := h.beforeServerTime.Swap(nil); do != nil {
		(*do)()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range slices.Backward(h.settings) {
		if !t.Before(s.at) {
			return t.Add(s.ahead)
		}
	}
	return t
}

// testReporter is the part of testing.T and rapid.T that the harness uses.
type testReporter interface {
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

var partitions = flag.Int("partitions", 1, "number of partitions, where a test does not set it")

// newHarness returns a harness around a connection.
func newHarness(ctx context.Context, tb testReporter, conn *bus.Conn) *harness {
	h := &harness{tb: tb, ctx: ctx, conn: conn, tree: newTreeModel()}
	h.models = map[string]scriptedModel{"tree": h.tree.respond}
	return h
}

// withHarness runs fn with a harness in a bubble of its own.
func withHarness(t *testing.T, fn func(h *harness)) {
	t.Helper()
	withPartitions(t, *partitions, fn)
}

// withPartitions is withHarness with the given number of partitions.
func withPartitions(t *testing.T, partitions int, fn func(h *harness)) {
	t.Helper()
	ats.Register()
	defer ats.Unregister()
	defer startWatchdog(t.Name())()
	synctest.Test(t, func(t *testing.T) { runHarness(t, t.TempDir(), partitions, fn) })
}

// withRapid is withPartitions for one walk of a rapid check.
func withRapid(t *rapid.T, walk string, partitions int, fn func(h *harness)) {
	ats.Register()
	defer ats.Unregister()
	defer startWatchdog(walk)()
	rapid.SyncTest(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "walk")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		runHarness(t, dir, partitions, fn)
	})
}

// inRealTime runs fn with a harness and without a bubble: for tests of commands
// that take their time. A bubble's time does not pass while a process runs.
func inRealTime(t *testing.T, fn func(h *harness)) {
	t.Helper()
	runHarness(t, t.TempDir(), *partitions, fn)
}

// runHarness starts the server, runs fn and stops all workers. The caller has
// made the bubble, if there is one.
func runHarness(tb testReporter, dir string, partitions int, fn func(h *harness)) {
	server, err := bus.Serve(bus.ServerConfig{StoreDir: dir})
	if err != nil {
		tb.Fatal(err)
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	h := newHarness(ctx, tb, nil)
	h.server = server
	h.conn = h.open(bus.Config{})
	defer h.conn.Close()
	if err := h.conn.Provision(ctx, bus.Provision{Partitions: partitions}); err != nil {
		tb.Fatal(err)
	}
	defer h.stopWorkers()
	fn(h)
}

// thorough skips a test with -short, which make test gives. Such a test takes
// seconds of processor time under the race detector, because hours pass in it,
// or hundreds of runs end. make walks, and go test without -short, run it.
func thorough(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
}

// stuckAfter is the real time after which a bubble counts as stuck. In a stuck
// bubble virtual time passes while some goroutine waits for an event that never
// comes, or stands still because of a lock.
const stuckAfter = 5 * time.Minute

// startWatchdog guards a bubble from outside until stop is called.
func startWatchdog(test string) (stop func() bool) {
	return time.AfterFunc(stuckAfter, func() { exitStuck(test) }).Stop
}

// exitStuck ends the process and prints the goroutines of the bubbles that run
// our code or that keep virtual time from passing. The goroutines of the server
// would be thousands of lines.
func exitStuck(test string) {
	all := make([]byte, 64<<20)
	all = all[:runtime.Stack(all, true)]
	for g := range strings.SplitSeq(string(all), "\n\n") {
		state, _, _ := strings.Cut(g, "\n")
		if strings.Contains(state, "synctest bubble") &&
			(strings.Contains(g, "axebus/axe/") || !strings.Contains(state, "durable")) {
			fmt.Fprintln(os.Stderr, g+"\n")
		}
	}
	fmt.Fprintf(os.Stderr, "%s has not ended for %v: its goroutines are above\n", test, stuckAfter)
	os.Exit(2)
}

// open opens a connection to the harness's server. Every other connection has a
// scan limit of 1, so that it reads by subject where the others scan.
func (h *harness) open(cfg bus.Config) *bus.Conn {
	h.mu.Lock()
	cfg.Dial, cfg.ScanLimit = bus.Dial{Server: h.server}, h.opened%2
	cfg.ServerTime = h.serverTime
	cfg.GroupFrom = 1 // if the streams take groups
	h.opened++
	h.mu.Unlock()
	c, err := bus.Open(h.ctx, cfg)
	if err != nil {
		h.tb.Fatal(err)
	}
	return c
}

// group makes the streams take groups.
func (h *harness) group() {
	if err := h.conn.Provision(h.ctx, bus.Provision{Sync: bus.SyncAlways}); err != nil {
		h.tb.Fatal(err)
	}
}

// Errors of a worker's operations on the bus.
var (
	errKilled    = errors.New("killed")
	errBusBroken = errors.New("the bus is broken on purpose")
)

// worker is a worker that can end like a killed process: it publishes nothing
// more.
type worker struct {
	*agentd.Worker
	h     *harness
	name  string
	conn  *bus.Conn
	stop  context.CancelFunc
	ended chan struct{} // closed when Run has returned
	err   error         // Run's error, once ended is closed

	mu     sync.Mutex
	killed bool
	// disconnected is set while nothing that the worker sends arrives. It
	// still receives.
	disconnected bool
	steps        int
}

// step is an operation of a worker on the bus that is about to begin or, with
// After set, one that has just succeeded. The renewal of a lease is no step.
type step struct {
	bus.Point
	worker *worker
	n      int // 1 for the worker's first step
}

// workerOptions says how a worker of a test behaves. The zero value is a worker
// that serves the harness's agents and does nothing unusual.
type workerOptions struct {
	agentd.Config
	// agents are the agents that the worker serves; nil: the harness's
	// agents.
	agents []configs.Agent
	// toolsets are the toolsets that the worker serves; nil: the harness's.
	toolsets []configs.Toolset
	// conn is the worker's connection; nil: a new one to the harness's
	// server.
	conn *bus.Conn
	// maxBody is the largest body in bytes of a new connection; 0: bus's
	// default.
	maxBody int64
	// ackWait is the lease of a delivery to a new connection; 0: bus's
	// default.
	ackWait time.Duration
	// signKey signs the outcomes of a new connection, and signers make it
	// require signatures. busLog gets what the connection logs.
	signKey nkeys.KeyPair
	signers []string
	busLog  io.Writer
	// atStep is called at each step of a new connection. The step fails
	// with the error that atStep returns. atStep may sleep, and may kill
	// the worker.
	atStep func(s step) error
	// frozen keeps the worker from renewing its leases while it is true, so
	// that they expire.
	frozen *atomic.Bool
	// beforeModel is called when a run is about to take a turn. It may
	// sleep.
	beforeModel func()
}

// startWorker starts a worker. Unless o sets it, its grace is a minute. It
// looks at another worker once a second.
func (h *harness) startWorker(name string, o workerOptions) *worker {
	ctx, stop := context.WithCancel(h.ctx)
	w := &worker{h: h, name: name, conn: o.conn, stop: stop, ended: make(chan struct{})}
	if w.conn == nil {
		intercept := func(at bus.Point) error { return w.intercept(at, o) }
		cfg := bus.Config{
			MaxBody: o.maxBody, AckWait: o.ackWait, Intercept: intercept, Observe: o.Metrics.Exchanged,
			SignKey: o.signKey, Signers: o.signers,
		}
		if o.busLog != nil {
			cfg.Log = slog.New(slog.NewTextHandler(o.busLog, nil))
		}
		w.conn = h.open(cfg)
	}
	if o.Grace == 0 {
		o.Grace = time.Minute
	}
	if o.WatchInterval == 0 {
		o.WatchInterval = time.Second // hours pass in tests
	}
	o.Name = name
	o.Open = func(model string) (provider.Provider, string, error) {
		if o.beforeModel != nil {
			o.beforeModel()
		}
		agent := strings.TrimPrefix(model, "sim/")
		return workerModel{h, agent, w}, agent, nil
	}
	var err error
	if w.Worker, err = agentd.New(w.conn, o.Config); err != nil {
		h.tb.Fatal(err)
	}
	if o.agents == nil {
		o.agents = h.agents
	}
	if o.toolsets == nil {
		o.toolsets = h.toolsets
	}
	if err := w.Serve(configs.Definitions{Agents: o.agents, Toolsets: o.toolsets}); err != nil {
		h.tb.Fatal(err)
	}
	go func() {
		defer close(w.ended)
		w.err = w.Run(ctx)
	}()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.workers = append(h.workers, w)
	return w
}

// intercept is called for each operation of the worker on the bus.
func (w *worker) intercept(at bus.Point, o workerOptions) error {
	w.mu.Lock()
	if w.killed {
		w.mu.Unlock()
		return errKilled
	}
	if at.Op == "beat" {
		defer w.mu.Unlock()
		if w.disconnected || o.frozen != nil && o.frozen.Load() {
			return errKilled
		}
		return nil
	}
	w.steps++
	s := step{Point: at, worker: w, n: w.steps}
	w.mu.Unlock()
	var err error
	if o.atStep != nil {
		err = o.atStep(s)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.killed || w.disconnected {
		return errKilled
	}
	return err
}

// serve sets the worker's agents.
func (w *worker) serve(agents ...configs.Agent) {
	if err := w.Serve(configs.Definitions{Agents: agents}); err != nil {
		w.h.tb.Fatal(err)
	}
}

// kill ends a worker at once. An atStep function may call it.
func (w *worker) kill() {
	w.mu.Lock()
	already := w.killed
	w.killed = true
	w.mu.Unlock()
	if !already {
		go func() { w.conn.Close(); w.stop() }()
	}
}

// isKilled reports whether kill was called.
func (w *worker) isKilled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.killed
}

// disconnect drops everything that the worker sends for the duration d.
func (w *worker) disconnect(d time.Duration) {
	set := func(disconnected bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.disconnected = disconnected
	}
	set(true)
	time.AfterFunc(d, func() { set(false) })
}

// drain drains the worker. The worker must end without an error.
func (w *worker) drain() {
	w.stop()
	<-w.ended
	if w.err != nil {
		w.h.tb.Errorf("drain of %s: %v", w.name, w.err)
	}
	w.conn.Close()
}

// stopWorkers kills all workers and waits for their ends.
func (h *harness) stopWorkers() {
	h.mu.Lock()
	workers := h.workers
	h.mu.Unlock()
	for _, w := range workers {
		w.kill()
		<-w.ended
		if w.err != nil {
			h.tb.Logf("%s ended: %v", w.name, w.err)
		}
	}
}

// awaitReady lets the workers announce their agents and open their feeds.
func (h *harness) awaitReady() { time.Sleep(2 * time.Second) }

// root makes the address of a new tree. Nothing is submitted yet.
func (h *harness) root(agent string) subjects.Run {
	id, err := subjects.ParseTree(bus.NewID())
	if err != nil {
		h.tb.Fatal(err)
	}
	return h.conn.Space().Run(h.agent(agent), id, subjects.Root)
}

// child is the address of the run that the index-th call of the first turn
// starts.
func (h *harness) child(r subjects.Run, agent string, index int) subjects.Run {
	return r.Space.Run(h.agent(agent), r.Tree, r.Path.Child(1, index))
}

// agent parses the name of an agent.
func (h *harness) agent(name string) subjects.Agent {
	a, err := subjects.ParseAgent(name)
	if err != nil {
		h.tb.Fatal(err)
	}
	return a
}

// key parses the key of a mail message, an interrupt or an approval.
func (h *harness) key(name string) subjects.Key {
	k, err := subjects.ParseKey(name)
	if err != nil {
		h.tb.Fatal(err)
	}
	return k
}

// submit submits a task and returns the root of its tree.
func (h *harness) submit(agent, text string) subjects.Run {
	r := h.root(agent)
	h.submitTo(r, text)
	return r
}

// submitTo submits a task to the address that root has made, with headers.
func (h *harness) submitTo(r subjects.Run, text string, header ...[2]string) {
	h.write(bus.Message{Subject: r.Space.Submit(r.Agent, r.Tree), Header: header, Body: []byte(text)})
}

// write stores a message. A refused write ends the test.
func (h *harness) write(m bus.Message) {
	if _, err := h.conn.Write(h.ctx, m); err != nil {
		h.tb.Fatal(err)
	}
}

// publish publishes as `nats pub` does: without headers and without a fence.
func (h *harness) publish(subject, body string) {
	if err := h.conn.PublishEphemeral(subject, []byte(body)); err != nil {
		h.tb.Fatal(err)
	}
}

// pollInterval is the time between two polls of a wait that began at since. It
// grows with the wait: with a least interval of 100 ms, an hour takes some
// 4,600 polls instead of 36,000.
func pollInterval(since time.Time, least time.Duration) time.Duration {
	return max(least, time.Since(since)/1000)
}

// awaitOutcome waits for a tree's outcome, no longer than limit.
func (h *harness) awaitOutcome(r subjects.Run, limit time.Duration) run.Outcome {
	began := time.Now()
	for ; time.Since(began) < limit; time.Sleep(pollInterval(began, 100*time.Millisecond)) {
		m, ok, err := bus.FirstMessage(h.ctx, h.conn, h.conn.Space().Result(r.Agent, r.Tree))
		if err != nil {
			h.tb.Fatal(err)
		}
		if !ok {
			continue
		}
		body, err := h.conn.Load(h.ctx, m)
		if err != nil {
			h.tb.Fatal(err)
		}
		o, err := run.DecodeOutcome(body)
		if err != nil {
			h.tb.Fatal(err)
		}
		return o
	}
	h.tb.Fatalf("no outcome of %s within %v:\n%s", r, limit, h.dumpTree(r.Tree))
	return run.Outcome{}
}

// expectCompleted waits for a tree's outcome, half an hour at most, and
// compares its answer.
func (h *harness) expectCompleted(r subjects.Run, want string) run.Outcome {
	o := h.awaitOutcome(r, 30*time.Minute)
	if o.Status != run.StatusCompleted || o.Result != want {
		h.tb.Errorf("%s: outcome %s %s %q\n got %s\nwant %s", r, o.Status, o.Kind, o.Error, o.Result, want)
	}
	return o
}

// expectFailed waits for a tree's outcome, half an hour at most, and compares
// its kind and its error.
func (h *harness) expectFailed(r subjects.Run, kind run.Kind, text string) {
	o := h.awaitOutcome(r, 30*time.Minute)
	if o.Status != run.StatusFailed || o.Kind != kind || o.Error != text {
		h.tb.Errorf("%s: outcome %s %s %q %q\nwant %s %q", r, o.Status, o.Kind, o.Error, o.Result, kind, text)
	}
}

// expectAnswer compares an outcome with the answer of a tree of the depth that
// treeModel makes from the task "L".
func (h *harness) expectAnswer(o run.Outcome, depth int) {
	if want := h.tree.answer("L", depth); o.Status != run.StatusCompleted || o.Result != want {
		h.tb.Errorf("outcome %s %q %s, want %q", o.Status, o.Result, o.Error, want)
	}
}

// eventually waits, a minute at most, until holds is true.
func (h *harness) eventually(claim string, holds func() bool) {
	for began := time.Now(); !holds(); time.Sleep(pollInterval(began, 10*time.Millisecond)) {
		if time.Since(began) > time.Minute {
			h.tb.Fatalf("not within a minute: %s", claim)
		}
	}
}

// awaitRequests waits until n requests for an agent have been made.
func (h *harness) awaitRequests(agent string, n int) {
	claim := fmt.Sprintf("%d requests for %s", n, agent)
	h.eventually(claim, func() bool { return len(h.requests(agent)) >= n })
}

// tookAtMost checks the virtual time that has passed since began.
func (h *harness) tookAtMost(began time.Time, limit time.Duration) {
	if d := time.Since(began); d > limit {
		h.tb.Errorf("it took %v, want at most %v", d, limit)
	}
}

// readAll reads every message that a subject or filter matches.
func (h *harness) readAll(filter string) []bus.Stored {
	ms, err := h.conn.ReadByScan(h.ctx, filter, 0)
	if err != nil {
		h.tb.Fatal(err)
	}
	return ms
}

// readTree reads every message of a tree.
func (h *harness) readTree(tree subjects.Tree) []bus.Stored {
	space := h.conn.Space()
	return append(h.readAll(space.TreeOf(tree)), h.readAll(space.ResultOf(tree))...)
}

// dumpTree lists the messages of a tree, one a line, for a failure's message.
func (h *harness) dumpTree(tree subjects.Tree) string {
	var b strings.Builder
	for _, m := range h.readTree(tree) {
		fmt.Fprintf(&b, "%6d %s %s\n", m.Seq, m.Subject, m.Body)
	}
	return b.String()
}

// entries reads the log of a run.
func (h *harness) entries(r subjects.Run) []run.Entry {
	var out []run.Entry
	for _, m := range h.readAll(r.Log()) {
		e, err := run.DecodeEntry(m.Body)
		if err != nil {
			h.tb.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// outcomes reads the outcomes that are stored on a reply subject.
func (h *harness) outcomes(subject string) []run.Outcome {
	var out []run.Outcome
	for _, m := range h.readAll(subject) {
		o, err := run.DecodeOutcome(m.Body)
		if err != nil {
			h.tb.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}

// deadLetterReasons reads the reasons of the dead letters on a subject.
func (h *harness) deadLetterReasons(subject string) []string {
	var out []string
	for _, m := range h.readAll(subject) {
		out = append(out, m.Header.Get("Axe-Reason"))
	}
	return out
}

// TestHarness is the example of a test with the harness: a lead calls two
// leaves, the worker is killed when it has written the lead's first turn, and
// another worker completes the tree.
func TestHarness(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["lead"] = turns(calls(call("leaf", "one"), call("leaf", "two")), joinsResults)
		h.models["leaf"] = delayed(time.Minute, repeats)
		victim := h.startWorker("victim", workerOptions{atStep: func(s step) error {
			if s.Op == "write" && s.After && strings.HasSuffix(s.Subject, ".log") {
				s.worker.kill()
			}
			return nil
		}})
		h.awaitReady()
		root := h.submit("lead", "the task")
		<-victim.ended
		h.startWorker("successor", workerOptions{Config: agentd.Config{Slots: 4}})
		h.eventually("both leaves are asked", func() bool { return len(h.requests("leaf")) == 2 })
		o := h.awaitOutcome(root, time.Hour)
		if o.Result != "c0=one|c1=two" || o.Worker != "successor" {
			t.Errorf("result %s by %s, want the results of both leaves by the successor", o.Result, o.Worker)
		}
		if n := len(h.requests("lead")); n != 2 {
			t.Errorf("the lead's model was asked %d times, want once for each of two turns", n)
		}
		h.checkVerified()
	})
}
