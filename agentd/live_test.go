package agentd_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// subscribe collects the messages that are published to a subject. The returned
// function waits a second for late messages, unsubscribes and returns them all.
func (h *harness) subscribe(subject string) func() []bus.Stored {
	var mu sync.Mutex
	var got []bus.Stored
	ctx, stop := context.WithCancel(h.ctx)
	err := h.conn.Watch(ctx, subject, func(m bus.Stored) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, m)
	})
	if err != nil {
		h.tb.Fatal(err)
	}
	return func() []bus.Stored {
		time.Sleep(time.Second)
		stop()
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(got)
	}
}

// TestTapOneTree: a subscription to one tree gets the stored messages of the
// tree in order, each with its sequence, and none of another tree.
func TestTapOneTree(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.startThreeLevels()
		h.models["leaf"] = repeats
		r := h.root("lead")
		tree := h.subscribe("axe.live.run.*." + r.Tree.String() + ".>")
		results := h.subscribe("axe.live.result.>")
		h.submitTo(r, "go")
		other := h.submit("lead", "another")
		h.awaitOutcome(r, time.Minute)
		h.awaitOutcome(other, time.Minute)
		var want, got []uint64
		for _, m := range h.readAll(r.Space.TreeOf(r.Tree)) {
			want = append(want, m.Seq)
		}
		for _, m := range tree() {
			got = append(got, m.Seq)
			at, err := r.Space.Parse(m.Subject)
			if err != nil || at.Run.Tree != r.Tree || m.Header.Get("Nats-Sequence") == "" {
				t.Errorf("message %s with headers %v (%v), want one of %s with a sequence",
					m.Subject, m.Header, err, r.Tree)
			}
			if at.Kind == subjects.Log {
				if e, err := run.DecodeEntry(m.Body); err != nil || e.Worker == "" {
					t.Errorf("entry %+v (%v), want one with its worker", e, err)
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) != 16 {
			t.Errorf("%d messages are stored, want 16; the sequences that were received (-stored +got):\n%s",
				len(want), diff)
		}
		if n := len(results()); n != 2 {
			t.Errorf("%d results, want 2, one of each tree", n)
		}
	})
}

// TestTapOneAgent: a subscription to one agent gets its messages of every tree.
func TestTapOneAgent(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.startThreeLevels()
		h.models["leaf"] = repeats
		leaves := h.subscribe("axe.live.run.leaf.>")
		h.awaitOutcome(h.submit("lead", "1"), time.Minute)
		h.awaitOutcome(h.submit("lead", "2"), time.Minute)
		if n := len(leaves()); n != 8 {
			t.Errorf("%d messages of leaves, want 8 calls", n)
		}
	})
}

// TestProgressOfSlowCalls: the progress of slow model calls is published and
// not stored. Fast calls publish none.
func TestProgressOfSlowCalls(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.callingLead([]string{"slow", "fast"}, call("slow", "x"), call("fast", "x"))
		h.models["slow"] = delayed(time.Second, says("slow"))
		h.startWorker("w", workerOptions{})
		r := h.root("lead")
		progress := h.subscribe(r.Space.PartsOf(r.Tree))
		h.submitTo(r, "go")
		h.expectCompleted(r, "c0=slow|c1=fast")
		got := progress()
		if len(got) != 1 {
			t.Fatalf("%d progress messages, want one of the slow call", len(got))
		}
		var p run.Progress
		if err := json.Unmarshal(got[0].Body, &p); err != nil ||
			p != (run.Progress{Event: "asking", Turn: 1, Worker: "w"}) {
			t.Errorf("progress %+v (%v), want that w is asking for turn 1", p, err)
		}
		if at, err := r.Space.Parse(got[0].Subject); err != nil || at.Kind != subjects.Progress ||
			at.Run != h.child(r, "slow", 0) {
			t.Errorf("subject %s (%v), want one for the progress of the slow run", got[0].Subject, err)
		}
		if got[0].Seq != 0 {
			t.Error("a progress message was stored")
		}
	})
}
