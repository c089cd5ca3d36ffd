package chaostest

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// rollout is a fleet of three workers. The oldest worker is drained again and
// again, while another one takes its place. The grace of a drain is shorter
// than any model call. At the end the fleet is left alone.
type rollout struct {
	*harness
	trees int
	// latency is the average time of a model call. The shortest call takes
	// half of it, which in a long run is longer than a worker lives.
	latency time.Duration
	// every is the time between two drains.
	every  time.Duration
	grace  time.Duration
	drains int

	worker agentd
	fleet  []*process // oldest first
	began  int        // workers so far
}

// sizedRollout returns the size of the scenario. Without a number of trees it
// is that of a short run.
func sizedRollout(trees int) rollout {
	if trees == 0 {
		return rollout{
			trees: 12, latency: 2 * time.Second,
			every: 400 * time.Millisecond, grace: 100 * time.Millisecond, drains: 6,
		}
	}
	return rollout{trees: trees, latency: 30 * time.Second, every: 2 * time.Second, grace: time.Second, drains: 60}
}

// fleetSize is the number of workers.
const fleetSize = 3

// start starts the server and the workers.
func (r *rollout) start(t *testing.T, bin string) {
	t.Helper()
	store, agents := t.TempDir(), t.TempDir()
	toml := "name = \"lead\"\nmodel = \"ollama/slow\"\n"
	if err := os.WriteFile(filepath.Join(agents, "lead.toml"), []byte(toml), 0o600); err != nil {
		t.Fatal(err)
	}
	r.harness, r.worker = newFleet(t, bin, store, r.latency)
	r.worker.agents = agents
	if err := r.servers.up(t.Context(), r.servers.nodes[0]); err != nil {
		t.Fatal(err)
	}
	for range fleetSize {
		if err := r.join(); err != nil {
			t.Fatal(err)
		}
	}
}

// join starts the next worker, and waits until it handles signals.
func (r *rollout) join() error {
	r.began++
	name := fmt.Sprintf("w%d", r.began)
	cmd := r.worker.named(name, "--server", r.servers.urls(), "--grace", r.grace.String())
	// Any worker can take all trees.
	cmd.Args = append(cmd.Args, "--slots", strconv.Itoa(r.trees))
	p, err := r.servers.group.start(name, cmd)
	if err != nil {
		return err
	}
	r.fleet = append(r.fleet, p)
	select {
	case <-p.spoke:
	case <-p.ended:
	}
	return nil
}

// roll replaces the oldest worker again and again. A drain may last longer than
// the time between two drains.
func (r *rollout) roll(ctx context.Context) error {
	var leaving errgroup.Group
	for range r.drains {
		began := time.Now()
		if err := r.join(); err != nil {
			return err
		}
		oldest := r.fleet[0]
		r.fleet = r.fleet[1:]
		leaving.Go(func() error {
			defer r.hits.begin(drainWorker, oldest.name)()
			return oldest.drain(time.Minute)
		})
		if err := pause.For(ctx, time.Until(began.Add(r.every))); err != nil {
			return err
		}
	}
	return leaving.Wait()
}

// perform lets all trees complete while the fleet rolls, and compares the
// requests to the model with those that the drains have aborted.
func (r *rollout) perform(t *testing.T, bin string) {
	t.Helper()
	r.start(t, bin)
	conn := r.connect(t)
	lead, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	l := &load{h: r.harness, client: client.New(conn), lead: lead}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	begin := time.Now()
	wrong := make([]string, r.trees)
	var all sync.WaitGroup
	for i := range r.trees {
		all.Go(func() { wrong[i] = r.tree(ctx, l, treeLabel(i)) })
	}
	for r.model.count() < r.trees {
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.roll(ctx); err != nil {
		t.Error(err)
	}
	all.Wait()
	wrong = slices.DeleteFunc(wrong, func(why string) bool { return why == "" })
	asked, aborted := r.model.count(), r.model.aborted()
	wasted := r.wasted(ctx, t)
	t.Logf("%d trees | drain %d | took %.1fs", r.trees, r.hits.count(drainWorker), time.Since(begin).Seconds())
	t.Logf("model asked %d, minimum %d, extra %d, in flight at drains %d, wasted by axe verify %d",
		asked, r.trees, asked-r.trees, aborted, wasted)
	t.Logf("lost or wrong %d", len(wrong))
	if len(wrong) > 0 {
		t.Errorf("%d of %d trees are wrong:\n%s", len(wrong), r.trees, strings.Join(wrong[:min(5, len(wrong))], "\n"))
	}
	if asked > r.trees+aborted {
		const text = "the model was asked %d times, want at most once for each of %d trees and %d requests at drains"
		t.Errorf(text, asked, r.trees, aborted)
	}
	if wasted < aborted {
		t.Errorf("axe verify counts %d wasted requests, want at least the %d that drains have aborted", wasted, aborted)
	}
	if err := r.awaitQuiet(ctx); err != nil {
		t.Error(err)
	}
	r.verify(t)
}

// tree submits a tree and waits for its outcome. It returns what is wrong with
// it, or "".
func (r *rollout) tree(ctx context.Context, l *load, label string) string {
	err := l.retry(ctx, func(ctx context.Context) error { return l.submit(ctx, label) })
	if err != nil {
		return fmt.Sprintf("%s: %v", label, err)
	}
	o, err := l.client.Wait(ctx, client.TreeID(label))
	if err != nil || o.Status != run.StatusCompleted || o.Result != label+"()" {
		return fmt.Sprintf("%s: got %s %s %s%s, error %v, want completed %s()",
			label, o.Status, o.Kind, o.Result, o.Error, err, label)
	}
	return ""
}

// wasted returns the number of wasted requests that axe verify reports.
func (r *rollout) wasted(ctx context.Context, t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(ctx, filepath.Join(r.bin, "axe"), "verify", "--all", "-o", "json",
		"--server", r.servers.urls())
	out, err := cmd.Output()
	var report struct {
		Wasted int `json:"wasted_requests"`
	}
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	if err != nil {
		t.Errorf("axe verify: %v", err)
	}
	return report.Wasted
}

// aborted returns the number of requests that the model has not answered.
func (m *model) aborted() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, asks := range m.asks {
		for _, a := range asks {
			if a.end.IsZero() {
				n++
			}
		}
	}
	return n
}
