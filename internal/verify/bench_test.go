package verify_test

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/internal/verify"
)

// BenchmarkTree adds the messages of one tree after the other: six runs and 24
// messages each. It reports the bytes that the checker keeps for a message, and
// the nanoseconds for it.
func BenchmarkTree(b *testing.B) {
	base := newHistory(b).messages()
	c := verify.New(verify.Config{Slack: slack})
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	for b.Loop() {
		id := "T" + strconv.Itoa(n)
		for _, m := range base {
			header := m.Header
			c.Add(verify.Message{
				Subject: strings.Replace(m.Subject, ".T", "."+id, 1),
				Seq:     uint64(n*1000) + m.Seq,
				Time:    m.Time.Add(time.Duration(n) * time.Second),
				Body:    []byte(strings.ReplaceAll(string(m.Body), `"T"`, `"`+id+`"`)),
				Header: func(name string) string {
					v := header(name)
					if name == "Axe-Tree" {
						return id
					}
					return strings.Replace(v, ".T", "."+id, 1)
				},
			})
		}
		n++
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n*len(base)), "kept-B/message")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*len(base)), "ns/message")
	runtime.KeepAlive(c)
}
