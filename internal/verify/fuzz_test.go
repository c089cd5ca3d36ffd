package verify_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/axebus/axe/internal/verify"
)

// FuzzAdd adds a message of any kind three times, between the messages of a
// tree. No message makes the checker panic, and each finding has a text and a
// rule.
func FuzzAdd(f *testing.F) {
	base := newHistory(f).messages()
	for i, m := range base {
		f.Add(m.Subject, m.Body, uint64(i), "1", false)
	}
	for _, subject := range []string{
		"", "axe.", "axe.run.lead.T.r.in.1.0", "axe.run.lead.T.r.in.timer.1", "axe.run.lead.T.r.due.1",
		"axe.run.b.T.r-1-1.log", "axe.dead.lead.T.r", "axe.run.x.U.r-1-0.call",
	} {
		f.Add(
			subject,
			[]byte(`{"index":1,"kind":"turn","answer":{"tool_calls":[{}]},"calls":[{}],"start":{}}`),
			uint64(7),
			"",
			true,
		)
	}
	f.Fuzz(func(t *testing.T, subject string, body []byte, place uint64, header string, gone bool) {
		c := verify.New(verify.Config{Slack: slack})
		n := int(place % uint64(len(base)+1))
		for i, m := range base {
			if i == n {
				// The second and the third message meet the
				// state that the first one has made.
				for j := range 3 {
					c.Add(verify.Message{
						Subject: subject, Seq: m.Seq - 9 + uint64(j), Time: m.Time, Body: body, Gone: gone && j == 0,
						Header: func(string) string { return header },
						Fenced: len(body) > 8,
						Fence:  binary.LittleEndian.Uint64(slices.Concat(body, make([]byte, 8))),
					})
				}
			}
			c.Add(m)
		}
		r := c.Report(afterAll)
		if r.Messages < len(base) || r.Violations() > len(r.Findings) {
			t.Errorf("%d messages and %d violations, want at least %d messages, and each violation as a finding: %+v",
				r.Messages, r.Violations(), len(base), r)
		}
		for _, f := range r.Findings {
			if f.Text == "" || f.Rule == "" || f.String() == "" {
				t.Errorf("a finding without a text or a rule: %+v", f)
			}
		}
		_ = c.Report(time.Time{})
	})
}
