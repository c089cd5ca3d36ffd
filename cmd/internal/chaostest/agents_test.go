package chaostest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/subjects"
)

// manyAgents is the number of agents in the directory of the workers.
const manyAgents = 10_000

// agentFleet is three workers that serve a directory of agents.
type agentFleet struct {
	*harness
	client *client.Client
	agents int
	began  time.Time
}

// startAgents starts a server and three workers with the given number of
// agents.
func startAgents(t *testing.T, bin string, agents int) *agentFleet {
	t.Helper()
	dir := t.TempDir()
	for i := range agents {
		name := agentName(i)
		toml := fmt.Sprintf("name = %q\nmodel = \"ollama/counting\"\n", name)
		if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(toml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	h, worker := newFleet(t, bin, t.TempDir(), 0)
	h.name = fmt.Sprintf("%d agents", agents)
	h.log.keep = "pull failed"
	worker.agents = dir
	f := &agentFleet{harness: h, agents: agents, began: time.Now()}
	h.startFleet(t, worker)
	f.client = client.New(h.connect(t))
	return f
}

// agentName returns the name of an agent by its number.
func agentName(i int) string { return fmt.Sprintf("agent%05d", i) }

// leaf submits a task to an agent, waits for the answer and checks it. It
// returns the time from the submission to the answer.
func (f *agentFleet) leaf(ctx context.Context, t *testing.T, label string, agent int) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, treeTimeout)
	defer cancel()
	a, err := subjects.ParseAgent(agentName(agent % f.agents))
	if err != nil {
		t.Error(err)
		return 0
	}
	l := &load{h: f.harness, client: f.client, lead: a}
	begin := time.Now()
	err = l.retry(ctx, func(ctx context.Context) error { return l.submit(ctx, label) })
	var o run.Outcome
	if err == nil {
		err = l.retry(ctx, func(ctx context.Context) (err error) {
			o, err = f.client.Wait(ctx, client.TreeID(label))
			return err
		})
	}
	if err != nil || o.Status != run.StatusCompleted || o.Result != label+"()" {
		t.Errorf("%s of %s: got %s %s%s, error %v, want completed %s()",
			label, a, o.Status, o.Result, o.Error, err, label)
	}
	return time.Since(begin)
}

// figures holds the measured times of a fleet, and its rate.
type figures struct {
	// start is the time from the start of the server to the first answer.
	start time.Duration
	// latency is the median time of a leaf that works alone.
	latency time.Duration
	// rate is in leaves a second, the median of rateRounds.
	rate float64
	// first is the latency of the first leaf of an agent.
	first time.Duration
	// restart is the time from the death of the server to the next answer.
	restart time.Duration
}

// String returns the figures as the row of a table.
func (m figures) String() string {
	return fmt.Sprintf("%5.2fs  %7.2fms  %5.0f/s  %8.2fms  %6.2fs", m.start.Seconds(),
		float64(m.latency)/float64(time.Millisecond), m.rate, float64(m.first)/float64(time.Millisecond),
		m.restart.Seconds())
}

// working is the number of agents at work, except where each tree is of another
// agent.
const working = 10

// rateRounds is the number of rounds of which the rate is the median. One round
// takes two seconds, and the rates of rounds of one fleet differ by a third.
const rateRounds = 5

// measure takes the figures of a fleet. A median is that of the given number of
// trees, and a round of the rate has five times as many. The figure of first
// calls comes after latency and rate, since the workers then pull for many more
// agents for a while.
func (f *agentFleet) measure(t *testing.T, trees int) (m figures) {
	t.Helper()
	ctx := t.Context()
	f.leaf(ctx, t, "start", f.agents-1)
	m.start = time.Since(f.began)
	atWork := f.agents / working
	m.latency = f.median(ctx, t, "one", trees, atWork)
	var rates []float64
	for round := range rateRounds {
		begin := time.Now()
		f.together(ctx, t, fmt.Sprintf("many%d-", round), 5*trees, atWork)
		rates = append(rates, float64(5*trees)/time.Since(begin).Seconds())
	}
	slices.Sort(rates)
	m.rate = rates[len(rates)/2]
	m.first = f.median(ctx, t, "first", trees, 37)
	node := f.servers.nodes[0]
	node.proc.kill()
	begin := time.Now()
	if err := f.servers.up(ctx, node); err != nil {
		t.Fatal(err)
	}
	f.leaf(ctx, t, "again", f.agents/2)
	m.restart = time.Since(begin)
	f.together(ctx, t, "after", trees, 41)
	return m
}

// median runs trees one after the other and returns the median of their times.
// Tree i is a leaf of the agent further*i.
func (f *agentFleet) median(ctx context.Context, t *testing.T, label string, trees, further int) time.Duration {
	t.Helper()
	var took []time.Duration
	for i := range trees {
		took = append(took, f.leaf(ctx, t, fmt.Sprintf("%s%d", label, i), further*i))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// together runs trees, at most 64 at once. Tree i is a leaf of the agent
// further*i.
func (f *agentFleet) together(ctx context.Context, t *testing.T, label string, trees, further int) {
	t.Helper()
	room := make(chan struct{}, 64)
	var all sync.WaitGroup
	for i := range trees {
		room <- struct{}{}
		all.Go(func() {
			f.leaf(ctx, t, fmt.Sprintf("%s%d", label, i), further*i)
			<-room
		})
	}
	all.Wait()
}

// agentsAtWork compares three workers with 10,000 agents, ten of them at work,
// and three workers with ten agents: their start, the latency and the rate of
// leaves, and the time from the death of the server to the next leaf.
func agentsAtWork(t *testing.T, bin string, trees int) {
	t.Helper()
	if trees == 0 {
		t.Skip("not in a short run: make chaos CHAOS=agents")
	}
	few := startAgents(t, bin, 10).measure(t, trees)
	fleet := startAgents(t, bin, manyAgents)
	many := fleet.measure(t, trees)
	t.Logf("agents   start    latency    rate  first call  restart\n    10  %s\n%6d  %s", few, manyAgents, many)
	for _, bar := range []struct {
		name      string
		got, most float64
	}{
		{"seconds to start", many.start.Seconds(), 10},
		{"latency, of that with ten agents", float64(many.latency) / float64(few.latency), 1.5},
		{"time of a leaf at full load, of that with ten agents", few.rate / many.rate, 1 / 0.8},
		{"seconds from the server's death to the next leaf", many.restart.Seconds(), 5},
	} {
		if bar.got > bar.most {
			t.Errorf("%s: %.2f, want at most %.2f", bar.name, bar.got, bar.most)
		}
	}
	if err := fleet.awaitQuiet(t.Context()); err != nil {
		t.Error(err)
	}
	fleet.verify(t)
}
