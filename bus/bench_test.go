package bus

import (
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/subjects"
)

// BenchmarkPartitions stores calls of trees on one stream and, in turn, on four
// partitions. Each of the two has a server of its own, without replicas. Eight
// writers send a hundred calls each at the same time. The benchmark reports the
// calls per second of both, and their ratio.
func BenchmarkPartitions(b *testing.B) {
	const writers, each = 8, 100
	open := func(partitions int) *Conn {
		s, err := Serve(ServerConfig{StoreDir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(s.Close)
		c, err := Open(b.Context(), Config{Dial: Dial{Server: s}})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Close)
		if err := c.Provision(b.Context(), Provision{Partitions: partitions}); err != nil {
			b.Fatal(err)
		}
		return c
	}
	agent, err := subjects.ParseAgent("leaf")
	if err != nil {
		b.Fatal(err)
	}
	conns := []*Conn{open(1), open(4)}
	took := make([]time.Duration, len(conns))
	n := 0
	for b.Loop() {
		for i, c := range conns {
			begun := time.Now()
			var all sync.WaitGroup
			for range writers {
				all.Go(func() {
					var ms []Message
					for range each {
						id, err := subjects.ParseTree(NewID())
						if err != nil {
							b.Error(err)
							return
						}
						subject := c.Space().Run(agent, id, subjects.Root).Call()
						ms = append(
							ms,
							Message{Subject: subject, Body: []byte(`{"task":"hello"}`), Fence: After(subject, 0)},
						)
					}
					for _, err := range c.WriteAll(b.Context(), ms) {
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			took[i] += time.Since(begun)
		}
		n += writers * each
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(n)/took[0].Seconds(), "one/s")
	b.ReportMetric(float64(n)/took[1].Seconds(), "four/s")
	b.ReportMetric(took[0].Seconds()/took[1].Seconds(), "four/one")
}

// BenchmarkReadSince reads the one new message of a run after a hundred
// thousand messages of other runs: by scan, and by subject. It reports the
// microseconds of both, and their ratio.
func BenchmarkReadSince(b *testing.B) {
	s, err := Serve(ServerConfig{StoreDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	c, err := Open(b.Context(), Config{Dial: Dial{Server: s}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	if err := c.Provision(b.Context(), Provision{}); err != nil {
		b.Fatal(err)
	}
	agent, err := subjects.ParseAgent("lead")
	if err != nil {
		b.Fatal(err)
	}
	fresh := func() subjects.Run {
		id, err := subjects.ParseTree(NewID())
		if err != nil {
			b.Fatal(err)
		}
		return c.Space().Run(agent, id, subjects.Root)
	}
	body := make([]byte, 300)
	r := fresh()
	seq, err := c.Write(b.Context(), Message{Subject: r.Log(), Body: body, Fence: After(r.Log(), 0)})
	if err != nil {
		b.Fatal(err)
	}
	for range 100 {
		ms := make([]Message, 1000)
		for i := range ms {
			subject := fresh().Call()
			ms[i] = Message{Subject: subject, Body: body, Fence: After(subject, 0)}
		}
		for _, err := range c.WriteAll(b.Context(), ms) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	last, err := c.Write(b.Context(), Message{Subject: r.Reply(1, 0), Body: body, Fence: After(fresh().Log(), 0)})
	if err != nil {
		b.Fatal(err)
	}
	var byScan, bySubject time.Duration
	n := 0
	for b.Loop() {
		n++
		begun := time.Now()
		all, err := c.ReadByScan(b.Context(), r.All(), seq)
		byScan += time.Since(begun)
		if err != nil || len(all) != 1 {
			b.Fatalf("read %d messages, %v; want 1", len(all), err)
		}
		begun = time.Now()
		all, err = c.ReadSince(b.Context(), r.All(), seq, last)
		bySubject += time.Since(begun)
		if err != nil || len(all) != 1 {
			b.Fatalf("read %d messages, %v; want 1", len(all), err)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(byScan.Seconds()*1e6/float64(n), "by-scan-µs")
	b.ReportMetric(bySubject.Seconds()*1e6/float64(n), "by-subject-µs")
	b.ReportMetric(byScan.Seconds()/bySubject.Seconds(), "by-scan/by-subject")
}
