package agentd_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
)

// presenceReads bounds the number of reads of the list of workers since a time:
// one a second.
func presenceReads(since time.Time) uint64 { return uint64(time.Since(since)/time.Second) + 1 }

// TestFirstDeliveryNeedsNoRead: a worker does not read a run whose call is
// provably first. The one read is the submission's.
func TestFirstDeliveryNeedsNoRead(t *testing.T) {
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		h.agents = []configs.Agent{define("leaf", nil)}
		w := h.startWorker("w", workerOptions{})
		h.awaitReady()
		h.expectCompleted(h.submit("leaf", "first"), "leaf")
		began := time.Now()
		before := w.conn.Stats().Reads
		const n = 20
		for range n {
			h.expectCompleted(h.submit("leaf", "go"), "leaf")
		}
		if reads := w.conn.Stats().Reads - before; reads < n || reads > n+presenceReads(began) {
			t.Errorf("%d reads for %d submissions and their calls, want one for each submission", reads, n)
		}
	})
}

// TestRepliesAreReadTogether: outcomes that arrive within a moment are read
// together. A parent is read when its turn is appended, when it has all
// results, and when it has answered. The first two times its reply subject is
// read too.
func TestRepliesAreReadTogether(t *testing.T) {
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		h.callingLead(
			[]string{"leaf"},
			call("leaf", "1"),
			call("leaf", "2"),
			call("leaf", "3"),
			call("leaf", "4"),
			call("leaf", "5"),
		)
		h.models["leaf"] = func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			n, err := strconv.Atoi(strings.TrimPrefix(req.text(), "Task: "))
			if err != nil {
				return nil, err
			}
			return delayed(time.Duration(n)*100*time.Microsecond, repeats)(ctx, req)
		}
		w := h.startWorker("w", workerOptions{Config: agentd.Config{Slots: 8}})
		h.awaitReady()
		h.expectCompleted(h.submit("lead", "first"), "c0=1|c1=2|c2=3|c3=4|c4=5")
		began := time.Now()
		before := w.conn.Stats().Reads
		h.expectCompleted(h.submit("lead", "go"), "c0=1|c1=2|c2=3|c3=4|c4=5")
		if reads := w.conn.Stats().Reads - before; reads < 6 || reads > 6+presenceReads(began) {
			t.Errorf("%d reads, want 1 for the submission and 5 for the parent", reads)
		}
	})
}

// TestSequentialCallsDoNotWait: where calls are made one after the other, the
// next call is made as soon as the outcome of the previous one arrives.
func TestSequentialCallsDoNotWait(t *testing.T) {
	t.Parallel()
	withPartitions(t, 1, func(h *harness) {
		h.callingLead([]string{"leaf"}, call("leaf", "1"), call("leaf", "2"), call("leaf", "3"))
		h.agents[0].SubAgentsConf.Parallel = false
		h.models["leaf"] = repeats
		h.startWorker("w", workerOptions{Config: agentd.Config{Slots: 8}})
		h.awaitReady()
		r := h.submit("lead", "go")
		h.expectCompleted(r, "c0=1|c1=2|c2=3")
		replies, logs := h.readAll(r.Replies()), h.readAll(r.Log())
		if took := replies[2].Time.Sub(logs[0].Time); took != 0 {
			t.Errorf("three calls that take no time took %v one after another, want none", took)
		}
	})
}
