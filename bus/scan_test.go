package bus

import (
	"testing"

	"github.com/axebus/axe/subjects"
)

// TestScan: a scan yields the messages of several pages in order, also across
// deleted messages. Each message tells whether it was written with a fence. The
// scan ends when its caller stops.
func TestScan(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	tree, err := subjects.ParseTree("T")
	if err != nil {
		t.Fatal(err)
	}
	r := c.Space().Run(agentT(t, "a"), tree, subjects.Root)
	body := make([]byte, 4<<20)
	for i := range 7 { // 28 MiB: a page has 16
		m := Message{Subject: r.Reply(1, i), Body: body, Fence: After(r.Log(), 0)}
		if i == 3 {
			m.Fence = Fence{}
		}
		if _, err := c.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	s, err := c.js.Stream(t.Context(), c.streams.Load().names[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{1, 5} {
		if err := s.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	reads := c.Stats().Reads
	var seqs []uint64
	for m, err := range c.Scan(t.Context(), c.Space().All(), 0) {
		if err != nil || len(m.Body) != len(body) {
			t.Fatalf("message %d: %d bytes, %v; want %d", m.Seq, len(m.Body), err, len(body))
		}
		if _, fenced := m.Fence(); fenced != (m.Seq != 4) {
			t.Errorf("message %d: fenced %t, want %t", m.Seq, fenced, m.Seq != 4)
		}
		seqs = append(seqs, m.Seq)
	}
	if len(seqs) != 5 || seqs[0] != 2 || seqs[4] != 7 || c.Stats().Reads-reads < 2 {
		t.Errorf("read %v with %d requests, want 2 to 7 without 5, with at least 2", seqs, c.Stats().Reads-reads)
	}
	if b, err := c.Bounds(t.Context()); err != nil || len(b) != 1 || b[0] != (Bounds{First: 2, Last: 7}) {
		t.Errorf("bounds %v, error %v; want 2 to 7", b, err)
	}
	for _, err := range c.Scan(t.Context(), c.Space().All(), 0) {
		if err != nil {
			t.Errorf("first message of a scan: %v", err)
		}
		break
	}
	for m, err := range c.Scan(t.Context(), c.Space().All(), 7) {
		t.Errorf("after the last message: message %d, error %v; want none", m.Seq, err)
	}
}
