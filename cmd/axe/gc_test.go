package main

import "testing"

// TestArrived tells entries that the model has not seen from entries that it
// has, even if the log was edited in between.
func TestArrived(t *testing.T) {
	const a, b, c, d = "## a\n1\n\n", "## b\n2\n\n", "## c\n3\n\n", "## d\n4\n\n"
	for _, tt := range []struct {
		name, before, now string
		want              int
	}{
		{"nothing", a + b, a + b, 0},
		{"two", a + b, a + b + c + d, 2},
		{"behind a file without a last newline", "## a", "## a\n" + b, 1},
		{"the same again", a, a + a, 1},
		{"trimmed meanwhile", a + b + c, c + d, 1},
		{"trimmed to what came", a + b, c + d, 2},
		{"edited", "notes\n" + a + b, "other notes\n" + a + b + c, 1},
		{"rewritten", a + b, "## mine\n" + c, 2},
		{"emptied", a + b, "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := arrived(tt.before, tt.now); got != tt.want {
				t.Errorf("got %d, want %d", got, tt.want)
			}
		})
	}
}
