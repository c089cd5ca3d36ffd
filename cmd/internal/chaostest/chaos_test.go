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

// workers is the number of running workers of a pool at any time.
const workers = 4

const (
	treesEnv = "AXE_CHAOS_TREES" // of each scenario
	seedEnv  = "AXE_CHAOS_SEED"
)

// shortRun is the size of a scenario in a short run: the number of trees, of
// faults before the load ends, and of fault sequences. With zeros there are 12
// trees, one fault or more, and all sequences.
type shortRun struct{ trees, atLeast, sequences int }

// scenario says which processes run, which faults strike them, and whether the
// faults may cost model requests.
type scenario struct {
	name     string
	nodes    int
	ackWait  time.Duration
	latency  time.Duration // of the model
	proxied  int           // workers behind proxies
	embedded bool          // the server is in a worker
	upgrades bool          // each drain replaces a worker by one of another version
	// partitions is the number of partitions over which the trees are
	// spread.
	partitions int
	sequences  []faultSequence
	atLeast    int // faults, before the load ends
	// free says that the scenario's faults cost no model request.
	free  bool
	short shortRun // the size of a short run
}

var scenarios = []scenario{
	{name: "kill", sequences: []faultSequence{{200 * time.Millisecond, []kind{killWorker}}}},
	{name: "server", sequences: []faultSequence{{time.Second, []kind{killServer}}}},
	{
		name:      "both",
		embedded:  true,
		sequences: []faultSequence{{200 * time.Millisecond, []kind{killWorker}}, {time.Second, []kind{killServer}}},
	},
	{name: "zombies", sequences: []faultSequence{{time.Second, []kind{freezeWorker}}}},
	{
		name: "drains", atLeast: 100, free: true, ackWait: 10 * time.Second, short: shortRun{atLeast: 4},
		sequences: []faultSequence{{50 * time.Millisecond, []kind{drainWorker}}},
	},
	{
		name: "upgrade", upgrades: true, atLeast: 100, free: true, ackWait: 10 * time.Second,
		short:     shortRun{atLeast: 8},
		sequences: []faultSequence{{500 * time.Millisecond, []kind{drainWorker}}},
	},
	{name: "cut", proxied: 3, sequences: []faultSequence{{time.Second, []kind{cutConn, stallConn, slowConn}}}},
	{
		name: "cluster", nodes: 3, short: shortRun{trees: 4, sequences: 1},
		sequences: []faultSequence{{6 * time.Second, []kind{killLeader}}, {time.Second, []kind{killWorker}}},
	},
	{
		name: "mix", proxied: 2, partitions: 4, short: shortRun{trees: 8},
		sequences: []faultSequence{
			{
				time.Second,
				[]kind{
					killWorker,
					killWorker,
					freezeWorker,
					drainWorker,
					cutConn,
					stallConn,
					slowConn,
					killServer,
					freezeServer,
					slowServer,
				},
			},
		},
	},
}

// sized fills in the fields that a scenario leaves out, and returns the number
// of trees. If that is 0, it cuts the scenario down to its short run.
func (sc scenario) sized(trees int) (scenario, int) {
	sc.nodes, sc.partitions = max(sc.nodes, 1), max(sc.partitions, 1)
	sc.ackWait = cmp.Or(sc.ackWait, 2*time.Second)
	sc.latency = 200 * time.Millisecond
	if trees == 0 {
		trees = cmp.Or(sc.short.trees, 12)
		sc.latency /= 2
		sc.atLeast = sc.short.atLeast
		sc.sequences = sc.sequences[:cmp.Or(sc.short.sequences, len(sc.sequences))]
	}
	sc.atLeast = max(sc.atLeast, 1)
	return sc, trees
}

