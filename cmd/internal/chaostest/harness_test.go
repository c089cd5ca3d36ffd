package chaostest

import (
	"context"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// harness holds the processes and records of one scenario.
type harness struct {
	scenario
	bin     string
	log     *journal
	model   *model
	servers *servers
	pool    *workerPool
	hits    *faultLog // the faults so far
	tenant  *tenant   // nil: the server has no accounts
	// lasting waits for the schedules, and for faults until they are
	// undone.
	lasting sync.WaitGroup
}

// newFleet makes a harness with one server, which keeps its streams in the
// directory store, and a model of the given latency. It returns the command of
// the workers, which still needs its agents. Nothing is started.
func newFleet(t *testing.T, bin, store string, latency time.Duration) (*harness, agentd) {
	t.Helper()
	h := &harness{bin: bin, log: newJournal(t), model: newModel(latency)}
	h.ackWait = 10 * time.Second
	h.hits = &faultLog{journal: h.log}
	web := httptest.NewServer(h.model)
	t.Cleanup(web.Close)
	h.servers = newServers(t, newGroup(t, h.log), 1, store)
	return h, agentd{filepath.Join(bin, "agentd"), "", web.URL, 1, 1, h.ackWait, nil, "", nil}
}

// startFleet starts the server and three workers. The end of the test ends
// them.
func (h *harness) startFleet(t *testing.T, worker agentd) {
	t.Helper()
	if err := h.servers.up(t.Context(), h.servers.nodes[0]); err != nil {
		t.Fatal(err)
	}
	for i := range fleetSize {
		name := fmt.Sprintf("w%d", i+1)
		if _, err := h.servers.group.start(name, worker.named(name, "--server", h.servers.urls())); err != nil {
			t.Fatal(err)
		}
	}
}

// newHarness starts the servers and the workers of a scenario. The end of the
// test ends them.
func newHarness(t *testing.T, sc scenario, bin string) *harness {
	t.Helper()
	agents, store := writeAgents(t), t.TempDir()
	h := &harness{scenario: sc, bin: bin, log: newJournal(t), model: newModel(sc.latency)}
	h.hits = &faultLog{journal: h.log}
	web := httptest.NewServer(h.model)
	t.Cleanup(web.Close)
	g := newGroup(t, h.log)
	h.servers = newServers(t, g, sc.nodes, store)
	worker := agentd{filepath.Join(bin, "agentd"), agents, web.URL, sc.nodes, sc.partitions, sc.ackWait, nil, "", nil}
	if sc.upgrades {
		worker.before = builtBefore(t)
	}
	if sc.embedded {
		h.servers.in = &worker
	}
	h.pool = worker.newPool(t, g, h.servers, sc.proxied)
	for _, n := range h.servers.nodes {
		if err := h.servers.up(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	h.watchLeaders(t)
	for _, b := range h.pool.places {
		if err := b.fill(nil); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// connect opens a connection and waits until the workers have made the streams.
func (h *harness) connect(t *testing.T) *bus.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := bus.Open(ctx, bus.Config{Dial: h.dialAs("operator")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	for provisioned(ctx, conn) != nil {
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			t.Fatal("the workers have not set up the streams: ", err)
		}
	}
	return conn
}

// provisioned reports an error if the streams are missing. It bounds the wait,
// since a cluster without a leader does not answer.
func provisioned(ctx context.Context, conn *bus.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return conn.Provisioned(ctx)
}

// run runs the load under the faults and judges the result.
func (h *harness) run(t *testing.T, seed uint64, trees int) (*verdict, *load, *record) {
	t.Helper()
	conn := h.connect(t)
	lead, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	l := &load{h: h, client: client.New(conn), lead: lead, more: h.tenant.marker()}
	l.submitter = h.tenant.env("submitter")
	ctx, calm := context.WithCancel(t.Context())
	defer calm()
	for i, sequence := range h.sequences {
		s := sequence.schedule(seed, i)
		h.lasting.Go(func() {
			if err := h.injectFaults(ctx, s); err != nil {
				t.Error(err)
			}
		})
	}
	h.lasting.Go(func() { h.reportProgress(ctx, l) })
	l.run(t.Context(), trees, func() bool { return t.Failed() || h.hits.count("") >= h.atLeast })
	calm()
	h.lasting.Wait()
	if err := h.awaitQuiet(t.Context()); err != nil {
		t.Error(err)
	}
	r, err := readRecord(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return h.judge(l, r), l, r
}

// reportProgress writes the progress of a scenario to stderr until ctx ends, if
// AXE_CHAOS_TREES is set.
func (h *harness) reportProgress(ctx context.Context, l *load) {
	for os.Getenv(treesEnv) != "" && pause.For(ctx, 5*time.Second) == nil {
		fmt.Fprintf(
			os.Stderr,
			"chaos %s: %d trees ended, %d submitted; %s; model asked %d times; %d tries again; %d gave up\n",
			h.name,
			l.ended.Load(),
			l.next.Load(),
			h.faults(),
			h.model.count(),
			l.retries.Load(),
			h.pool.unexpectedEnds.Load(),
		)
	}
}

// faults returns the number of faults of each kind as text.
func (h *harness) faults() string {
	kinds := map[kind]bool{}
	for _, sequence := range h.sequences {
		for _, k := range sequence.kinds {
			kinds[k] = true
		}
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, h.hits.count(k)))
	}
	return strings.Join(parts, ", ")
}
