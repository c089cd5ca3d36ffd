package agentd_test

import (
	"encoding/json"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/presence"
	"github.com/axebus/axe/subjects"
)

// attr reads a numeric attribute of a log line.
func attr(t *testing.T, line, key string) int {
	t.Helper()
	m := regexp.MustCompile(`\b` + key + `=(\d+)`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("no %s in %q", key, line)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// serving reads which workers serve an agent, and which did.
func (h *harness) serving(agent string) presence.Service {
	s, err := presence.New(h.conn).Serving(h.ctx, agent)
	if err != nil {
		h.tb.Fatal(err)
	}
	return s
}

// TestServing: the bus knows which workers serve an agent, and which did. It
// shows a drain or a death at once.
func TestServing(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		if s := h.serving("leaf"); s.Unserved() || len(s.Live) > 0 {
			t.Errorf("before any worker: %+v, want no worker, and not unserved", s)
		}
		one := h.startWorker("one", workerOptions{})
		two := h.startWorker("two", workerOptions{})
		h.awaitReady()
		if s := h.serving("leaf"); !slices.Equal(s.Live, []string{"one", "two"}) || s.Unserved() {
			t.Errorf("with two workers: %+v, want one and two live", s)
		}
		if s := h.serving("other"); s.Unserved() || len(s.Live) > 0 {
			t.Errorf("an agent that no worker ever served: %+v, want no worker, and not unserved", s)
		}
		one.stop()
		<-one.ended
		if s := h.serving("leaf"); !slices.Equal(s.Live, []string{"two"}) || !slices.Equal(s.Former, []string{"one"}) {
			t.Errorf("after the drain of one: %+v, want two live and one as a former worker", s)
		}
		time.Sleep(15 * time.Second)
		two.kill()
		<-two.ended
		asked := time.Now()
		s := h.serving("leaf")
		if took := time.Since(asked); took >= 500*time.Millisecond {
			t.Errorf("the two looks took %s, want less than two pauses of 300ms", took)
		}
		if len(s.Live) > 0 || !s.Unserved() {
			t.Errorf("after the death of two: %+v, want no live worker, and unserved", s)
		}
		time.Sleep(3*time.Minute + 30*time.Second)
		text := h.serving("leaf").Text(time.Now())
		if want := "no worker serves leaf since 3 min; workers that did: two, one"; text != want {
			t.Errorf("the text is %q, want %q", text, want)
		}
		h.startWorker("two", workerOptions{})
		h.awaitReady()
		if s := h.serving("leaf"); !slices.Equal(s.Live, []string{"two"}) {
			t.Errorf("after a new start of two: %+v, want two live", s)
		}
	})
}

// TestUnreadableListOfAgents: another writer's value stands in place of a long
// list of agents. The worker that names it serves none, and all other workers
// are still found.
func TestUnreadableListOfAgents(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		h.startWorker("one", workerOptions{})
		h.awaitReady()
		for name, body := range map[string]string{
			"other": "no list", "torn": "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x4a",
		} {
			entry, err := json.Marshal(presence.Entry{Name: name, AgentsIn: name})
			if err == nil {
				err = h.conn.Workers().PutAgents(h.ctx, name, []byte(body))
			}
			if err == nil {
				_, err = h.conn.Workers().Swap(h.ctx, subjects.WorkerOf(name), 0, entry)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		all, err := presence.New(h.conn).Workers(h.ctx)
		if err != nil {
			t.Fatal(err)
		}
		served := map[string]int{}
		for _, w := range all {
			served[w.Name] = len(w.Agents)
		}
		if diff := cmp.Diff(map[string]int{"one": 1, "other": 0, "torn": 0}, served); diff != "" {
			t.Errorf("numbers of agents (-want +got):\n%s", diff)
		}
	})
}

// TestWorkerFoundGone: a worker finds within two seconds that another one is
// gone, and logs which agents no worker serves any more. It logs a call of such
// an agent. The worker that takes over the runs of the lost one logs that.
func TestWorkerFoundGone(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "1"))
		leaf := []configs.Agent{h.agents[1]}
		lead := []configs.Agent{h.agents[0]}
		h.models["leaf"] = delayed(30*time.Second, says("done"))
		log, lines := storyLog(slog.LevelInfo)
		h.startWorker("one", workerOptions{Config: agentd.Config{Log: log}, agents: lead})
		early := h.startWorker("early", workerOptions{agents: leaf})
		two := h.startWorker("two", workerOptions{agents: leaf})
		h.awaitReady()
		early.kill() // later it is only a former worker
		// A check at the moment of the death waits a second for the
		// answer, and does not miss the process yet. Two checks later
		// the process is found gone.
		time.Sleep(4 * time.Second)
		r := h.submit("lead", "go")
		h.awaitRequests("leaf", 1)
		two.kill()
		time.Sleep(2500 * time.Millisecond)
		h.expectLines(lines(), `level=WARN msg="worker found gone" gone=two`,
			`level=WARN msg="no worker serves agent any more" agent=leaf`)
		waiting := h.submit("lead", "go again")
		time.Sleep(2 * time.Second)
		h.expectLines(lines(), `level=WARN msg="no worker serves agent: its runs wait" tree=`+waiting.Tree.String()+
			` agent=leaf path=r-1-0 former=two,early`)
		logThree, linesThree := storyLog(slog.LevelInfo)
		h.startWorker("three", workerOptions{Config: agentd.Config{Log: logThree}, agents: leaf})
		h.expectCompleted(r, "c0=done")
		h.expectCompleted(waiting, "c0=done")
		h.expectLines(linesThree(), `level=INFO msg="run taken over" tree=`+r.Tree.String()+
			` agent=leaf path=r-1-0 turn=1 from=two after=`)
	})
}

