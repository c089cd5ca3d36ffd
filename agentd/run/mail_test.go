package run_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/axebus/axe/agentd/run"
)

// TestMailFrom: whom a letter is from stands in a line that its reader's model is shown, and is nothing but a name.
func TestMailFrom(t *testing.T) {
	for from, ok := range map[string]bool{
		"user": true, "r-1-0": true, "Zoë from the 3rd floor": true, "👩‍🔧": true, strings.Repeat("x", 512): true,
		"": false, strings.Repeat("x", 513): false, "user\ngot mail from r": false, "user\r": false, "a\tb": false, "\x00": false,
		"\x1b[2J": false, "a\u0085b": false, "a\u2028b": false, "a\u2029b": false, "\x7f": false,
	} {
		body, err := json.Marshal(run.Mail{From: from, Text: "several\nlines"})
		if err != nil {
			t.Fatal(err)
		}
		m, err := run.DecodeMail(body)
		if (err == nil) != ok || ok && m.From != from {
			t.Errorf("%q: %+v, %v", from, m, err)
		}
	}
}
