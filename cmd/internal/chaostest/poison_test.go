package chaostest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// teamSize is the number of agents that a lead of this scenario calls.
const teamSize = 4

// killingModel is a model that kills each worker that asks it for the agent
// bad, and answers for the agent good after 50 ms. A lead calls the agent that
// its task names, teamSize times.
type killingModel struct {
	mu sync.Mutex
	// places has the places of the workers that may be killed, by the
	// worker's name.
	places map[string]*place
	kills  atomic.Int64
}

// ServeHTTP implements http.Handler.
func (d *killingModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := parseRequest(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	message := map[string]any{"role": "assistant", "content": q.label}
	switch {
	case q.sub == "bad":
		worker, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		d.kill(worker)
		return
	case q.sub == "good":
		time.Sleep(50 * time.Millisecond)
	case len(q.results) == 0:
		c := map[string]any{
			"function": map[string]any{
				"name":      "call_agent",
				"arguments": map[string]string{"agent": q.label, "task": q.label},
			},
		}
		message["tool_calls"] = slices.Repeat([]any{c}, teamSize)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"message": message, "done": true, "done_reason": "stop", "prompt_eval_count": 1, "eval_count": 1,
	})
}

// kill ends a worker and starts another one in its place.
func (d *killingModel) kill(worker string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.places[worker]
	if b == nil {
		return // killed before
	}
	delete(d.places, worker)
	d.kills.Add(1)
	p := b.worker()
	p.kill()
	_ = b.fill(p)
	d.places[b.worker().name] = b
}

// poisonTest is the set-up of the scenario: the agent bad has workers of its
// own, beside the workers of the agents lead and good.
type poisonTest struct {
	*harness
	conn   *bus.Conn
	client *client.Client
	model  *killingModel
}

