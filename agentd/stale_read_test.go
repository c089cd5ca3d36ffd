package agentd_test

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/subjects"
)

// TestStaleReadIsRepeated: a worker reads a run in several requests. After the
// request that looks for the outcome its server is away for a time. Meanwhile
// an outcome is stored, as another worker would store it. The worker reads
// again, and does not ask the model.
func TestStaleReadIsRepeated(t *testing.T) {
	t.Parallel()
	thorough(t)
	ctx, url := t.Context(), testbus.Listen(t)
	other := newHarness(ctx, t, testbus.Dial(t, url))
	agent, err := subjects.ParseAgent("a0")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := subjects.ParseTree("old")
	if err != nil {
		t.Fatal(err)
	}
	space := other.conn.Space()
	r := space.Run(agent, tree, subjects.Root)
	write := func(m bus.Message) {
		if _, err := other.conn.Write(ctx, m); err != nil {
			t.Errorf("write %s: %v", m.Subject, err)
		}
	}
	var once sync.Once
	conn := testbus.Dial(t, bustest.Proxy(t, url, func(words []byte) (broken error) {
		if bytes.Contains(words, []byte(`"next_by_subj":"`+r.Call()+`"`)) {
			once.Do(func() {
				write(bus.Message{
					Subject: space.Result(agent, tree),
					Body:    []byte(`{"status":"completed","agent":"a0","tree":"old","path":"r"}`),
				})
				broken = errors.New("the server is away")
			})
		}
		return broken
	}))
	head := subjects.Header{
		Tree:     tree,
		Path:     subjects.Root,
		MaxDepth: 3,
		Deadline: time.Now().Add(time.Hour),
		Reply:    space.Result(agent, tree),
	}
	// An earlier worker makes the consumers: about a message that is older
	// than its consumer, a worker asks the others and reads once more.
	other.agents = levels(1)
	earlier := other.startWorker("v", workerOptions{conn: testbus.Dial(t, url)})
	other.awaitReady()
	earlier.drain()
	// The call is not provably first, so the worker reads the whole run. The
	// second call hides the first one, so it reads once more.
	for range 2 {
		write(bus.Message{Subject: r.Call(), Header: head.Pairs(), Body: []byte(`{"task":"L"}`)})
	}
	before := conn.Interruptions()
	w := other.startWorker("w", workerOptions{conn: conn})
	other.eventually("the server is away", func() bool { return conn.Interruptions() > before })
	if _, _, err := conn.First(ctx, r.Call()); err != nil { // when it is back
		t.Fatal(err)
	}
	// By then the worker has asked, or never will.
	time.Sleep(time.Second)
	w.drain()
	if n := other.tree.turnsAsked(); n > 0 {
		t.Errorf("the model was asked for %d turns, want none", n)
	}
}

// TestReadOfAStoppedWorkerIsRepeated: a worker hangs while it waits for a read,
// until its lease is over and another worker has ended the run. It reads the
// run again, although the read has just come back, and does not ask the model.
func TestReadOfAStoppedWorkerIsRepeated(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		r := h.root("leaf")
		head := subjects.Header{
			Tree: r.Tree, Path: r.Path, MaxDepth: 3, Deadline: time.Now().Add(time.Hour),
			Reply: r.Space.Result(r.Agent, r.Tree),
		}
		// The call is older than the worker, so it is not provably first.
		h.write(bus.Message{Subject: r.Call(), Header: head.Pairs(), Body: []byte(`{"task":"go"}`)})
		read := []byte(`"multi_last":["` + strings.TrimSuffix(r.Call(), "call"))
		var stopped atomic.Bool
		line := &bustest.Line{}
		line.Sent = func(piece []byte) {
			if bytes.Contains(piece, read) && stopped.CompareAndSwap(false, true) {
				line.Hold(4 * time.Second)
			}
		}
		const lease = 3 * time.Second
		conn, err := bus.Open(h.ctx, bus.Config{
			Dial: bus.Dial{Server: h.server, Wrap: line.Wrap}, AckWait: lease,
			Intercept: func(at bus.Point) error {
				if at.Op == "beat" && stopped.Load() {
					return errBusBroken
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		h.startWorker("w1", workerOptions{conn: conn})
		h.eventually("the worker reads", stopped.Load)
		h.startWorker("w2", workerOptions{ackWait: lease})
		h.expectCompleted(r, "leaf")
		time.Sleep(time.Minute)
		if asks := h.requests("leaf"); len(asks) != 1 || asks[0].worker.name != "w2" {
			t.Errorf("the model was asked %d times, want once, by w2", len(asks))
		}
		h.checkVerified()
	})
}

// TestReadsAgainAfterSlowSends: a worker hangs while it carries out the side
// effects of a turn. It reads the run again before it asks the model, since
// another worker may have taken the run over.
func TestReadsAgainAfterSlowSends(t *testing.T) {
	thorough(t)
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.forkingLead(map[string][]scriptedModel{
			"r":     {calls(use("fork", "prompt", "one")), joinsResults},
			"r-1-0": {delayed(time.Hour, says("never"))},
		})
		var hangs atomic.Bool
		h.startWorker("w1", workerOptions{Config: agentd.Config{Slots: 1}, frozen: &hangs, atStep: func(s step) error {
			if s.Op == "write" && !s.After && strings.HasSuffix(s.Subject, ".r-1-0.call") &&
				hangs.CompareAndSwap(false, true) {
				time.Sleep(time.Minute)
				hangs.Store(false)
			}
			return nil
		}})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.awaitRequests("lead", 1)
		h.startWorker("w2", workerOptions{})
		h.expectCompleted(r, "c0=r-1-0")
		time.Sleep(2 * time.Minute)
		if requests := h.requestsOf("r"); len(requests) != 2 || requests[1].worker.name != "w2" {
			t.Errorf("the lead's model was asked %d times, the last time by %s, want 2 times, the last time by w2",
				len(requests), requests[len(requests)-1].worker.name)
		}
		h.checkVerified()
	})
}

// TestReadsAgainBeforeALateRequest: a worker has lost its lease, and goes on
// with the run. A second worker takes the run over, and hangs between its read
// of the run and its request to the model. It reads the run again, and finds
// the entry or the outcome of the first worker. It does not ask for a stored
// turn.
func TestReadsAgainBeforeALateRequest(t *testing.T) {
	t.Parallel()
	thorough(t)
	for name, plan := range map[string][]scriptedModel{
		"an answer": {delayed(15*time.Second, says("done"))},
		"a turn":    {delayed(15*time.Second, calls(use("check_mail"))), joinsResults},
	} {
		t.Run(name, func(t *testing.T) {
			withHarness(t, func(h *harness) {
				h.forkingLead(map[string][]scriptedModel{"r": plan})
				var frozen, hung atomic.Bool
				frozen.Store(true)
				h.startWorker("w1", workerOptions{Config: agentd.Config{Slots: 1}, frozen: &frozen})
				h.awaitReady()
				r := h.submit("lead", "go")
				h.awaitRequests("lead", 1)
				h.startWorker("w2", workerOptions{beforeModel: func() {
					if hung.CompareAndSwap(false, true) {
						time.Sleep(10 * time.Second)
					}
				}})
				h.awaitOutcome(r, time.Hour)
				time.Sleep(2 * time.Minute)
				if !hung.Load() {
					t.Error("no worker took the run over")
				}
				if requests := h.requestsOf("r"); len(requests) != len(plan) {
					t.Errorf("the model was asked %d times, want %d", len(requests), len(plan))
				}
				h.checkVerified()
			})
		})
	}
}
