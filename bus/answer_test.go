package bus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
)

// answerT has the server store its answer to a read under a subject, as a user
// that may only read can.
func answerT(t *testing.T, c *Conn, subject string) {
	t.Helper()
	before, err := c.LastSeq(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.nc.PublishRequest("$JS.API.STREAM.INFO.AXE_RUNS", subject, nil); err != nil {
		t.Fatal(err)
	}
	for last := before; last == before; time.Sleep(time.Millisecond) {
		if last, err = c.LastSeq(t.Context(), subject); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMessagePerSubject: a read of last messages passes over answers of the
// server: it brings the first message of such a subject, and nothing of a
// subject with answers alone.
func TestMessagePerSubject(t *testing.T) {
	c := openT(t, Dial{URL: natsT(t, &server.Options{JetStream: true, StoreDir: t.TempDir()})}, true)
	const plain, before, after, alone = "axe.result.a.T", "axe.result.b.T", "axe.result.c.T", "axe.result.d.T"
	write := func(subject, body string) {
		t.Helper()
		if _, err := c.Write(t.Context(), Message{Subject: subject, Body: []byte(body)}); err != nil {
			t.Fatal(err)
		}
	}
	answerT(t, c, alone)
	write(before, "b1")
	write(before, "b2")
	answerT(t, c, before)
	write(plain, "a1")
	write(plain, "a2")
	answerT(t, c, after)
	write(after, "c")
	ms, err := MessagePerSubject(t.Context(), c, "axe.result.*.T")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range ms {
		got = append(got, string(m.Body))
	}
	if diff := cmp.Diff([]string{"b1", "a2", "c"}, got); diff != "" {
		t.Error(diff)
	}
}
