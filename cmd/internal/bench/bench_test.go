package bench_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/bench"
)

// processEnv makes this program a process of a benchmark.
const processEnv = "AXE_BENCH_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(processEnv) == "" {
		os.Exit(m.Run())
	}
	if err := bench.RunProcess(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestScale: the workload scale makes the configured number of runs and
// measures every comparison. Each process writes its profiles.
func TestScale(t *testing.T) {
	t.Setenv(processEnv, "1")
	profiles := t.TempDir()
	report, err := bench.Run(t.Context(), bench.Config{
		Only: []string{"scale"}, Runs: 1500, Waiting: 100, Agents: 3, For: 20 * time.Millisecond, Slots: 8,
		Replicas: 1, Partitions: 1, Command: []string{os.Args[0]}, Stderr: os.Stderr, Profile: profiles,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, m := range report.Results[0].Metrics {
		got[m.Name] = m.Value
	}
	for name, want := range map[string]float64{
		// There are one waiting root with its forks, and complete
		// trees.
		"runs":          102 + 1001 + 3*101 + 8*11,
		"of which wait": 102,
	} {
		if got[name] != want {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
	if n := got["stored messages"]; n < 2*got["runs"] {
		t.Errorf("%v messages are stored of %v runs", n, got["runs"])
	}
	for _, name := range []string{
		"latency, of that on an empty stream", "rate, of that on an empty stream", "of a fresh leaf",
		"start, of that on an empty stream", "3 more agents: latency of a leaf, of that with few",
		"3 more agents: rate, of that with few",
	} {
		if got[name] <= 0 {
			t.Errorf("%s: %v", name, got[name])
		}
	}
	for _, name := range []string{
		"server", "model", "scale-worker-w1", "scale-worker-w2", "empty/server", "empty/worker-w1",
	} {
		for _, kind := range []string{"cpu", "heap"} {
			if info, err := os.Stat(filepath.Join(profiles, name+"."+kind+".pprof")); err != nil || info.Size() == 0 {
				t.Errorf("the %s profile of %s: %v", kind, name, err)
			}
		}
	}
}

// TestConfigIsChecked: Run refuses an invalid configuration before it starts a
// process.
func TestConfigIsChecked(t *testing.T) {
	for want, change := range map[string]func(*bench.Config){
		"command must be set":        func(c *bench.Config) { c.Command = nil },
		"slots is out of range":      func(c *bench.Config) { c.Slots = 0 },
		"waiting is out of range":    func(c *bench.Config) { c.Waiting = c.Runs + 1 },
		"agents is out of range":     func(c *bench.Config) { c.Agents = -1 },
		"partitions is out of range": func(c *bench.Config) { c.Partitions = bus.MostPartitions + 1 },
	} {
		cfg := bench.Config{
			Command: []string{"true"}, Replicas: 1, Partitions: 1, Slots: 1, For: time.Second,
			Runs: 10, Waiting: 10, Agents: 1,
		}
		change(&cfg)
		if _, err := bench.Run(t.Context(), cfg); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
