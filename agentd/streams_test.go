package agentd_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
)

// edit changes the configuration of the stream of runs as `nats stream edit`
// does, and returns the configuration from before. The stream keeps its
// messages for ever, unless change sets an age: an edit makes the server look
// for old messages by a clock of its own, which is not the bubble's.
func (h *harness) edit(change func(*jetstream.StreamConfig)) (was jetstream.StreamConfig) {
	_, js := h.conn.NATS()
	s, err := js.Stream(h.ctx, "AXE_RUNS")
	if err != nil {
		h.tb.Fatal(err)
	}
	was = s.CachedInfo().Config
	now := was
	now.MaxAge = 0
	change(&now)
	if _, err := js.UpdateStream(h.ctx, now); err != nil {
		h.tb.Fatal(err)
	}
	return was
}

// TestStreamThatDropsMessages: a limit that drops messages of running runs is
// logged once, within a minute.
func TestStreamThatDropsMessages(t *testing.T) {
	t.Parallel()
	thorough(t)
	for limit, set := range map[string]func(*jetstream.StreamConfig){
		"max-msgs=500":           func(c *jetstream.StreamConfig) { c.MaxMsgs = 500 },
		"max-bytes=1048576":      func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 },
		"max-msgs-per-subject=1": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
		"max-age=1m0s": func(c *jetstream.StreamConfig) {
			c.MaxAge = time.Minute
			c.Duplicates = time.Minute
		},
	} {
		t.Run(limit, func(t *testing.T) {
			t.Parallel()
			withPartitions(t, 1, func(h *harness) {
				h.agents = []configs.Agent{define("leaf", nil)}
				log, lines := storyLog(slog.LevelInfo)
				h.startWorker("w", workerOptions{Config: agentd.Config{Log: log}})
				h.awaitReady()
				was := h.edit(set)
				time.Sleep(time.Minute)
				errs := withText(lines(), "level=ERROR")
				h.expectLines(errs, `limit="`+limit+`"`, "nats stream edit AXE_RUNS --max-")
				if len(errs) != 1 {
					t.Errorf("%d lines of the level error, want one: %q", len(errs), errs)
				}
				h.edit(func(c *jetstream.StreamConfig) { *c = was })
				time.Sleep(time.Minute)
				h.expectLines(lines(), "stream is right again")
			})
		})
	}
}

// TestDirectGetsOff: a worker switches direct gets on again, and the trees
// under way go on. Before that, a read fails with the reason and does not wait
// for ever.
func TestDirectGetsOff(t *testing.T) {
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		off := func(c *jetstream.StreamConfig) { c.AllowDirect = false }
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["lead"] = turns(calls(call("leaf", "1"), call("leaf", "2")), joinsResults)
		h.models["leaf"] = delayed(30*time.Second, repeats)
		h.edit(off)
		began := time.Now()
		_, err := h.conn.ReadByScan(h.ctx, h.conn.Space().All(), 0)
		if !errors.Is(err, bus.ErrNotRead) || !strings.Contains(err.Error(), "AXE_RUNS") {
			t.Errorf("the read: %v, want ErrNotRead with the stream's name", err)
		}
		h.tookAtMost(began, 30*time.Second)
		log, lines := storyLog(slog.LevelInfo)
		h.startWorker("w", workerOptions{Config: agentd.Config{Log: log}})
		h.awaitReady()
		h.expectLines(withText(lines(), "level=ERROR"), "limit=allow-direct")
		h.expectLines(lines(), "streams corrected")
		r := h.submit("lead", "x")
		h.awaitRequests("leaf", 2)
		h.edit(off)
		h.expectCompleted(r, "c0=1|c1=2")
		h.checkVerified()
	})
}

