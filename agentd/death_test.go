package agentd_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// watchful makes a worker look at its neighbour as often as by default.
var watchful = agentd.Config{WatchInterval: agentd.DefaultWatchInterval}

// TestDeathIsNoticed: a worker dies a second into a request to a model. Another
// worker repeats the request within half a second, and with it that of a call
// that came later. So does a worker that starts after the death, with the same
// name or with another one.
func TestDeathIsNoticed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		successor string
		late      bool // it starts after the death
		within    time.Duration
	}{
		"second worker": {"other", false, 700 * time.Millisecond},
		"new worker":    {"other", true, time.Second},
		"same name":     {"victim", true, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				h.agents = []configs.Agent{define("leaf", nil)}
				h.models["leaf"] = delayed(3*time.Second, says("done"))
				victim := h.startWorker("victim", workerOptions{Config: watchful})
				h.awaitReady()
				r := h.submit("leaf", "go")
				h.awaitRequests("leaf", 1)
				if !test.late {
					h.startWorker(test.successor, workerOptions{Config: watchful})
				}
				time.Sleep(1100 * time.Millisecond)
				victim.kill()
				died := time.Now()
				if test.late {
					time.Sleep(time.Second)
					died = time.Now()
					h.startWorker(test.successor, workerOptions{Config: watchful})
				}
				h.awaitRequests("leaf", 2)
				h.tookAtMost(died, test.within)
				h.expectCompleted(r, "done")
				h.checkVerified()
			})
		})
	}
}

// TestLateDiscovery: a worker dies, and no other notices it until its lease is
// over and another worker repeats the request. A worker that notices the death
// then does not give back what the other one has in hand.
func TestLateDiscovery(t *testing.T) {
	thorough(t)
	t.Parallel()
	for _, discoverer := range []string{"third", "victim"} {
		t.Run(discoverer, func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				h.agents = []configs.Agent{define("leaf", nil)}
				h.models["leaf"] = delayed(30*time.Second, says("done"))
				blind := agentd.Config{WatchInterval: time.Hour}
				victim := h.startWorker("victim", workerOptions{Config: blind})
				h.awaitReady()
				r := h.submit("leaf", "go")
				h.awaitRequests("leaf", 1)
				busy := blind
				busy.Slots = 1 // the other worker takes no further call
				h.startWorker("other", workerOptions{Config: busy})
				time.Sleep(1100 * time.Millisecond)
				victim.kill()
				h.awaitRequests("leaf", 2)
				time.Sleep(time.Second)
				h.startWorker(discoverer, workerOptions{Config: watchful})
				h.expectCompleted(r, "done")
				if n := len(h.requests("leaf")); n != 2 {
					t.Errorf("%d requests, want that of the victim and that of the other worker", n)
				}
				h.checkVerified()
			})
		})
	}
}

// TestEntryBeforeWork: a worker has stored its entry before it takes a message,
// also if it has to look first for an earlier process of its name. Other
// workers can ask what it has in hand.
func TestEntryBeforeWork(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		h.models["leaf"] = says("done")
		h.startWorker("one", workerOptions{})
		h.awaitReady()
		h.workers[0].kill()
		r := h.submit("leaf", "go")
		time.Sleep(5 * time.Second)
		began := time.Now()
		h.startWorker("one", workerOptions{beforeModel: func() {
			all, err := presence.New(h.conn).Workers(h.ctx)
			if err != nil || len(all) != 1 || all[0].Since.Before(began) {
				t.Errorf("entries %+v, %v; want that of the new process, from %s", all, err, began)
			}
		}})
		h.expectCompleted(r, "done")
	})
}

// TestListOverAnotherValue: the list of the messages in hand is stored also if
// its key has a value that is no list, or was deleted.
func TestListOverAnotherValue(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(ctx context.Context, kv jetstream.KeyValue, key string) error{
		"deleted": func(ctx context.Context, kv jetstream.KeyValue, key string) error { return kv.Delete(ctx, key) },
		"no list": func(ctx context.Context, kv jetstream.KeyValue, key string) error {
			_, err := kv.PutString(ctx, key, "no list")
			return err
		},
		"without a trace": func(ctx context.Context, kv jetstream.KeyValue, key string) error {
			return errors.Join(kv.Delete(ctx, key), kv.PurgeDeletes(ctx, jetstream.DeleteMarkersOlderThan(-1)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				h.agents = []configs.Agent{define("leaf", nil)}
				h.models["leaf"] = delayed(time.Hour, says("done"))
				h.startWorker("one", workerOptions{})
				h.awaitReady()
				listed := func(n int) func() bool {
					return func() bool {
						list, _, err := h.conn.Workers().HeldBy(h.ctx, subjects.WorkerOf("one"))
						return err == nil && len(list.Messages) == n
					}
				}
				h.submit("leaf", "go")
				h.eventually("the call is listed", listed(1))
				_, js := h.conn.NATS()
				kv, err := js.KeyValue(h.ctx, "AXE_WORKERS")
				if err != nil {
					t.Fatal(err)
				}
				if err := change(h.ctx, kv, "held."+subjects.WorkerOf("one").String()); err != nil {
					t.Fatal(err)
				}
				h.submit("leaf", "go")
				h.eventually("both calls are listed", listed(2))
			})
		})
	}
}

