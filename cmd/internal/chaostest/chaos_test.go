package chaostest

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// workers is how many are at work at any time.
const workers = 4

const (
	treesEnv = "AXE_CHAOS_TREES" // of each scenario
	seedEnv  = "AXE_CHAOS_SEED"
)

// brief is what a scenario is cut down to.
type brief struct{ trees, atLeast, drills int }

// scenario says who runs, what is done to them, and what it may cost.
type scenario struct {
	name     string
	nodes    int
	ackWait  time.Duration
	latency  time.Duration // of the model
	proxied  int           // workers behind proxies
	embedded bool          // the server is in a worker
	// streams that the trees are spread over
	parts   int
	drills  []drill
	atLeast int // faults, before the load ends
	// its faults cost no request to the model
	free  bool
	brief brief // what a short run has instead
}

var scenarios = []scenario{
	{name: "kill", drills: []drill{{200 * time.Millisecond, []kind{killWorker}}}},
	{name: "server", drills: []drill{{time.Second, []kind{killServer}}}},
	{
		name:     "both",
		embedded: true,
		drills:   []drill{{200 * time.Millisecond, []kind{killWorker}}, {time.Second, []kind{killServer}}},
	},
	{name: "zombies", drills: []drill{{time.Second, []kind{stopWorker}}}},
	{
		name: "drains", atLeast: 100, free: true, ackWait: 10 * time.Second, brief: brief{atLeast: 4},
		drills: []drill{{50 * time.Millisecond, []kind{drainOne}}},
	},
	{name: "cut", proxied: 3, drills: []drill{{time.Second, []kind{cutConn, holdConn, slowConn}}}},
	{
		name: "cluster", nodes: 3, brief: brief{trees: 4, drills: 1},
		drills: []drill{{6 * time.Second, []kind{killLeader}}, {time.Second, []kind{killWorker}}},
	},
	{
		name: "mix", proxied: 2, parts: 4, brief: brief{trees: 8},
		drills: []drill{
			{
				time.Second,
				[]kind{
					killWorker,
					killWorker,
					stopWorker,
					drainOne,
					cutConn,
					holdConn,
					slowConn,
					killServer,
					haltServer,
					dragServer,
				},
			},
		},
	},
}

// sized fills in what a scenario does not say, and cuts down one of which no
// number of trees is asked.
func (sc scenario) sized(trees int) (scenario, int) {
	sc.nodes, sc.parts = max(sc.nodes, 1), max(sc.parts, 1)
	sc.ackWait = cmp.Or(sc.ackWait, 2*time.Second)
	sc.latency = 200 * time.Millisecond
	if trees == 0 {
		trees = cmp.Or(sc.brief.trees, 12)
		sc.latency /= 2
		sc.atLeast = sc.brief.atLeast
		sc.drills = sc.drills[:cmp.Or(sc.brief.drills, len(sc.drills))]
	}
	sc.atLeast = max(sc.atLeast, 1)
	return sc, trees
}

// TestChaos plays every scenario. The seed is in its first line of output and
// in every failure.
func TestChaos(t *testing.T) {
	seed, trees := rand.Uint64N(1e6), 0
	number(t, seedEnv, func(n int) { seed = uint64(n) })
	number(t, treesEnv, func(n int) { trees = n })
	t.Logf("%s=%d", seedEnv, seed)
	bin := binaries(t)
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			if trees == 0 && sc.nodes > 1 || testing.Short() && sc.name == "mix" {
				t.Skip("not in a short run: replicas are tested in agentd, and make chaos kills their leaders")
			}
			if trees == 0 {
				t.Parallel()
			}
			sc, n := sc.sized(trees)
			perform(t, sc, bin, seed, n)
		})
	}
	t.Run("poison", func(t *testing.T) {
		n, ackWait := trees/2, 2*time.Second
		if trees == 0 {
			t.Parallel()
			n, ackWait = 12, 500*time.Millisecond
		}
		poison(t, bin, n, ackWait)
	})
}

func perform(t *testing.T, sc scenario, bin string, seed uint64, trees int) {
	t.Helper()
	st := newStage(t, sc, bin)
	begin := time.Now()
	v, l := st.play(t, seed, trees)
	t.Logf(
		"seed %d | %d trees | %s | took %.1fs, a tree %.1fs at most | model asked %d, minimum %d, extra %d, allowed %d | lost %d, doubled %d, misordered %d | tried again %d, gave up %d",
		seed,
		l.ended.Load(),
		st.faults(),
		time.Since(begin).Seconds(),
		time.Duration(l.longest.Load()).Seconds(),
		v.asked,
		v.minimum,
		v.extra,
		v.allowed,
		v.lost,
		v.doubled,
		v.misordered,
		l.retries.Load(),
		st.crew.gaveUp.Load(),
	)
	if kills := st.hits.count(killWorker); sc.name == "kill" && v.extra > kills*slots {
		v.blame("%d kills of workers with %d slots cost %d requests", kills, slots, v.extra)
	}
	if st.hits.count("") == 0 {
		v.blame("nothing was done to anybody")
	}
	if sc.free && v.extra > 0 {
		v.blame("%d turns were asked again, though nobody was interrupted", v.extra)
	}
	if n := st.crew.gaveUp.Load(); n > 0 {
		v.blame("%d workers gave up; the last one has said:\n%v", n, st.crew.why.Load())
	}
	if len(v.wrong) > 0 {
		t.Errorf(
			"%s=%d: %d faults of the product:\n%s",
			seedEnv,
			seed,
			len(v.wrong),
			strings.Join(v.wrong[:min(20, len(v.wrong))], "\n"),
		)
	}
	st.verify(t)
}

// verify has the bus checked by axe itself.
func (st *stage) verify(t *testing.T) {
	t.Helper()
	axe := filepath.Join(st.bin, "axe")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	help, err := exec.CommandContext(ctx, axe, "verify", "--help").CombinedOutput()
	if err != nil || !strings.Contains(string(help), "axe verify") {
		return
	}
	if out, err := exec.CommandContext(ctx, axe, "verify", "--all", "--server", st.servers.urls()).CombinedOutput(); err != nil {
		t.Errorf("axe verify: %v\n%s", err, out)
	}
}

// number reads a number from the environment, if there is one.
func number(t *testing.T, name string, take func(int)) {
	t.Helper()
	s := os.Getenv(name)
	if s == "" {
		return
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		t.Fatalf("%s=%q: want a number", name, s)
	}
	take(n)
}

// binaries builds the commands, once for all scenarios.
func binaries(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.CommandContext(
		t.Context(),
		"go",
		"build",
		"-o",
		dir+string(filepath.Separator),
		"../../agentd",
		"../../axe-submit",
		"../../axe",
	)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}
