package ratelimit_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd/ratelimit"
	"github.com/axebus/axe/provider"
)

// world is a provider's key and the workers that use it, without a bus between:
// each step is applied to the state that is there, now and then twice, as when
// an acknowledgement is lost.
type world struct {
	cfg     ratelimit.Settings
	now     time.Time
	stored  []byte
	workers []*worker

	windows  map[time.Time]int // requests that have begun in each
	reliable bool              // no acknowledgement is lost any more
}

// worker is what one of them has in flight. A dead one says nothing any more.
type worker struct {
	name    string
	held    int
	probing bool
	dead    bool
}

// TestSimLimit: whatever workers do, fail to do and are answered, the limits
// hold for those that live.
func TestSimLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{now: time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC), windows: map[time.Time]int{}}
		w.cfg = ratelimit.Settings{
			Concurrent: rapid.IntRange(
				0,
				4,
			).Draw(
				t,
				"concurrent",
			), Requests: rapid.IntRange(0, 10).Draw(t, "requests"),
			Tokens: rapid.SampledFrom([]int{0, 50}).Draw(t, "tokens"), RetryAfter: true,
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "workers") {
			w.workers = append(w.workers, &worker{name: fmt.Sprintf("w%d", i)})
		}
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			w.step(t)
		}
		w.recovers(t)
	})
}

func (w *world) step(t *rapid.T) {
	who := rapid.SampledFrom(w.workers).Draw(t, "who")
	switch what := rapid.IntRange(0, 9).Draw(t, "what"); {
	case what == 0:
		w.pass(t, time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "pause")))
	case what == 1:
		w.pass(t, time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "long pause")))
	case who.dead:
	case what == 2 && len(w.workers) > 1:
		who.dead = true
	case what < 6 && who.held > 0:
		w.apply(t, who, 0, w.result(t, who))
	default:
		w.apply(t, who, rapid.IntRange(0, 5).Draw(t, "want"))
	}
}

// pass lets time go by; who lives renews its lease in time.
func (w *world) pass(t *rapid.T, d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(min(8*time.Second, end.Sub(w.now)))
		for _, who := range w.workers {
			if !who.dead && who.held > 0 {
				w.apply(t, who, 0)
			}
		}
	}
}

// result ends one of a worker's requests. Which of them it is, only matters for
// the probe.
func (w *world) result(t *rapid.T, who *worker) ratelimit.Result {
	outcomes := []error{
		nil, nil, &provider.Error{Category: provider.RateLimit, RetryAfter: 5 * time.Second}, &provider.Error{Category: provider.RateLimit},
		&provider.Error{Category: provider.Server}, &provider.Error{Category: provider.BadRequest},
	}
	err := rapid.SampledFrom(outcomes).Draw(t, "err")
	probe := who.probing && (who.held == 1 || rapid.Bool().Draw(t, "probe"))
	r := ratelimit.ResultOf(
		&provider.Response{Usage: provider.Usage{InputTokens: 7, OutputTokens: 2}},
		err,
		probe,
		w.now,
	)
	who.held--
	who.probing = who.probing && !probe
	return r
}

// apply makes a step, and checks what it allows.
func (w *world) apply(t *rapid.T, who *worker, want int, ended ...ratelimit.Result) {
	st := ratelimit.Update{Worker: who.name, Held: who.held, Probing: who.probing, Want: want, Ended: ended}
	before := ratelimit.Decode(w.stored)
	next, d := before.Apply(w.cfg, st, w.now)
	if diff := cmp.Diff(ratelimit.Decode(w.stored), before); diff != "" {
		t.Fatalf("the state that a step was applied to has changed:\n%s", diff)
	}
	if !w.reliable && rapid.IntRange(0, 9).Draw(t, "lost") == 9 {
		again, twice := next.Apply(w.cfg, st, w.now)
		if diff := cmp.Diff(next.Holders, again.Holders); diff != "" && d.Granted == twice.Granted {
			t.Fatalf("a step made twice:\n%s", diff)
		}
		next, d = again, twice
	}
	stored, err := json.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	w.stored = stored
	who.held += d.Granted
	who.probing = who.probing || d.Probe
	w.windows[next.Window] += d.Granted
	w.check(t, next, d)
}

// check holds a decision to the promises.
func (w *world) check(t *rapid.T, s ratelimit.State, d ratelimit.Decision) {
	held, probes := 0, 0
	for _, who := range w.workers {
		if who.dead {
			continue
		}
		held += who.held
		if who.probing {
			probes++
		}
	}
	switch {
	case w.cfg.Concurrent > 0 && d.Granted > 0 && held > w.cfg.Concurrent:
		t.Fatalf("%d requests in flight", held)
	case w.cfg.Requests > 0 && w.windows[s.Window] > w.cfg.Requests:
		t.Fatalf("%d requests in a window", w.windows[s.Window])
	case probes > 1:
		t.Fatalf("%d probes", probes)
	case d.Granted > 0 && w.now.Before(s.ClosedUntil):
		t.Fatalf("%d go while the gate is closed", d.Granted)
	case d.Granted > 0 && !s.ClosedUntil.IsZero() && (d.Granted > 1 || !d.Probe):
		t.Fatalf("%d go before the probe is back", d.Granted)
	}
}

// recovers: when all that live have done with their requests, and the provider
// with its moods, one that wants to go can, within a window at most.
func (w *world) recovers(t *rapid.T) {
	w.reliable = true
	var last *worker
	for _, who := range w.workers {
		for !who.dead && who.held > 0 {
			r := ratelimit.Result{Probe: who.probing, Passed: true}
			who.held, who.probing = who.held-1, false
			w.apply(t, who, 0, r)
		}
		if !who.dead {
			last = who
		}
	}
	if last == nil {
		return
	}
	for end := w.now.Add(2 * time.Minute); last.held == 0; w.now = w.now.Add(time.Second) {
		if w.now.After(end) {
			t.Fatalf("nothing goes any more: %s", w.stored)
		}
		w.apply(t, last, 1)
	}
}