// TestLostStreamEndsTheWorker: a worker ends when a stream of runs is removed,
// also if the stream was made again at once. The test takes real time: the
// client library holds a lock while it looks for the stream, and a bubble's
// time does not pass meanwhile.
func TestLostStreamEndsTheWorker(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		t.Run(fmt.Sprintf("made again %t", again), func(t *testing.T) {
			t.Parallel()
			server, err := bus.Serve(bus.ServerConfig{StoreDir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(server.Close)
			h := newHarness(t.Context(), t, nil)
			h.server = server
			h.conn = h.open(bus.Config{})
			t.Cleanup(h.conn.Close)
			if err := h.conn.Provision(t.Context(), bus.Provision{}); err != nil {
				t.Fatal(err)
			}
			h.agents = []configs.Agent{define("leaf", nil)}
			log, lines := storyLog(slog.LevelInfo)
			w := h.startWorker("w", workerOptions{Config: agentd.Config{Log: log}})
			h.expectCompleted(h.submit("leaf", "x"), "leaf")
			_, js := h.conn.NATS()
			if err := js.DeleteStream(t.Context(), "AXE_RUNS"); err != nil {
				t.Fatal(err)
			}
			if again {
				if err := h.conn.Provision(t.Context(), bus.Provision{}); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			select {
			case <-w.ended:
			case <-time.After(time.Minute):
				t.Fatal("the worker has not ended within a minute")
			}
			h.tookAtMost(began, 30*time.Second)
			if !errors.Is(w.err, agentd.ErrStreamLost) || !strings.Contains(w.err.Error(), "AXE_RUNS") {
				t.Errorf("the worker ended with %v, want ErrStreamLost with the stream's name", w.err)
			}
			h.expectLines(withText(lines(), "level=ERROR"), "stream=AXE_RUNS")
			w.conn.Close()
		})
	}
}

// TestBucketOfAgentsIsMadeAgain: a bucket of agents that was removed is there
// again within a minute, with the worker's agents.
func TestBucketOfAgentsIsMadeAgain(t *testing.T) {
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		log, lines := storyLog(slog.LevelInfo)
		h.startWorker("w", workerOptions{Config: agentd.Config{Log: log}})
		h.awaitReady()
		dir, err := h.conn.Directory(h.ctx)
		if err != nil {
			t.Fatal(err)
		}
		// The new bucket begins with lower sequences than the old one had.
		for range 10 {
			if _, err := dir.Put(h.ctx, "other", []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		_, js := h.conn.NATS()
		if err := js.DeleteStream(h.ctx, "KV_AXE_AGENTS"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		h.expectLines(lines(), "problem=\"does not exist any more", "streams corrected")
		if _, _, ok, err := dir.Get(h.ctx, "leaf"); !ok {
			t.Errorf("the agent is not announced again: %v", err)
		}
		h.expectCompleted(h.submit("leaf", "x"), "leaf")
		// The worker follows the new bucket.
		if err := dir.Delete(h.ctx, "leaf", 0); err != nil {
			t.Fatal(err)
		}
		h.eventually("the agent is announced again", func() bool {
			_, _, ok, _ := dir.Get(h.ctx, "leaf")
			return ok
		})
	})
}

// TestPurgedStream: a worker logs that a stream has lost messages before their
// age, and takes new work. The id of a tree that is gone may be used again,
// also if the tree was under way.
func TestPurgedStream(t *testing.T) {
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		h.agents = []configs.Agent{
			define("lead", []string{"leaf"}),
			define("leaf", nil),
			define("waiting", []string{"lonely"}),
		}
		h.models["lead"] = turns(calls(call("leaf", "1")), joinsResults)
		h.models["waiting"] = calls(call("lonely", "1"))
		h.announce("lonely")
		log, lines := storyLog(slog.LevelInfo)
		h.startWorker("w", workerOptions{Config: agentd.Config{Log: log}})
		h.awaitReady()
		r := h.submit("lead", "x")
		h.expectCompleted(r, "c0=leaf")
		time.Sleep(time.Minute)
		waiting := h.submit("waiting", "x")
		h.eventually("the run waits for its child", func() bool { return len(h.entries(waiting)) == 1 })
		_, js := h.conn.NATS()
		s, err := js.Stream(h.ctx, "AXE_RUNS")
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Purge(h.ctx); err != nil {
			t.Fatal(err)
		}
		// The worker still has the run in its cache.
		time.Sleep(20 * time.Second)
		h.expectLines(withText(lines(), "level=ERROR"), "stream=AXE_RUNS", "before their age")
		h.setModel("waiting", says("done"))
		h.submitTo(waiting, "x")
		h.expectCompleted(waiting, "done")
		h.submitTo(r, "x")
		h.expectCompleted(r, "c0=leaf")
	})
}
