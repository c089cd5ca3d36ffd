package agentd_test

import (
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/agentd/verify"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
)

// verified checks everything on the stream against the rules, as of now. What is stored while this reads
// is not missed: time stands still.
func (s *sim) verified() verify.Report {
	c := verify.New(verify.Config{Slack: 5 * time.Second})
	for m, err := range s.conn.Scan(s.ctx, s.conn.Space().All(), 0) {
		if err != nil {
			s.tb.Fatal(err)
		}
		body, err := s.conn.Load(s.ctx, m)
		if err != nil {
			s.tb.Fatal(err)
		}
		fence, fenced := m.Fence()
		c.Add(verify.Message{Subject: m.Subject, Seq: m.Seq, Time: m.Time, Header: m.Header.Get, Body: body, Fenced: fenced, Fence: fence})
	}
	return c.Report(time.Now())
}

// clean wants no violation on the stream, and returns the notes by rule.
func (s *sim) clean() (verify.Report, map[verify.Rule]int) {
	r := s.verified()
	notes := map[verify.Rule]int{}
	for _, f := range r.Findings {
		if f.Severity == verify.Violation {
			s.tb.Errorf("%v", f)
		}
		notes[f.Rule]++
	}
	return r, notes
}

var _ = []any{agentd.Config{}, run.Entry{}, bus.Point{}, configs.Agent{}, (*testing.T)(nil)}