// TestChaos runs every scenario with AXE_CHAOS_TREES trees, and in a short run
// if that is not set. A scenario that takes several times as long for a tree,
// such as one with a row for each fault, gets a part of the trees. The first
// line of output has the seed.
func TestChaos(t *testing.T) {
	seed, trees := rand.Uint64N(1e6), 0
	number(t, seedEnv, func(n int) { seed = uint64(n) })
	number(t, treesEnv, func(n int) { trees = n })
	t.Logf("%s=%d", seedEnv, seed)
	half, fifth := (trees+1)/2, (trees+4)/5
	bin := binaries(t)
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			if trees == 0 && sc.nodes > 1 || testing.Short() && sc.name == "mix" {
				t.Skip("not in a short run: make chaos CHAOS=" + sc.name)
			}
			if trees == 0 {
				t.Parallel()
			}
			sc, n := sc.sized(trees)
			sc.perform(t, bin, seed, n)
		})
	}
	t.Run("poison", func(t *testing.T) {
		// A lead makes teamSize calls.
		n, ackWait := trees/2/teamSize*teamSize, 2*time.Second
		if trees == 0 {
			t.Parallel()
			n, ackWait = 12, 500*time.Millisecond
		}
		poison(t, bin, n, ackWait)
	})
	t.Run("rollout", func(t *testing.T) {
		if trees == 0 {
			t.Parallel()
		}
		r := sizedRollout(fifth)
		r.perform(t, bin)
	})
	t.Run("tools", func(t *testing.T) { tools(t, bin, seed, half) })
	t.Run("operators", func(t *testing.T) { operators(t, bin, fifth) })
	t.Run("full", func(t *testing.T) { full(t, bin, fifth) })
	t.Run("restore", func(t *testing.T) { restored(t, bin, fifth) })
	t.Run("agents", func(t *testing.T) { agentsAtWork(t, bin, fifth) })
	t.Run("tenants", func(t *testing.T) {
		if trees == 0 {
			t.Parallel()
		}
		tenants(t, bin, seed, fifth)
	})
	t.Run("clocks", func(t *testing.T) { clocks(t, bin, fifth) })
}

// perform runs a scenario with the commands in the directory bin.
func (sc scenario) perform(t *testing.T, bin string, seed uint64, trees int) {
	t.Helper()
	newHarness(t, sc, bin).perform(t, seed, trees)
}

// perform runs the load of a harness under its faults, and checks the verdict
// and the stream. It returns what the stream has.
func (h *harness) perform(t *testing.T, seed uint64, trees int) *record {
	t.Helper()
	begin := time.Now()
	v, l, r := h.run(t, seed, trees)
	t.Logf("seed %d | %d trees | %s | took %.1fs, a tree %.1fs at most", seed, l.ended.Load(), h.faults(),
		time.Since(begin).Seconds(), time.Duration(l.longest.Load()).Seconds())
	t.Logf("model asked %d, minimum %d, extra %d, allowed %d", v.asked, v.minimum, v.extra, v.allowed)
	t.Logf("lost %d, doubled %d, wrong answers %d, tried again %d, gave up %d",
		v.lost, v.doubled, v.wrongAnswers, l.retries.Load(), h.pool.unexpectedEnds.Load())
	if kills := h.hits.count(killWorker); h.name == "kill" && v.extra > kills*slots {
		v.blame("%d kills of workers with %d slots cost %d requests", kills, slots, v.extra)
	}
	if h.hits.count("") == 0 {
		v.blame("no fault has happened")
	}
	if h.free && v.extra > 0 {
		v.blame("%d turns were asked again, though no fault costs a request", v.extra)
	}
	if n := h.pool.unexpectedEnds.Load(); n > 0 {
		v.blame("%d workers gave up; the output of the last one:\n%v", n, h.pool.lastWords.Load())
	}
	if len(v.wrong) > 0 {
		first := strings.Join(v.wrong[:min(20, len(v.wrong))], "\n")
		t.Errorf("%s=%d: %d faults of the product:\n%s", seedEnv, seed, len(v.wrong), first)
	}
	h.verify(t)
	return r
}

// verify checks the stream with axe verify.
func (h *harness) verify(t *testing.T) {
	t.Helper()
	axe := filepath.Join(h.bin, "axe")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, axe, "verify", "--all", "--server", h.servers.urls())
	cmd.Env = append(os.Environ(), h.tenant.env("observer")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("axe verify: %v\n%s", err, out)
	}
}

// number passes the number in a variable of the environment to take, if the
// variable is set.
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

// binaries builds the commands for all scenarios and returns their directory.
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
