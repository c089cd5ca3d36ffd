package main

import "testing"

// TestArrived: arrived counts the entries that are newer than the text that the
// model has seen, even if the log was edited in between.
func TestArrived(t *testing.T) {
	const a, b, c, d = "## a\n1\n\n", "## b\n2\n\n", "## c\n3\n\n", "## d\n4\n\n"
	for _, tt := range []struct {
		name, before, now string
		want              int
	}{
		{"nothing new", a + b, a + b, 0},
		{"two new", a + b, a + b + c + d, 2},
		{"after a text without a last newline", "## a", "## a\n" + b, 1},
		{"a repeated entry", a, a + a, 1},
		{"trimmed meanwhile", a + b + c, c + d, 1},
		{"trimmed to the new entries", a + b, c + d, 2},
		{"edited", "notes\n" + a + b, "other notes\n" + a + b + c, 1},
		{"rewritten", a + b, "## mine\n" + c, 2},
		{"emptied", a + b, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := arrived(tt.before, tt.now); got != tt.want {
				t.Errorf("got %d new entries, want %d", got, tt.want)
			}
		})
	}
}
