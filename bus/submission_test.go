package bus

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestQueuedSubmissions: the newest submissions come first, across the holes
// that taken ones have left.
func TestQueuedSubmissions(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	if ms, total, err := QueuedSubmissions(t.Context(), c, 5); len(ms) > 0 || total > 0 || err != nil {
		t.Errorf("an empty stream: got %v, %d, %v", places(ms), total, err)
	}
	for i := range 60 {
		if _, err := c.Write(t.Context(), submissionT(t, c, fmt.Sprint("t", i))); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.js.Stream(t.Context(), "AXE_SUBMIT")
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(5); seq < 59; seq++ { // t4 to t57
		if err := s.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	for n, want := range map[int][]string{
		1: {"60 axe.submit.a.t59"},
		3: {"60 axe.submit.a.t59", "59 axe.submit.a.t58", "4 axe.submit.a.t3"},
		9: {
			"60 axe.submit.a.t59", "59 axe.submit.a.t58", "4 axe.submit.a.t3", "3 axe.submit.a.t2",
			"2 axe.submit.a.t1", "1 axe.submit.a.t0",
		},
	} {
		ms, total, err := QueuedSubmissions(t.Context(), c, n)
		if diff := cmp.Diff(want, places(ms)); diff != "" || total != 6 || err != nil {
			t.Errorf("%d: total %d, %v (-want +got):\n%s", n, total, err, diff)
		}
	}
}
