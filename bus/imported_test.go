package bus

import (
	"bytes"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/subjects"
)

// TestOrigins: the place that a message claims counts only after the imported
// call of its tree's root.
func TestOrigins(t *testing.T) {
	space, err := subjects.NewSpace("")
	if err != nil {
		t.Fatal(err)
	}
	claim := nats.Header{headerImported: {"7 2026-01-01T00:00:00Z"}}
	var o Origins
	for i, step := range []struct {
		subject string
		header  nats.Header
		want    uint64
	}{
		{"axe.run.a.live.r.in.mail.k", claim, 100},
		{"axe.run.a.live.r.call", nil, 101},
		{"axe.run.a.live.r.in.mail.l", claim, 102},
		{"axe.run.a.live.r.cancel", claim, 103},
		{"axe.run.a.old.r.call", claim, 7},
		{"axe.run.a.old.r.in.mail.k", claim, 7},
		{"axe.run.a.old.r-1-0.log", claim, 7},
		{"axe.run.a.old.r.in.mail.l", nil, 107},
		{"axe.run.a.live.r.in.mail.m", claim, 108},
		{"axe.result.a.old", claim, 7},
	} {
		m := Stored{Subject: step.subject, Seq: uint64(100 + i), Header: step.header}
		if got := o.Of(space, m).Seq; got != step.want {
			t.Errorf("message %d, %s, comes from %d, want %d", i, step.subject, got, step.want)
		}
	}
}

// TestLookAheadReadsACallOnce: a tree that was not imported gets many messages
// that claim it. The call of its root is read once. A call that is not stored
// yet is looked for again.
func TestLookAheadReadsACallOnce(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	r := c.Space().Run(agentT(t, "a"), treeT(t, "T1"), subjects.Root)
	var o Origins
	look := func(want uint64) {
		t.Helper()
		before := c.Stats().Reads
		for range 5 {
			m := Stored{
				Subject: r.Cancel(), Seq: 7,
				Header: nats.Header{headerImported: {"3 2026-01-01T00:00:00Z"}},
			}
			if err := o.LookAhead(t.Context(), c, m); err != nil {
				t.Fatal(err)
			}
			if got := o.Of(c.Space(), m).Seq; got != m.Seq {
				t.Errorf("a message comes from %d, want %d", got, m.Seq)
			}
		}
		if got := c.Stats().Reads - before; got != want {
			t.Errorf("%d reads, want %d", got, want)
		}
	}
	look(5)
	if _, err := c.Write(t.Context(), Message{Subject: r.Call()}); err != nil {
		t.Fatal(err)
	}
	look(1)
}

// lagT makes the direct gets of a connection those of a stream with replicas,
// one of which lags: it answers the first reads without the messages after
// last, and scans without any if last is 0. It returns the number of reads that
// the replica still answers.
func lagT(t *testing.T, server *Server, c *Conn, last uint64, reads int32) *atomic.Int32 {
	t.Helper()
	const api = "LAG."
	var left atomic.Int32
	left.Store(reads)
	nc, _ := connectT(t, Dial{Server: server})
	_, err := nc.Subscribe(api+">", func(m *nats.Msg) {
		body := m.Data
		if next := []byte(`"next_by_subj":"`); last == 0 && bytes.Contains(body, next) && left.Add(-1) >= 0 {
			body = bytes.Replace(body, next, append(next, "no."...), 1)
		}
		if bytes.Contains(body, []byte(`"multi_last"`)) && left.Add(-1) >= 0 {
			body = fmt.Appendf(bytes.TrimSuffix(body, []byte("}")), `,"up_to_seq":%d}`, last)
		}
		_ = nc.PublishRequest("$JS.API."+strings.TrimPrefix(m.Subject, api), m.Reply, body)
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	replicated := *c.streams.Load()
	replicated.replicas = 3
	c.streams.Store(&replicated)
	c.reader.api = api
	return &left
}

// TestReadTreeOnReplicas: the replica that answers lags behind the end of a
// tree. The tree is read again until nothing is missing.
func TestReadTreeOnReplicas(t *testing.T) {
	server := serveT(t, ServerConfig{})
	c := openT(t, Dial{Server: server}, true)
	r := c.Space().Run(agentT(t, "a"), treeT(t, "T1"), subjects.Root)
	var last uint64
	for i, subject := range []string{
		r.Call(), r.Log(), r.Reply(1, 0), r.Log(), c.Space().Result(r.Agent, r.Tree),
	} {
		seq, err := c.Write(t.Context(), Message{Subject: subject})
		if err != nil {
			t.Fatal(err)
		}
		if i == 2 {
			last = seq
		}
	}
	left := lagT(t, server, c, last, 9)
	ms, err := ReadTree(t.Context(), c, r.Tree)
	if err != nil || len(ms) != 5 {
		t.Errorf("read %d messages, %v; want 5", len(ms), err)
	}
	if n := left.Load(); n > 0 {
		t.Errorf("the replica that lags was not asked %d times", n)
	}
}
