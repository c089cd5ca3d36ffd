package metrics_test

import (
	"testing"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/metrics"
	"github.com/axebus/axe/price"
	"github.com/axebus/axe/provider"
)

// BenchmarkLeaf counts a leaf as a worker does, with three requests to the bus.
func BenchmarkLeaf(b *testing.B) {
	w := metrics.NewWorker("bench", price.Table{})
	answer := &provider.Response{}
	answer.InputTokens, answer.OutputTokens = 10, 10
	o := run.Outcome{Agent: "leaf", Path: "r", Status: run.StatusCompleted}
	b.ReportAllocs()
	for b.Loop() {
		w.Delivered("leaf", 1)
		w.TakenUp("leaf", time.Millisecond)
		w.Gated("in/bench", 0)
		w.Asked(metrics.Request{Agent: "leaf", Model: "in/bench", Took: time.Millisecond, Answer: answer})
		for range 3 {
			w.Exchanged(bus.Exchange{Op: "write", Subject: "x", Took: time.Millisecond})
		}
		w.Ended(o)
	}
}
