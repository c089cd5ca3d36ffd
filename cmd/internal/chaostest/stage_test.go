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
	"github.com/axebus/axe/subjects"
)

// stage is everything that one scenario runs.
type stage struct {
	scenario
	bin     string
	log     *journal
	model   *model
	servers *servers
	crew    *crew
	hits    *hits
	// faults that last, and are undone later
	lasting sync.WaitGroup
}

// newStage starts the servers and the workers. The end of the test ends them.
func newStage(t *testing.T, sc scenario, bin string) *stage {
	t.Helper()
	agents, store := writeAgents(t), t.TempDir()
	st := &stage{scenario: sc, bin: bin, log: newJournal(t), model: newModel(sc.latency)}
	st.hits = &hits{log: st.log}
	web := httptest.NewServer(st.model)
	t.Cleanup(web.Close)
	g := newGroup(t, st.log)
	st.servers = newServers(t, g, sc.nodes, store)
	worker := agentd{filepath.Join(bin, "agentd"), agents, web.URL, sc.nodes, sc.parts, sc.ackWait}
	if sc.embedded {
		st.servers.in = &worker
	}
	st.crew = newCrew(t, g, worker, st.servers, sc.proxied)
	for _, n := range st.servers.nodes {
		if err := st.servers.up(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	st.watchLeaders(t)
	for _, b := range st.crew.berths {
		if err := b.fill(nil); err != nil {
			t.Fatal(err)
		}
	}
	return st
}

// connect waits for the streams, which the workers set up.
func (st *stage) connect(t *testing.T) *bus.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{URL: st.servers.urls()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	for provisioned(ctx, conn) != nil {
		if err := bus.Pause(ctx, 50*time.Millisecond); err != nil {
			t.Fatal("the workers have not set up the streams: ", err)
		}
	}
	return conn
}

// provisioned asks once; a cluster that has not found together does not answer.
func provisioned(ctx context.Context, conn *bus.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return conn.Provisioned(ctx)
}

// play runs the load under the faults and judges what came of it.
func (st *stage) play(t *testing.T, seed uint64, trees int) (*verdict, *load) {
	t.Helper()
	conn := st.connect(t)
	lead, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	l := &load{stage: st, client: client.New(conn), lead: lead}
	ctx, calm := context.WithCancel(t.Context())
	defer calm()
	for i, d := range st.drills {
		s := d.schedule(seed, i)
		st.lasting.Go(func() {
			if err := st.harass(ctx, s); err != nil {
				t.Error(err)
			}
		})
	}
	st.lasting.Go(func() { st.tell(ctx, l) })
	l.run(t.Context(), trees, func() bool { return t.Failed() || st.hits.count("") >= st.atLeast })
	calm()
	st.lasting.Wait()
	if err := st.settle(t.Context()); err != nil {
		t.Error(err)
	}
	r, err := readRecord(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	return st.judge(l, r), l
}

// tell says on stderr how a long run goes on.
func (st *stage) tell(ctx context.Context, l *load) {
	for os.Getenv(treesEnv) != "" && bus.Pause(ctx, 5*time.Second) == nil {
		fmt.Fprintf(
			os.Stderr,
			"chaos %s: %d trees ended, %d submitted; %s; model asked %d times; %d tries again; %d gave up\n",
			st.name,
			l.ended.Load(),
			l.next.Load(),
			st.faults(),
			st.model.count(),
			l.retries.Load(),
			st.crew.gaveUp.Load(),
		)
	}
}

// faults counts what was done, by kind.
func (st *stage) faults() string {
	kinds := map[kind]bool{}
	for _, d := range st.drills {
		for _, k := range d.kinds {
			kinds[k] = true
		}
	}
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, st.hits.count(k)))
	}
	return strings.Join(parts, ", ")
}
