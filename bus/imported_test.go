package bus

import (
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