// storeDead stores entries of workers that have no process, each with a message
// of a subject in hand.
func (h *harness) storeDead(n int, subject string) {
	since := time.Now().UTC()
	for i := range n {
		e := presence.Entry{Name: fmt.Sprintf("dead%03d", i), Agents: []string{"leaf"}, Since: since}
		body, err := json.Marshal(e)
		if err != nil {
			h.tb.Fatal(err)
		}
		token := subjects.WorkerOf(e.Name)
		if _, err := h.conn.Workers().Swap(h.ctx, token, 0, body); err != nil {
			h.tb.Fatal(err)
		}
		ack := "$JS.ACK.AXE_RUNS.agent_leaf.1." + strconv.Itoa(1+i) + ".1.1764000000000000000.0"
		list := bus.HeldList{Process: since, Messages: []bus.Held{{Ack: ack, Subject: subject}}}
		if _, err := h.conn.Workers().PutHeld(h.ctx, token, 0, list); err != nil {
			h.tb.Fatal(err)
		}
	}
}

// TestManyDeaths: 300 workers die at once, and only one is left. It finds all
// of them gone within seconds, and gives back what they had in hand.
func TestManyDeaths(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		const dead = 300
		h.agents = []configs.Agent{define("leaf", nil)}
		log, lines := storyLog(slog.LevelInfo)
		config := watchful
		config.Log = log
		h.startWorker("finder", workerOptions{Config: config})
		h.awaitReady()
		h.storeDead(dead, "axe.run.leaf.x.r.call")
		time.Sleep(8 * time.Second)
		if n := len(withText(lines(), "worker found gone")); n != dead {
			t.Errorf("%d workers were found gone within 8 s, want %d", n, dead)
		}
		if n := len(withText(lines(), "given back")); n != dead {
			t.Errorf("the messages of %d workers were given back within 8 s, want %d", n, dead)
		}
	})
}

// TestDeathBesideACrowdedWorker: a worker has more runs in hand than it names.
// Another one dies. The messages of the dead one may be among those runs, so
// they are not given back. The calls of an agent that the crowded worker does
// not serve are, but not the messages that every worker takes.
func TestDeathBesideACrowdedWorker(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		agent, message string
		want           int
	}{{"leaf", "r.call", 0}, {"other", "r.call", 1}, {"other", "r.cancel", 0}, {"other", "r-1-0.due.1", 0}} {
		t.Run(test.agent+" "+test.message, func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				h.agents = []configs.Agent{define("leaf", nil)}
				log, lines := storyLog(slog.LevelInfo)
				config := watchful
				config.Log = log
				h.startWorker("finder", workerOptions{Config: config})
				h.awaitReady()
				crowded := h.startCrowded("early", test.agent)
				h.storeDead(1, "axe.run.leaf.x."+test.message)
				time.Sleep(8 * time.Second)
				if n := len(withText(lines(), "worker found gone")); n != 1 {
					t.Errorf("%d workers were found gone, want 1", n)
				}
				if n := len(withText(lines(), "given back")); n != test.want {
					t.Errorf("the messages of %d workers were given back, want %d", n, test.want)
				}
				crowded()
			})
		})
	}
}

// startCrowded keeps an entry of a worker that serves an agent and has one run
// more in hand than it names. The returned function ends it.
func (h *harness) startCrowded(name, agent string) (stop func()) {
	var work presence.Work
	for i := range presence.MaxInHand + 1 {
		tree, err := subjects.ParseTree("T" + strconv.Itoa(i))
		if err != nil {
			h.tb.Fatal(err)
		}
		served, err := subjects.ParseAgent(agent)
		if err != nil {
			h.tb.Fatal(err)
		}
		work.Runs = append(work.Runs, presence.InHand{Agent: served, Tree: tree, Path: subjects.Root})
	}
	since := time.Now().UTC()
	k := presence.Keeper{
		Registry: presence.New(h.conn),
		Entry:    func() presence.Entry { return presence.Entry{Name: name, Agents: []string{agent}, Since: since} },
		Work:     func(string) presence.Work { return work },
		Entered:  func() {},
	}
	ctx, cancel := context.WithCancel(h.ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = k.Run(ctx)
	}()
	h.eventually("the crowded worker has an entry", func() bool {
		s := h.serving(agent)
		return slices.Contains(s.Live, name)
	})
	return func() {
		cancel()
		<-ended
	}
}

