package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/client"
	"github.com/axebus/axe/cmd/internal/cli"
	"github.com/axebus/axe/internal/httpguard"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/subjects"
)

// all receives the events of a stream until its end.
func all(t *testing.T, events <-chan sse) (got []sse) {
	t.Helper()
	for {
		e, ok := next(t, events)
		if !ok {
			return got
		}
		got = append(got, e)
	}
}

// stored returns the events of stored messages.
func stored(events []sse) []sse {
	return slices.DeleteFunc(slices.Clone(events), func(e sse) bool { return e.event != "event" })
}

// kinds returns the kind and the path of each event of a stored message.
func kinds(t *testing.T, events []sse) (lines []string) {
	t.Helper()
	for _, e := range stored(events) {
		var l eventLine
		if err := json.Unmarshal([]byte(e.data), &l); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprint(l.Kind, " ", l.Path))
	}
	return lines
}

// TestWatch: a stream has every event of a tree once, and the line of each run
// as it is in the end. Its data fit the document.
func TestWatch(t *testing.T) {
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	h.submit("lead", "words", "t1")
	next(t, h.gate.asked)
	events, _ := h.watch("")
	first, _ := next(t, events)
	close(h.gate.open)
	got := append([]sse{first}, all(t, events)...)
	var want []string
	err := h.Follow(t.Context(), client.TreeID("t1"), func(e client.Event) {
		if !e.Live() {
			want = append(want, fmt.Sprint(e.Kind, " ", e.Run.Path))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, kinds(t, got)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	lines := map[string]cli.RunLine{}
	d := readDocument(t)
	run := d.schema(t, map[string]any{"$ref": "#/components/schemas/RunLine"})
	event := d.schema(t, map[string]any{"$ref": "#/components/schemas/Event"})
	for _, e := range got {
		var v any
		if err := json.Unmarshal([]byte(e.data), &v); err != nil {
			t.Fatal(err)
		}
		var wrong error
		switch e.event {
		case "run":
			var l cli.RunLine
			if err := json.Unmarshal([]byte(e.data), &l); err != nil {
				t.Fatal(err)
			}
			lines[l.Path], wrong = l, run.Validate(v)
		case "event":
			wrong = event.Validate(v)
		}
		if wrong != nil || (e.id == "") != (e.event != "event") {
			t.Errorf("%+v: %v; want data that fit the document, and an id of events alone", e, wrong)
		}
	}
	for path, want := range map[string]string{
		"r": "together: echo: words, opened", "r-1-0": "echo: words", "r-1-1": "opened",
	} {
		if l := lines[path]; l.Status != "completed" || l.Result != want || l.Why != "" || len(l.Spans) == 0 {
			t.Errorf("the last line of %s is %+v, want that it is completed with %q", path, l, want)
		}
	}
	if last := got[len(got)-1]; last.event != "end" {
		t.Errorf("the last event is %+v, want end", last)
	}
}

// TestLastEventID: a client that comes back gets the events after the one that
// it has had, each once. When there is nothing left, it is told not to come
// back.
func TestLastEventID(t *testing.T) {
	h := newHarness(t)
	h.serve(httpguard.Tokens{})
	h.submit("guarded", "pay", "t1")
	h.held("t1")
	if err := h.Decide(t.Context(), client.TreeID("t1"), subjects.Root, approval); err != nil {
		t.Fatal(err)
	}
	h.outcome("t1")
	events, _ := h.watch("")
	whole := stored(all(t, events))
	ids := map[string]bool{}
	for i, e := range whole {
		if ids[e.id] {
			t.Errorf("two events have the id %s", e.id)
		}
		ids[e.id] = true
		if i == len(whole)-1 {
			continue
		}
		events, _ := h.watch(e.id)
		if diff := cmp.Diff(whole[i+1:], stored(all(t, events)), cmp.AllowUnexported(sse{})); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", e.id, diff)
		}
	}
	r := h.request(http.MethodGet, "/v1/trees/t1/events", "")
	r.Header.Set("Last-Event-ID", whole[len(whole)-1].id)
	h.until("the stream of a tree that was seen to its end is empty", func() bool {
		status, _, _ := h.do(r)
		return status == http.StatusNoContent
	})
	events, _ = h.watch("nonsense")
	if got := stored(all(t, events)); len(got) != len(whole) {
		t.Errorf("%d events after an id that is none, want all %d", len(got), len(whole))
	}
}

// TestLateWatcher: a watcher that comes after a worker has begun to ask a model
// is told so, and by which worker. The first watcher may come in time for the
// worker's own event. It is gone when the second one comes.
func TestLateWatcher(t *testing.T) {
	h := newHarness(t)
	server, _ := h.serve(httpguard.Tokens{})
	h.submit("lead", "words", "t1")
	next(t, h.gate.asked)
	for _, watcher := range []string{"the first", "the second"} {
		events, stop := h.watch("")
		for why := ""; !strings.HasPrefix(why, "asks the model (worker w1, since "); {
			e, ok := next(t, events)
			if !ok {
				t.Fatalf("%s watcher: the stream has ended, and said last that the run %s", watcher, why)
			}
			var l cli.RunLine
			if e.event != "run" {
				continue
			}
			if err := json.Unmarshal([]byte(e.data), &l); err != nil {
				t.Fatal(err)
			}
			if l.Path == "r-1-1" {
				why = l.Why
			}
		}
		stop()
		h.untilUnwatched(server)
	}
	close(h.gate.open)
}

// TestManyWatchers: 200 watchers of one tree are one follower of it. All of
// them get all events, and a watcher that does not read holds up no other. When
// they are gone, the tree is not followed any more.
func TestManyWatchers(t *testing.T) {
	h := newHarness(t)
	s, _ := h.serve(httpguard.Tokens{})
	h.submit("lead", "words", "t1")
	next(t, h.gate.asked)
	before := h.subscriptions()
	var streams []<-chan sse
	var stops []func()
	for range 200 {
		events, stop := h.watch("")
		streams, stops = append(streams, events), append(stops, stop)
	}
	// One follower has three subscriptions: stored messages, the outcome and
	// live events.
	if got := h.subscriptions() - before; got != 3 {
		t.Errorf("%d subscriptions for 200 watchers, want 3", got)
	}
	lazy, err := http.DefaultClient.Do(h.request(http.MethodGet, "/v1/trees/t1/events", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer lazy.Body.Close()
	close(h.gate.open)
	var want []string
	for i, events := range streams {
		got := kinds(t, all(t, events))
		if i == 0 {
			want = got
		}
		if !slices.Equal(got, want) || len(got) < 6 || !strings.HasPrefix(got[len(got)-1], "concluded") {
			t.Fatalf("watcher %d got %v, want %v", i, got, want)
		}
		stops[i]()
	}
	_ = lazy.Body.Close()
	h.untilUnwatched(s)
}

// untilUnwatched waits until a server follows no tree.
func (h *harness) untilUnwatched(s *Server) {
	h.t.Helper()
	h.until("no tree is followed", func() bool {
		s.feeds.mu.Lock()
		defer s.feeds.mu.Unlock()
		return len(s.feeds.all) == 0 && s.watchers.Load() == 0
	})
}

// subscriptions returns the number of subscriptions of the connection of the
// server under test.
func (h *harness) subscriptions() int {
	nc, _ := h.conn.NATS()
	return nc.NumSubscriptions()
}

// TestTooManyWatchers: a server has a largest number of streams.
func TestTooManyWatchers(t *testing.T) {
	h := newHarness(t)
	s, _ := h.serve(httpguard.Tokens{})
	s.watchers.Store(maxWatchers)
	p := h.refused(h.request(http.MethodGet, "/v1/trees/t1/events", ""))
	if p.Status != 503 || p.Code != "many_watchers" {
		t.Errorf("problem %+v, want many_watchers with 503", p)
	}
}

// TestFeedOfManyRuns: each line of a wide tree is sent when it changes, and the
// list of changes stays short.
func TestFeedOfManyRuns(t *testing.T) {
	const runs = 1000
	f := &feed{changed: make(chan struct{}), lines: map[subjects.Path]*fedLine{}}
	root := (&harness{t: t, conn: testbus.Open(t)}).root("lead", "t1")
	f.apply(client.Event{Kind: client.Called, Run: root, Seq: 1, Time: time.Now()})
	var p place
	f.read(&p)
	for round := range 5 {
		for i := range runs {
			r := root
			r.Path = root.Path.Child(1, i)
			kind := client.Called
			if round > 0 {
				kind = client.Asking
			}
			e := client.Event{Kind: kind, Run: r, Seq: uint64(10 + i), Time: time.Now(), Worker: fmt.Sprint("w", round)}
			if round > 0 {
				e.Seq = 0
			}
			f.apply(e)
		}
		n := f.read(&p)
		if len(n.lines) < runs {
			t.Errorf("round %d: %d lines, want one for each of the %d runs", round, len(n.lines), runs)
		}
	}
	if n := f.read(&p); len(n.lines) > 0 || len(n.events) > 0 {
		t.Errorf("%d lines and %d events without a change", len(n.lines), len(n.events))
	}
	var fresh place
	if n := f.read(&fresh); len(n.lines) != runs+1 || len(n.events) != runs+1 {
		t.Errorf("a new watcher gets %d lines and %d events, want %d of each", len(n.lines), len(n.events), runs+1)
	}
	if len(f.order) > 3*runs+64 {
		t.Errorf("%d changes are kept for %d runs", len(f.order), runs)
	}
}

// TestQueuedTree: the stream of a task that no worker has taken is open, and
// says why it waits.
func TestQueuedTree(t *testing.T) {
	h := &harness{t: t, gate: &gate{make(chan struct{}, 1), make(chan struct{})}}
	h.open()
	h.startWorker("w0")()
	h.serve(httpguard.Tokens{})
	h.submit("echo", "x", "t1")
	events, _ := h.watch("")
	e, _ := next(t, events)
	if e.event != "run" || !strings.Contains(e.data, `"status":"queued","why":"no worker is there since`) {
		t.Errorf("event %+v, want the line of the root with its reason", e)
	}
	h.startWorker("w1")
	if got := kinds(t, all(t, events)); len(got) == 0 || got[len(got)-1] != "concluded r" {
		t.Errorf("events %v, want those until the end", got)
	}
}
