package agentd_test

import (
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// BenchmarkReplay removes the consumer of an agent's calls when 2,000 runs of
// the agent have ended. It reports the time in which a worker acknowledges a
// call that comes again.
func BenchmarkReplay(b *testing.B) {
	const calls = 2000
	leaf, _ := subjects.ParseAgent("leaf")
	w := newWorld(b, 16, fan(0), benchAgent("leaf"))
	var all errgroup.Group
	all.SetLimit(64)
	for range calls {
		all.Go(func() error { w.result(b, leaf); return nil })
	}
	_ = all.Wait()
	_, js := w.conn.NATS()
	consumer := bus.ConsumerConfig{Stream: "RUNS", Name: "agent_leaf"}
	time.Sleep(20 * time.Second) // no call is provably first any more
	var took time.Duration
	for b.Loop() {
		if err := js.DeleteConsumer(b.Context(), "AXE_RUNS", consumer.Name); err != nil {
			b.Fatal(err)
		}
		var began time.Time
		for p := (bus.Position{Waiting: 1}); p.Pending(); time.Sleep(time.Millisecond) {
			var there bool
			var err error
			if p, there, err = (bus.Consumers{Conn: w.conn}).Position(b.Context(), consumer); err != nil {
				b.Fatal(err)
			}
			if !there {
				p.Waiting = 1
			} else if began.IsZero() {
				began = time.Now()
			}
		}
		took += time.Since(began)
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N*calls), "µs/call")
}
