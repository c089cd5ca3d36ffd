package agentd

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/internal/tool"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// shape describes the runs of TestCacheCountsWhatItHolds.
type shape struct {
	// turns is the number of turns of a run, and calls that of each turn.
	turns, calls int
	// text is the length of each text in bytes.
	text int
	// answered is the number of calls of the last turn that have an
	// outcome. All calls of the other turns have one.
	answered int
	// idle says that a run is idle after each turn.
	idle bool
	// inherits says that each run is a new one that continues one of the
	// shape.
	inherits bool
}

// TestCacheCountsWhatItHolds compares the size that the cache counts with the
// heap that the cache lets go of, for runs read from the bus: with few and many
// bytes in a message, with few and many messages, and with an inherited
// conversation.
func TestCacheCountsWhatItHolds(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	for name, s := range map[string]shape{
		"waits":  {turns: 1, calls: 1, text: 20},
		"idle":   {turns: 1, text: 20, idle: true},
		"wide":   {turns: 1, calls: 100, text: 20, answered: 99},
		"long":   {turns: 40, calls: 1, text: 2000},
		"little": {turns: 40, calls: 1, text: 20},
		"large":  {turns: 1, calls: 1, text: 60_000},
		// The fold of these runs is small beside what they inherit.
		"inherits little": {turns: 40, calls: 1, text: 20, answered: 1, inherits: true},
		"inherits long":   {turns: 40, calls: 1, text: 2000, answered: 1, inherits: true},
		"inherits wide":   {turns: 1, calls: 100, text: 20, answered: 100, inherits: true},
		"inherits large":  {turns: 1, calls: 1, text: 60_000, answered: 1, inherits: true},
	} {
		t.Run(name, func(t *testing.T) {
			runs := make([]subjects.Run, 10)
			// Other changes of the heap are larger than ten small
			// runs.
			switch {
			case s.text >= 1000:
			case s.turns*s.calls < 2:
				runs = make([]subjects.Run, 200)
			case s.inherits:
				runs = make([]subjects.Run, 50)
			}
			// The server of this process keeps megabytes of what it
			// reads and writes, for seconds. So it ends before the
			// heap is measured.
			var w *Worker
			if !t.Run("read", func(t *testing.T) { w = s.fillCache(t, runs) }) {
				return
			}
			if n := len(w.cache.young.values); n != len(runs) {
				t.Fatalf("the cache keeps %d runs, want %d", n, len(runs))
			}
			before, counted := heap(), w.cache.young.size
			w.cache.clear()
			w = nil
			held := before - heap()
			if r := float64(held) / float64(counted); r < 0.67 || r > 1.5 {
				t.Errorf("a run takes %d bytes and counts for %d, a ratio of %.2f, want 0.67 to 1.5",
					held/len(runs), counted/len(runs), r)
			}
		})
	}
}

// fillCache stores new runs of the shape, and returns a worker whose cache has
// them. The server ends with the test.
func (s shape) fillCache(t *testing.T, runs []subjects.Run) *Worker {
	t.Helper()
	conn := testbus.Open(t)
	w, err := New(
		conn,
		Config{Cache: 1 << 30, Open: func(string) (provider.Provider, string, error) { return nil, "", nil }},
	)
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		runs[i] = s.write(t, conn)
		if s.inherits {
			runs[i] = writeCopy(t, conn, runs[i])
		}
	}
	for _, r := range runs {
		h := &loadedRun{w: w, run: r}
		if err := h.read(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		// As a turn does, once and again.
		for range 2 {
			inherit(t, &execution{loadedRun: h})
		}
		w.cache.put(h)
	}
	return w
}

// inherit reads the conversation that a run continues, as its first turn does.
func inherit(t *testing.T, x *execution) {
	t.Helper()
	if _, _, err := x.inheritedStart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := x.loadInherited(t.Context()); err != nil || !ok {
		t.Fatal(err)
	}
}

// writeCopy stores the call of a root that continues the conversation of a run.
func writeCopy(t *testing.T, conn *bus.Conn, of subjects.Run) subjects.Run {
	t.Helper()
	m := shape{}.messages(t)[0]
	m.Body = encode(t, run.Input{Task: "go on", Copy: run.CopyOf(of, 0)})
	if _, err := conn.Write(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return must(space.Parse(m.Subject)).Run
}

// TestCacheForgets: the cache keeps a run that is used at least once a period,
// and drops a run that was not used for two periods.
func TestCacheForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache(1 << 20)
		used, unused := waiting("lead", 100), waiting("other", 100)
		c.put(unused)
		for range 10 {
			c.put(used)
			time.Sleep(cachePeriod * 9 / 10)
			if !takeOut(c, used) {
				t.Fatal("the cache has dropped a run within the period")
			}
		}
		c.put(used)
		time.Sleep(2 * cachePeriod)
		synctest.Wait()
		if takeOut(c, unused) || takeOut(c, used) || c.young.size+c.old.size != 0 {
			t.Errorf("after two periods the cache holds a run or counts %d and %d bytes, want no run and 0 bytes",
				c.young.size, c.old.size)
		}
	})
}

