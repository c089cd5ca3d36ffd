package ratelimit_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/axebus/axe/internal/ratelimit"
	"github.com/axebus/axe/provider"
)

// world is one provider account and its workers, without a bus. Each update is
// applied to the stored state. Some are applied twice, as after a lost
// acknowledgement.
type world struct {
	cfg     ratelimit.Settings
	now     time.Time
	stored  []byte
	workers []*worker

	// windows has the number of requests that began in each window.
	windows map[time.Time]int
	// reliable says that no acknowledgement is lost any more.
	reliable bool
}

// worker is one worker. A dead worker makes no more updates.
type worker struct {
	name    string
	held    int  // requests in flight
	probing bool // one of them is the probe
	dead    bool
}

// TestSimLimit walks at random: workers make requests, get answers, lose
// acknowledgements and die. The limits hold for the living workers. At the end
// a request can begin again.
func TestSimLimit(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{now: time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC), windows: map[time.Time]int{}}
		w.cfg = ratelimit.Settings{
			Concurrent: rapid.IntRange(0, 4).Draw(t, "concurrent"),
			Requests:   rapid.IntRange(0, 10).Draw(t, "requests"),
			Tokens:     rapid.SampledFrom([]int{0, 50}).Draw(t, "tokens"),
			RetryAfter: true,
		}
		for i := range rapid.IntRange(1, 4).Draw(t, "workers") {
			w.workers = append(w.workers, &worker{name: fmt.Sprintf("w%d", i)})
		}
		for range rapid.IntRange(0, 80).Draw(t, "moves") {
			w.move(t)
		}
		w.recovers(t)
	})
}

// move lets time pass, lets a worker die, ends a request, or asks for up to
// five more.
func (w *world) move(t *rapid.T) {
	one := rapid.SampledFrom(w.workers).Draw(t, "worker")
	switch action := rapid.IntRange(0, 9).Draw(t, "action"); {
	case action == 0:
		w.pass(t, time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "pause")))
	case action == 1:
		w.pass(t, time.Duration(rapid.Int64Range(0, int64(2*time.Minute)).Draw(t, "long pause")))
	case one.dead:
	case action == 2 && len(w.workers) > 1:
		one.dead = true
	case action < 6 && one.held > 0:
		w.apply(t, one, 0, w.result(t, one))
	default:
		w.apply(t, one, rapid.IntRange(0, 5).Draw(t, "want"))
	}
}

// pass lets a time pass. Living workers renew their leases every 8 seconds.
func (w *world) pass(t *rapid.T, d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.now = w.now.Add(min(8*time.Second, end.Sub(w.now)))
		for _, one := range w.workers {
			if !one.dead && one.held > 0 {
				w.apply(t, one, 0)
			}
		}
	}
}

// result ends one of a worker's requests, which may be the probe. It returns
// the result for the next update.
func (w *world) result(t *rapid.T, one *worker) ratelimit.Result {
	outcomes := []error{
		nil,
		nil,
		&provider.Error{Category: provider.RateLimit, RetryAfter: 5 * time.Second},
		&provider.Error{Category: provider.RateLimit},
		&provider.Error{Category: provider.Server},
		&provider.Error{Category: provider.BadRequest},
	}
	err := rapid.SampledFrom(outcomes).Draw(t, "err")
	probe := one.probing && (one.held == 1 || rapid.Bool().Draw(t, "probe"))
	resp := &provider.Response{Usage: provider.Usage{InputTokens: 7, OutputTokens: 2}}
	r := ratelimit.ResultOf(resp, err, probe, w.now)
	one.held--
	one.probing = one.probing && !probe
	return r
}

// apply makes an update of a worker that wants more requests, and checks the
// decision. Some updates are applied twice.
func (w *world) apply(t *rapid.T, one *worker, want int, ended ...ratelimit.Result) {
	u := ratelimit.Update{Worker: one.name, Held: one.held, Probing: one.probing, Want: want, Ended: ended}
	before := ratelimit.Decode(w.stored)
	next, d := before.Apply(w.cfg, u, w.now)
	if diff := cmp.Diff(ratelimit.Decode(w.stored), before); diff != "" {
		t.Fatalf("Apply changed the state that it was given (-before +after):\n%s", diff)
	}
	if !w.reliable && rapid.IntRange(0, 9).Draw(t, "lost") == 9 {
		again, twice := next.Apply(w.cfg, u, w.now)
		if diff := cmp.Diff(next.Holders, again.Holders); diff != "" && d.Granted == twice.Granted {
			t.Fatalf("the same update again has changed the holders (-once +twice):\n%s", diff)
		}
		next, d = again, twice
	}
	stored, err := json.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	w.stored = stored
	one.held += d.Granted
	one.probing = one.probing || d.Probe
	w.windows[next.Window] += d.Granted
	w.check(t, next, d)
}

// check checks that a decision keeps the limits, and that a closed account
// opens with one probe.
func (w *world) check(t *rapid.T, s ratelimit.State, d ratelimit.Decision) {
	held, probes := 0, 0
	for _, one := range w.workers {
		if one.dead {
			continue
		}
		held += one.held
		if one.probing {
			probes++
		}
	}
	switch {
	case w.cfg.Concurrent > 0 && d.Granted > 0 && held > w.cfg.Concurrent:
		t.Fatalf("%d requests are in flight, want at most %d", held, w.cfg.Concurrent)
	case w.cfg.Requests > 0 && w.windows[s.Window] > w.cfg.Requests:
		t.Fatalf("%d requests began in a window, want at most %d", w.windows[s.Window], w.cfg.Requests)
	case w.cfg.Tokens > 0 && d.Granted > 0 && s.Tokens >= w.cfg.Tokens:
		t.Fatalf("%d requests may begin after %d tokens in a window, want none after %d",
			d.Granted, s.Tokens, w.cfg.Tokens)
	case probes > 1:
		t.Fatalf("%d probes are in flight, want at most 1", probes)
	case d.Granted > 0 && w.now.Before(s.ClosedUntil):
		t.Fatalf("%d requests may begin while the account is closed", d.Granted)
	case d.Granted > 0 && !s.ClosedUntil.IsZero() && (d.Granted > 1 || !d.Probe):
		t.Fatalf("%d requests may begin before the probe has ended", d.Granted)
	}
}

// recovers ends the requests of all living workers with success. It checks that
// another request can begin within two minutes.
func (w *world) recovers(t *rapid.T) {
	w.reliable = true
	var last *worker
	for _, one := range w.workers {
		for !one.dead && one.held > 0 {
			r := ratelimit.Result{Probe: one.probing, Passed: true}
			one.held, one.probing = one.held-1, false
			w.apply(t, one, 0, r)
		}
		if !one.dead {
			last = one
		}
	}
	if last == nil {
		return
	}
	for end := w.now.Add(2 * time.Minute); last.held == 0; w.now = w.now.Add(time.Second) {
		if w.now.After(end) {
			t.Fatalf("no request can begin in two minutes: %s", w.stored)
		}
		w.apply(t, last, 1)
	}
}