// newPoisonTest starts a server, two workers of lead and good, and two of bad.
func newPoisonTest(t *testing.T, bin string, ackWait time.Duration) *poisonTest {
	t.Helper()
	store := t.TempDir() // removed after all processes
	log := newJournal(t)
	g := newGroup(t, log)
	w := &poisonTest{harness: &harness{bin: bin, log: log}, model: &killingModel{places: map[string]*place{}}}
	web := httptest.NewServer(w.model)
	t.Cleanup(web.Close)
	w.servers = newServers(t, g, 1, store)
	if err := w.servers.up(t.Context(), w.servers.nodes[0]); err != nil {
		t.Fatal(err)
	}
	for i, agents := range [][]string{{"lead", "good"}, {"bad"}} {
		dir := t.TempDir()
		for _, name := range agents {
			toml := fmt.Sprintf("name = %q\nmodel = \"ollama/deadly\"\nsystem_prompt = %q\n", name, name)
			if name == "lead" {
				toml += "sub_agents = ['good', 'bad']\n"
			}
			if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(toml), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a := agentd{
			file:       filepath.Join(bin, "agentd"),
			agents:     dir,
			model:      web.URL,
			nodes:      1,
			partitions: 1,
			ackWait:    ackWait,
		}
		c := a.newPool(t, g, w.servers, 0)
		for j, b := range c.places[:2] {
			b.number = 10*i + j // different names
			if err := b.fill(nil); err != nil {
				t.Fatal(err)
			}
			if agents[0] == "bad" {
				w.model.places[b.worker().name] = b
			}
		}
	}
	w.conn = w.connect(t)
	w.client = client.New(w.conn)
	return w
}

// announced waits until all agents are in the directory.
func (w *poisonTest) announced(ctx context.Context) error {
	for _, agent := range []string{"lead", "good", "bad"} {
		for known := false; !known; {
			// Workers make the bucket after the streams.
			if dir, err := w.conn.Directory(ctx); err == nil {
				_, _, known, _ = dir.Get(ctx, agent)
			}
			if err := pause.For(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// lead makes n calls of an agent through leads, of which atOnce run at a time.
// It returns the duration of each lead. The keys of the trees begin with key.
func (w *poisonTest) lead(ctx context.Context, agent, key string, n, atOnce int) (took []time.Duration, _ error) {
	lead, err := subjects.ParseAgent("lead")
	if err != nil {
		return nil, err
	}
	took = make([]time.Duration, n/teamSize)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range took {
		g.Go(func() error {
			begin := time.Now()
			id := client.TreeID(fmt.Sprintf("%s%d", key, i))
			_, err := w.client.Submit(ctx, client.Task{Agent: lead, ID: id, Text: agent})
			if err != nil {
				return err
			}
			o, err := w.client.Wait(ctx, id)
			took[i] = time.Since(begin)
			if err == nil && (o.Status != run.StatusCompleted || o.ToolCalls != teamSize) {
				err = fmt.Errorf("lead %s: %s %q after %d calls", id, o.Status, o.Error, o.ToolCalls)
			}
			return err
		})
	}
	return took, g.Wait()
}

// p99 returns the 99th percentile of durations, or 0 without any.
func p99(took []time.Duration) time.Duration {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)*99/100]
}

// ended returns the outcomes of an agent's calls in trees with keys that begin
// with key. took has the time from the storing of each call to its outcome.
func (r *record) ended(agent, key string) (outcomes []storedTurn, took []time.Duration) {
	for at, c := range r.calls {
		if at.Agent.String() != agent || !strings.HasPrefix(at.Tree.String(), key) {
			continue
		}
		for _, k := range r.outcomes[c.reply] {
			outcomes = append(outcomes, k)
			took = append(took, k.at.Sub(c.at))
		}
	}
	return outcomes, took
}

// poison makes n calls that kill their workers and, beside them, n calls that
// do not. As long as the killing calls last, it makes more of the others. Each
// killing call ends as poisoned, with a dead letter, and its caller completes.
// The output has the times of the other calls, alone and beside the killing
// calls.
func poison(t *testing.T, bin string, n int, ackWait time.Duration) {
	t.Helper()
	w := newPoisonTest(t, bin, ackWait)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	if err := w.announced(ctx); err != nil {
		t.Fatal(err)
	}
	const atOnce = 3
	if _, err := w.lead(ctx, "good", "warm", teamSize*atOnce, atOnce); err != nil {
		t.Fatal(err)
	}
	treesAlone, err := w.lead(ctx, "good", "alone", n, atOnce)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	var ended atomic.Bool
	var bad sync.WaitGroup
	bad.Go(func() {
		defer ended.Store(true)
		if _, err := w.lead(ctx, "bad", "bad", n, n); err != nil {
			t.Errorf("trees with calls that kill their workers: %v", err)
		}
	})
	var treesBeside []time.Duration
	for round := 0; round == 0 || !ended.Load(); round++ {
		took, err := w.lead(ctx, "good", fmt.Sprintf("beside%dx", round), n, atOnce)
		if err != nil {
			t.Fatal(err)
		}
		treesBeside = append(treesBeside, took...)
	}
	bad.Wait()
	lasted := time.Since(begin)
	r, err := readRecord(ctx, w.conn)
	if err != nil {
		t.Fatal(err)
	}
	letters, err := w.client.DeadLetters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	outcomes, _ := r.ended("bad", "bad")
	poisoned := 0
	for _, k := range outcomes {
		if k.kind == run.KindPoisoned {
			poisoned++
		}
	}
	_, alone := r.ended("good", "alone")
	_, beside := r.ended("good", "beside")
	t.Logf(
		"%d poisoned calls: %d outcomes, %d of them poisoned, %d dead letters, %d kills in %.1fs",
		n,
		len(outcomes),
		poisoned,
		len(letters),
		w.model.kills.Load(),
		lasted.Seconds(),
	)
	compare := func(what string, beside, alone []time.Duration) {
		t.Logf(
			"%d healthy %s beside them: p99 %v, alone %v: %.2f times",
			len(beside),
			what,
			p99(beside),
			p99(alone),
			float64(p99(beside))/float64(p99(alone)),
		)
	}
	compare("calls", beside, alone)
	compare("trees of their submitters", treesBeside, treesAlone)
	if len(outcomes) != n || poisoned != n || len(letters) != n || len(alone) != n || len(beside) < n {
		t.Errorf(
			"want %d of each: got %d outcomes, %d poisoned, %d dead letters; of the healthy %d alone, %d beside",
			n,
			len(outcomes),
			poisoned,
			len(letters),
			len(alone),
			len(beside),
		)
	}
	if err := w.awaitQuiet(ctx); err != nil {
		t.Error(err)
	}
	w.verify(t)
}