// TestCacheIsBounded: over a thousand takes and puts the cache stays within its
// limit in bytes, and has the run that was put last. A run that needs more than
// half of the limit is not kept, and no other run is dropped for it.
func TestCacheIsBounded(t *testing.T) {
	const limit = 100_000
	c := newCache(limit)
	for i := range 1000 {
		h := waiting(fmt.Sprint("a", i%200), i*7%9000)
		c.take(h.run) // as in a run queue
		c.put(h)
		if held := countedSize(c.young) + countedSize(c.old); held != c.young.size+c.old.size || held > limit {
			t.Fatalf("after put %d the cache holds %d bytes of %d, and counts %d and %d",
				i, held, limit, c.young.size, c.old.size)
		}
		if !takeOut(c, h) {
			t.Fatalf("the cache has dropped run %d, which was put last", i)
		}
		c.put(h)
	}
	c.put(waiting("large", limit/2))
	if takeOut(c, waiting("large", 0)) || len(c.young.values)+len(c.old.values) < 10 {
		t.Error("the cache keeps a run that is too large, or has dropped the others for it")
	}
}

// takeOut takes a run from the cache, and reports whether it was there.
func takeOut(c *cache, h *loadedRun) bool {
	_, ok := c.take(h.run)
	return ok
}

// countedSize returns the sum of the counted sizes of a generation's runs.
func countedSize(g generation[subjects.Run, *loadedRun]) (sum int) {
	for _, h := range g.values {
		sum += runWeight + h.value.size
	}
	return sum
}

// waiting makes the root of an agent that awaits a call's outcome. Its messages
// count for the given size in bytes.
func waiting(agent string, size int) *loadedRun {
	r := space.Run(must(subjects.ParseAgent(agent)), must(subjects.ParseTree("t")), subjects.Root)
	return &loadedRun{run: r, state: run.State{Phase: run.Awaiting, Seq: 1}, size: size}
}

// heap returns the bytes of the heap in use, after a collection. A server that
// has just ended still lets go of megabytes. So heap waits until three
// collections have left the same, but for 16 KiB.
func heap() int {
	const few = 16 << 10
	var last int
	for same := 0; same < 3; same++ {
		time.Sleep(20 * time.Millisecond)
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		now := int(m.HeapAlloc)
		if now < last-few || now > last+few {
			same = 0
		}
		last = now
	}
	return last
}

var space = must(subjects.NewSpace("axe"))

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// messages makes the stored messages of a new run of the shape.
func (s shape) messages(t *testing.T) []bus.Message {
	t.Helper()
	r := space.Run(must(subjects.ParseAgent("lead")), must(subjects.ParseTree(bus.NewID())), subjects.Root)
	head := subjects.Header{
		Tree:     r.Tree,
		Path:     r.Path,
		MaxDepth: 5,
		Deadline: time.Now().Add(time.Hour),
		Reply:    space.Result(r.Agent, r.Tree),
	}
	text := strings.Repeat("x", s.text)
	ms := []bus.Message{{Subject: r.Call(), Header: head.Pairs(), Body: encode(t, map[string]string{"task": text})}}
	for i := range s.turns {
		e := run.Entry{
			Index:   i + 1,
			Kind:    run.EntryTurn,
			Trigger: 1,
			Seen:    1,
			Worker:  "w" + bus.NewID(),
			Answer:  &provider.Response{Content: text, Model: "m"},
		}
		if i == 0 {
			e.Start = &run.Start{
				Model:     "in/process",
				System:    text,
				User:      text,
				Tools:     []provider.Tool{tool.CallAgentTool([]string{"leaf"})},
				SubAgents: []string{"leaf"},
				MaxDepth:  5,
			}
		}
		if s.idle {
			e.Kind = run.EntryIdle
		}
		for c := range s.calls {
			e.Answer.ToolCalls = append(
				e.Answer.ToolCalls,
				provider.NewToolCall(
					fmt.Sprint("c", c),
					"call_agent",
					encode(t, map[string]string{"agent": "leaf", "task": text}),
				),
			)
			e.Calls = append(e.Calls, run.Call{Agent: "leaf", Deadline: time.Now().Add(time.Hour)})
		}
		ms = append(ms, bus.Message{Subject: r.Log(), Body: encode(t, e)})
		answered := s.calls
		if i == s.turns-1 {
			answered = s.answered
		}
		for c := range answered {
			ms = append(ms, bus.Message{
				Subject: r.Reply(i+1, c),
				Body: encode(t, run.Outcome{
					Status: run.StatusCompleted,
					Agent:  "leaf",
					Result: text,
					Tree:   r.Tree.String(),
					Path:   "r-1-0",
					Worker: "w" + bus.NewID(),
				}),
			})
		}
	}
	return ms
}

// write stores the messages of a new run of the shape, and returns the run.
func (s shape) write(t *testing.T, conn *bus.Conn) subjects.Run {
	t.Helper()
	ms := s.messages(t)
	for _, err := range conn.WriteAll(t.Context(), ms) {
		if err != nil {
			t.Fatal(err)
		}
	}
	return must(space.Parse(ms[0].Subject)).Run
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
