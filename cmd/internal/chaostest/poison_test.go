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

	"github.com/axebus/axe/agentd/client"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// deadly is a model that kills whoever asks it for the agent bad, and answers at once for any other.
type deadly struct {
	mu     sync.Mutex
	berths map[string]*berth // by worker, of those that may be killed
	kills  atomic.Int64
}

// ServeHTTP implements http.Handler.
func (d *deadly) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := readQuestion(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if q.sub == "bad" {
		worker, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		d.kill(worker)
		return
	}
	time.Sleep(50 * time.Millisecond)
	_ = json.NewEncoder(w).Encode(map[string]any{
		"message": map[string]any{"role": "assistant", "content": q.label}, "done": true, "done_reason": "stop", "prompt_eval_count": 1, "eval_count": 1,
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

// ward is where agents good and bad are served, each by workers of its own.
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
	for _, name := range []string{"good", "bad"} {
		dir := t.TempDir()
		toml := fmt.Sprintf("name = %q\nmodel = \"ollama/deadly\"\nsystem_prompt = %q\n", name, name)
		if err := os.WriteFile(filepath.Join(dir, name+".toml"), []byte(toml), 0o600); err != nil {
			t.Fatal(err)
		}
		a := agentd{file: filepath.Join(bin, "agentd"), agents: dir, model: web.URL, nodes: 1, ackWait: ackWait}
		c := newCrew(t, g, a, w.servers, 0)
		for i, b := range c.berths[:2] {
			b.number = len(name)*10 + i // names that differ
			if err := b.fill(nil); err != nil {
				t.Fatal(err)
			}
			if name == "bad" {
				w.model.berths[b.worker().name] = b
			}
		}
	}
	w.conn = w.connect(t)
	w.client = client.New(w.conn)
	return w
}

// announced waits until both agents are known.
func (w *ward) announced(ctx context.Context) error {
	for _, agent := range []string{"good", "bad"} {
		for known := false; !known; {
			if dir, err := w.conn.Directory(ctx); err == nil { // the bucket comes after the streams
				_, _, known, _ = dir.Get(ctx, agent)
			}
			if err := bus.Pause(ctx, 50*time.Millisecond); err != nil {
				return err
			}
		}
	}
	return nil
}

// all submits n tasks, so many at a time, and returns how long each took and its outcome.
func (w *ward) all(ctx context.Context, agent, key string, n, atOnce int) (took []time.Duration, outcomes []run.Outcome, _ error) {
	a, err := subjects.ParseAgent(agent)
	if err != nil {
		return nil, nil, err
	}
	took, outcomes = make([]time.Duration, n), make([]run.Outcome, n)
	errs := make(chan error, n)
	room := make(chan struct{}, atOnce)
	for i := range n {
		room <- struct{}{}
		go func() { // waited for by errs
			defer func() { <-room }()
			begin := time.Now()
			id := client.Key(fmt.Sprintf("%s%d", key, i))
			_, err := w.client.Submit(ctx, client.Task{Agent: a, ID: id, Text: "T"})
			if err == nil {
				outcomes[i], err = w.client.Wait(ctx, id)
			}
			took[i] = time.Since(begin)
			errs <- err
		}()
	}
	for range n {
		if e := <-errs; e != nil {
			err = e
		}
	}
	return took, outcomes, err
}

// p99 is what all but a hundredth took at most.
func p99(took []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)*99/100]
}

// poison has n calls that kill their workers beside n that do not: the former end as dead letters and are told to
// their callers, the latter are hardly slower than alone.
func poison(t *testing.T, bin string, n int, ackWait time.Duration) {
	t.Helper()
	w := newWard(t, bin, ackWait)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	if err := w.announced(ctx); err != nil {
		t.Fatal(err)
	}
	alone, _, err := w.all(ctx, "good", "alone", n, 10)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	bad := make(chan []run.Outcome, 1)
	var ended atomic.Bool
	go func() { // waited for below
		_, outcomes, err := w.all(ctx, "bad", "bad", n, n)
		if err != nil {
			t.Error(err)
		}
		ended.Store(true)
		bad <- outcomes
	}()
	var beside []time.Duration
	healthy := 0
	for round := 0; round == 0 || !ended.Load(); round++ { // as long as it takes, and once at least
		took, outcomes, err := w.all(ctx, "good", fmt.Sprintf("beside%dx", round), n, 10)
		if err != nil {
			t.Fatal(err)
		}
		beside = append(beside, took...)
		for _, o := range outcomes {
			if o.Status == run.StatusCompleted {
				healthy++
			}
		}
	}
	poisoned := 0
	for _, o := range <-bad {
		if o.Kind == run.KindPoisoned {
			poisoned++
		}
	}
	letters, err := w.client.Dead(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d poisoned calls: %d outcomes, %d dead letters, %d kills in %.1fs | healthy beside them: %d of %d, p99 %v, alone %v: %.2f times",
		n, poisoned, len(letters), w.model.kills.Load(), time.Since(begin).Seconds(), healthy, len(beside), p99(beside), p99(alone), float64(p99(beside))/float64(p99(alone)))
	if poisoned != n || len(letters) != n || healthy != len(beside) {
		t.Errorf("%d of %d poisoned, %d letters, %d of %d healthy", poisoned, n, len(letters), healthy, len(beside))
	}
	if err := w.settle(ctx); err != nil {
		t.Error(err)
	}
	w.verify(t)
}
