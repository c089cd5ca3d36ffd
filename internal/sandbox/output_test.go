package sandbox

import (
	"bytes"
	"fmt"
	"testing"
)

// TestBuffer: a buffer of 5 and 7 bytes keeps the beginning and the end of an
// output, whatever its length and the sizes of its writes.
func TestBuffer(t *testing.T) {
	t.Parallel()
	var text []byte
	for i := range 40 {
		text = append(text, byte('A'+i))
	}
	for length := range text {
		for step := 1; step < 17; step++ {
			b := &buffer{head: 5, tail: 7}
			for rest := text[:length]; len(rest) > 0; {
				n := min(step, len(rest))
				_, _ = b.Write(rest[:n])
				rest = rest[n:]
			}
			if err := checkOutput(text[:length], b.output()); err != nil {
				t.Fatalf("%d bytes, %d at a time: %v", length, step, err)
			}
		}
	}
}

// checkOutput checks that an output has the first 5 and the last 7 bytes of a
// text, and counts the bytes between them.
func checkOutput(text []byte, o Output) error {
	head, tail := text[:min(5, len(text))], text[max(min(5, len(text)), len(text)-7):]
	if !bytes.Equal(o.Head, head) || !bytes.Equal(o.Tail, tail) {
		return fmt.Errorf("kept %q and %q, want %q and %q", o.Head, o.Tail, head, tail)
	}
	if got, want := int(o.Dropped), len(text)-len(head)-len(tail); got != want {
		return fmt.Errorf("%d bytes dropped, want %d", got, want)
	}
	return nil
}
