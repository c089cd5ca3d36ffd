package bench_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/cmd/internal/bench"
)

// processEnv makes the test binary a process of a benchmark.
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

// TestScale: the workload scale makes as many whole trees as the configured
// number of runs allows, and measures every comparison. Each process writes its
// profiles.
func TestScale(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
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
		// A waiting root has 100 idle forks and another that it waits
		// for. The other trees have 1000, 100 and 10 children.
		"runs":          102 + 1001 + 3*101 + 8*11,
		"of which wait": 102,
	} {
		if got[name] != want {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
	if n := got["stored messages"]; n < 2*got["runs"] {
		t.Errorf("got %v stored messages of %v runs, want two of each run or more", n, got["runs"])
	}
	for _, name := range []string{
		"latency, of that on an empty stream", "rate, of that on an empty stream", "of a fresh leaf",
		"start, of that on an empty stream", "3 more agents: latency of a leaf, of that with few",
		"3 more agents: rate, of that with few",
	} {
		if got[name] <= 0 {
			t.Errorf("%s: got %v, want a positive value", name, got[name])
		}
	}
	for _, name := range []string{
		"server", "model", "scale-worker-w1", "scale-worker-w2", "empty/server", "empty/worker-w1",
	} {
		for _, kind := range []string{"cpu", "heap"} {
			if info, err := os.Stat(filepath.Join(profiles, name+"."+kind+".pprof")); err != nil || info.Size() == 0 {
				t.Errorf("the %s profile of %s is missing or empty: %v", kind, name, err)
			}
		}
	}
}

// TestBusInUseIsKept: on a running bus a benchmark refuses a prefix that is in
// use, and removes no stream. Here a task that no worker has taken uses it. A
// benchmark that is interrupted before its check removes no stream either.
func TestBusInUseIsKept(t *testing.T) {
	t.Setenv(processEnv, "1")
	server, err := bus.Serve(bus.ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	conn, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{URL: server.URL()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := conn.Provision(t.Context(), bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(t.Context(), bus.Message{Subject: "axe.submit.lead.T1", Body: []byte("go")}); err != nil {
		t.Fatal(err)
	}
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	for name, ctx := range map[string]context.Context{"queued task": t.Context(), "interrupted": interrupted} {
		_, err := bench.Run(ctx, bench.Config{
			Attached: true, Dial: bus.Dial{URL: server.URL()}, Prefix: "axe", Only: []string{"leaf"}, Runs: 10,
			Waiting: 1, Agents: 1, For: time.Millisecond, Slots: 1, Replicas: 1, Partitions: 1,
			Command: []string{os.Args[0]}, Stderr: os.Stderr,
		})
		if err == nil || name == "queued task" && !strings.Contains(err.Error(), "AXE_SUBMIT is in use") {
			t.Errorf("%s: got %v, want an error, for the queued task that AXE_SUBMIT is in use", name, err)
		}
		if err := conn.Provisioned(t.Context()); err != nil {
			t.Errorf("%s: the streams are gone: %v", name, err)
		}
	}
}

// TestOnAndOff: the workload observe measures a worker with metrics and one
// without. All watchers get the events of a tree. The workload signed measures
// one with signatures and one without.
func TestOnAndOff(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	t.Setenv(processEnv, "1")
	report, err := bench.Run(t.Context(), bench.Config{
		Only: []string{"observe", "signed"}, Runs: 1, Waiting: 1, Agents: 1, For: 20 * time.Millisecond, Slots: 8,
		Latency: 5 * time.Millisecond, Replicas: 1, Partitions: 1, Command: []string{os.Args[0]}, Stderr: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Results {
		for _, m := range r.Metrics {
			if m.Value <= 0 {
				t.Errorf("%s: got %v, want a positive value", m.Name, m.Value)
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
			t.Errorf("got the error %v, want %s", err, want)
		}
	}
}