// TestEntryIsStoredAgain: a worker stores its entry again after a person has
// deleted it, or another program has stored something else. It stores it though
// the entry there says that it began later, if that process has ended.
func TestEntryIsStoredAgain(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		h.startWorker("one", workerOptions{})
		h.awaitReady()
		name := subjects.WorkerOf("one")
		later, err := json.Marshal(presence.Entry{
			Name: "one", Agents: []string{"leaf"}, Since: time.Now().Add(time.Hour), Ended: time.Now(),
		})
		if err != nil {
			t.Fatal(err)
		}
		for what, change := range map[string]func(){
			"a deletion": func() {
				_, js := h.conn.NATS()
				kv, err := js.KeyValue(h.ctx, h.conn.Space().Name("WORKERS"))
				if err == nil {
					err = kv.Delete(h.ctx, name.String())
				}
				if err != nil {
					t.Fatal(err)
				}
			},
			"another value":                  func() { h.swapEntry(name, []byte("no entry")) },
			"a later process that has ended": func() { h.swapEntry(name, later) },
		} {
			change()
			time.Sleep(5 * time.Second)
			if s := h.serving("leaf"); !slices.Equal(s.Live, []string{"one"}) {
				t.Errorf("after %s: %+v, want one live", what, s)
			}
		}
	})
}

// TestPredecessorOfTheFuture: a worker dies, the server's clock is set back,
// and the worker is restarted. The entry says that the process that is gone
// began later. The new process stores its entry, and takes the other one for no
// namesake.
func TestPredecessorOfTheFuture(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		dead := h.startWorker("one", workerOptions{})
		h.awaitReady()
		dead.kill()
		<-dead.ended
		body, err := json.Marshal(presence.Entry{
			Name: "one", Agents: []string{"leaf"}, Since: time.Now().Add(time.Hour),
		})
		if err != nil {
			t.Fatal(err)
		}
		h.swapEntry(subjects.WorkerOf("one"), body)
		log, lines := storyLog(slog.LevelInfo)
		started := h.startWorker("one", workerOptions{Config: agentd.Config{Log: log}})
		h.awaitReady()
		time.Sleep(5 * time.Second)
		if names := withText(lines(), "same name"); len(names) > 0 {
			t.Errorf("log: %s", names)
		}
		entry := func() presence.Worker {
			t.Helper()
			all, err := presence.New(h.conn).Workers(h.ctx)
			if err != nil || len(all) != 1 {
				t.Fatalf("entries %+v, %v; want one", all, err)
			}
			return all[0]
		}
		if e := entry(); e.Since.After(time.Now()) || e.Predecessor.IsZero() {
			t.Errorf("the entry is %+v, want that of the new process, with a predecessor", e)
		}
		started.stop()
		<-started.ended
		if e := entry(); e.Ended.IsZero() {
			t.Error("the entry has no end after the drain")
		}
	})
}

// swapEntry stores a value in place of a worker's entry.
func (h *harness) swapEntry(worker subjects.Worker, value []byte) {
	m, _, err := h.conn.Workers().Entry(h.ctx, worker)
	if err == nil {
		_, err = h.conn.Workers().Swap(h.ctx, worker, m.Seq, value)
	}
	if err != nil {
		h.tb.Fatal(err)
	}
}

// TestOlderNamesakeDrains: of two processes with one name the older one drains.
// The entry stays that of the other one.
func TestOlderNamesakeDrains(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		older := h.startWorker("one", workerOptions{})
		h.awaitReady()
		h.startWorker("one", workerOptions{})
		h.awaitReady()
		older.stop()
		<-older.ended
		if s := h.serving("leaf"); !slices.Equal(s.Live, []string{"one"}) {
			t.Errorf("after the drain: %+v, want one live", s)
		}
	})
}

// TestNoFalseLoss: a worker that drains is not reported as gone.
func TestNoFalseLoss(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		log, lines := storyLog(slog.LevelInfo)
		h.startWorker("one", workerOptions{Config: agentd.Config{Log: log}})
		two := h.startWorker("two", workerOptions{})
		h.awaitReady()
		two.stop()
		<-two.ended
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string(nil), withText(lines(), "gone")); diff != "" {
			t.Errorf("a drained worker is reported as gone:\n%s", diff)
		}
	})
}

// TestStalledByDeath: a follower of a tree learns within two seconds that the
// worker that asks a model is gone. Another worker serves the agent and has no
// slot free.
func TestStalledByDeath(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		h.models["leaf"] = delayed(30*time.Second, says("done"))
		slot := agentd.Config{Slots: 1}
		one := h.startWorker("one", workerOptions{Config: slot})
		h.awaitReady()
		r := h.submit("leaf", "go")
		h.awaitRequests("leaf", 1)
		reasons := make(chan string, 100)
		go func() {
			_ = client.New(h.conn).Follow(h.ctx, r.Tree, func(e client.Event) {
				if e.Kind == client.Stalled {
					reasons <- e.Reason
				}
			})
			close(reasons)
		}()
		h.startWorker("two", workerOptions{Config: slot})
		h.submit("leaf", "of the other worker")
		time.Sleep(5 * time.Second)
		if len(reasons) > 0 {
			t.Errorf("a run that has a worker is reported as stalled: %s", <-reasons)
		}
		died := time.Now()
		one.kill()
		if got := <-reasons; got != "its worker one is gone, another one takes over soon" {
			t.Errorf("reason %q, want that worker one is gone", got)
		}
		h.tookAtMost(died, 2500*time.Millisecond)
		h.expectCompleted(r, "done")
		for range reasons { // until the follower has returned
		}
	})
}
