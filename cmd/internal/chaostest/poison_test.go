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
	"github.com/axebus/axe/subjects"
)

// team is how many agents a lead of this scenario calls.
const team = 4

// deadly is a model that kills whoever asks it for the agent bad, and answers
// soon for the agent good. A lead calls those that its task names.
type deadly struct {
	mu sync.Mutex
	// by worker, of those that may be killed
	berths map[string]*berth
	kills  atomic.Int64
}

// ServeHTTP implements http.Handler.
func (d *deadly) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := readQuestion(r)
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
		message["tool_calls"] = slices.Repeat([]any{c}, team)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"message": message, "done": true, "done_reason": "stop", "prompt_eval_count": 1, "eval_count": 1,
	})
}

// kill ends a worker and puts another one in its place.
func (d *deadly) kill(worker string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.berths[worker]
	if b == nil {
		return // it is dead already
	}
	delete(d.berths, worker)
	d.kills.Add(1)
	p := b.worker()
	p.kill()
	_ = b.fill(p)
	d.berths[b.worker().name] = b
}

// ward is where the agent bad has workers of its own, beside those of the
// agents lead and good.
type ward struct {
	*stage
	conn   *bus.Conn
	client *client.Client
	model  *deadly
}

func newWard(t *testing.T, bin string, ackWait time.Duration) *ward {
	t.Helper()
	store := t.TempDir() // removed when all processes have ended
	log := newJournal(t)
	g := newGroup(t, log)
	w := &ward{stage: &stage{bin: bin, log: log}, model: &deadly{berths: map[string]*berth{}}}
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
			file:    filepath.Join(bin, "agentd"),
			agents:  dir,
			model:   web.URL,
			nodes:   1,
			parts:   1,
			ackWait: ackWait,
		}
		c := newCrew(t, g, a, w.servers, 0)
		for j, b := range c.berths[:2] {
			b.number = 10*i + j // names that differ
			if err := b.fill(nil); err != nil {
				t.Fatal(err)
			}
			if agents[0] == "bad" {
				w.model.berths[b.worker().name] = b
			}
		}
	}
	w.conn = w.connect(t)
	w.client = client.New(w.conn)
	return w
}

// announced waits until all agents are known.
func (w *ward) announced(ctx context.Context) error {
	for _, agent := range []string{"lead", "good", "bad"} {
		for known := false; !known; {
			// the bucket comes after the streams
			if dir, err := w.conn.Directory(ctx); err == nil {
				_, _, known, _ = dir.Get(ctx, agent)
			}
			if err := bus.Pause(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// lead has n calls of an agent made, by leads of which so many are at work at a
// time, and returns how long each lead took. The keys of their trees begin with
// key.
func (w *ward) lead(ctx context.Context, agent, key string, n, atOnce int) (took []time.Duration, _ error) {
	lead, err := subjects.ParseAgent("lead")
	if err != nil {
		return nil, err
	}
	took = make([]time.Duration, n/team)
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
			if err == nil && (o.Status != run.StatusCompleted || o.ToolCalls != team) {
				err = fmt.Errorf("lead %s: %s %q after %d calls", id, o.Status, o.Error, o.ToolCalls)
			}
			return err
		})
	}
	return took, g.Wait()
}

// p99 is what all but a hundredth took at most.
func p99(took []time.Duration) time.Duration {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)*99/100]
}

// ended are the outcomes of an agent's calls in trees whose keys begin with
// key, and how long each call took, from the moment when it was stored until
// its outcome was.
func (r *record) ended(agent, key string) (outcomes []kept, took []time.Duration) {
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

// poison has n calls that kill their workers beside n that do not, and more of
// these for as long as the former last: each of the former ends as a dead
// letter and is told to its caller, the latter are hardly slower than alone.
func poison(t *testing.T, bin string, n int, ackWait time.Duration) {
	t.Helper()
	w := newWard(t, bin, ackWait)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	if err := w.announced(ctx); err != nil {
		t.Fatal(err)
	}
	const atOnce = 3
	if _, err := w.lead(ctx, "good", "warm", team*atOnce, atOnce); err != nil {
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
			t.Error(err)
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
			"of %d each: %d outcomes, %d poisoned, %d letters; of the healthy %d alone, %d beside",
			n,
			len(outcomes),
			poisoned,
			len(letters),
			len(alone),
			len(beside),
		)
	}
	if err := w.settle(ctx); err != nil {
		t.Error(err)
	}
	w.verify(t)
}