// TestDeadOfTheDay: 300 workers have died, a minute ago and earlier. A worker
// that starts reads their entries once at most, since one of them may know a
// step of the clock. After that they cost nothing.
func TestDeadOfTheDay(t *testing.T) {
	t.Parallel()
	thorough(t)
	withHarness(t, func(h *harness) {
		const dead = 300
		h.agents = []configs.Agent{define("leaf", nil)}
		h.startWorker("first", workerOptions{}).kill() // it makes the streams
		h.storeDead(dead, "axe.run.leaf.x.r.call")
		time.Sleep(time.Minute)
		for _, name := range []string{"one", "two"} {
			w := h.startWorker(name, workerOptions{Config: watchful})
			h.awaitReady()
			time.Sleep(time.Minute)
			if read := w.conn.Stats().Messages; read >= 2*dead {
				t.Errorf("worker %s has read %d messages in a minute, with %d dead workers", name, read, dead)
			}
		}
	})
}

// TestWorkerAliveIsNotGone: two workers hold requests to models for a minute.
// Neither is found gone, and no request is made twice.
func TestWorkerAliveIsNotGone(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		h.models["leaf"] = delayed(time.Minute, says("done"))
		log, lines := storyLog(slog.LevelInfo)
		config := watchful
		config.Log = log
		for _, name := range []string{"one", "two"} {
			h.startWorker(name, workerOptions{Config: config})
		}
		h.awaitReady()
		var roots []subjects.Run
		for range 8 {
			roots = append(roots, h.submit("leaf", "go"))
		}
		for _, r := range roots {
			h.expectCompleted(r, "done")
		}
		if n := len(h.requests("leaf")); n != len(roots) {
			t.Errorf("%d requests for %d runs", n, len(roots))
		}
		if gone := withText(lines(), "gone"); len(gone) > 0 {
			t.Errorf("log: %s", strings.Join(gone, "\n"))
		}
	})
}

// giveAway does by hand what a worker does that finds another one gone. The
// worker is alive here.
func (h *harness) giveAway(name string) {
	workers := h.conn.Workers()
	token := subjects.WorkerOf(name)
	list, _, err := workers.HeldBy(h.ctx, token)
	if err != nil || len(list.Messages) == 0 {
		h.tb.Fatalf("the worker %s holds %v, error %v", name, list.Messages, err)
	}
	entries, err := workers.List(h.ctx, time.Time{})
	if err != nil {
		h.tb.Fatal(err)
	}
	for _, m := range entries {
		var entry map[string]any
		if json.Unmarshal(m.Body, &entry) != nil || entry["name"] != name {
			continue
		}
		entry["ended"], entry["found_by"] = time.Now().UTC(), "the test"
		body, err := json.Marshal(entry)
		if err != nil {
			h.tb.Fatal(err)
		}
		if _, err := workers.Swap(h.ctx, token, m.Seq, body); err != nil {
			h.tb.Fatal(err)
		}
	}
	if err := workers.GiveBack(h.ctx, list.Messages); err != nil {
		h.tb.Fatal(err)
	}
}

// TestZombieAfterItsWorkWasGivenAway: a worker is found gone while it asks a
// model, but it is alive. Another worker takes the turn. The first one notices
// that and aborts its request. If its model answers before, with another call,
// the answer changes nothing.
func TestZombieAfterItsWorkWasGivenAway(t *testing.T) {
	thorough(t)
	t.Parallel()
	for name, answers := range map[string]bool{"aborted": false, "answers": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) {
				h.callingLead([]string{"leaf"}, call("leaf", "x"))
				h.models["leaf"] = repeats
				var aborted bool
				late := make(chan struct{})
				answer := h.models["lead"]
				h.models["lead"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
					if req.worker.name != "zombie" {
						return answer(ctx, req)
					}
					began := time.Now()
					select {
					case <-late:
						return calls(call("leaf", "of the zombie"))(ctx, req)
					case <-ctx.Done():
						aborted = time.Since(began) < 10*time.Second
						return nil, ctx.Err()
					}
				}
				zombie := h.startWorker("zombie", workerOptions{Config: watchful})
				h.awaitReady()
				r := h.submit("lead", "go")
				h.awaitRequests("lead", 1)
				zombie.serve() // it takes no further call
				h.startWorker("other", workerOptions{Config: watchful})
				time.Sleep(3 * time.Second)
				h.giveAway("zombie")
				if answers {
					h.eventually("the other worker has taken the turn", func() bool { return len(h.entries(r)) > 0 })
					close(late)
				}
				h.expectCompleted(r, "c0=x")
				time.Sleep(time.Minute)
				if !aborted && !answers {
					t.Error("the request of the worker that was found gone was not aborted within 10 s")
				}
				if n := len(h.entries(r)); n != 1 {
					t.Errorf("%d entries on the log, want 1", n)
				}
				if o := h.outcomes(r.Space.Result(r.Agent, r.Tree)); len(o) != 1 || o[0].Status != run.StatusCompleted {
					t.Errorf("outcomes %+v, want one that is completed", o)
				}
				h.checkVerified()
			})
		})
	}
}
