package bus

import (
	"errors"
	"testing"
	"time"

	"github.com/axebus/axe/internal/bustest"
)

// guardT makes the writes of a connection depend on the identity of the
// streams, as a worker does.
func guardT(t *testing.T, c *Conn) {
	t.Helper()
	if err := c.Clocks.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Health.Guard()
}

// reconnectT breaks a connection, and waits until Health has noticed that it
// was made again.
func reconnectT(t *testing.T, c *Conn) {
	t.Helper()
	before := c.Health.doubts()
	if err := c.nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	for c.Health.doubts() == before {
		time.Sleep(time.Millisecond)
	}
}

// TestReplacedStreamTakesNoWrite: a stream is replaced, and then the processes
// reconnect. A guarded process writes and acknowledges nothing until it has
// provisioned the streams. A process without Guard, such as axe-submit, writes.
func TestReplacedStreamTakesNoWrite(t *testing.T) {
	dial := Dial{Server: serveT(t, ServerConfig{})}
	c, other := openT(t, dial, true), openT(t, dial, false)
	client := openT(t, dial, false)
	if err := client.Provisioned(t.Context()); err != nil {
		t.Fatal(err)
	}
	guardT(t, c)
	const subject = "axe.run.echo.T1.r.call"
	m := Message{Subject: subject, Body: []byte("{}"), Fence: After(subject, 0)}
	if _, err := c.Write(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	feed := openFeedT(t, c, one)
	d, err := feed.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := other.js.DeleteStream(t.Context(), "AXE_RUNS"); err != nil {
		t.Fatal(err)
	}
	if err := other.Provision(t.Context(), Provision{}); err != nil {
		t.Fatal(err)
	}
	reconnectT(t, c)
	reconnectT(t, client)
	if err := d.Ack(); !errors.Is(err, errUnconfirmed) {
		t.Errorf("acknowledgement: %v, want %v", err, errUnconfirmed)
	}
	if _, err := c.Write(t.Context(), m); !errors.Is(err, ErrReplaced) {
		t.Errorf("write: %v, want %v", err, ErrReplaced)
	}
	for _, err := range c.WriteAll(t.Context(), []Message{m, {Subject: "axe.run.echo.T2.r.call", Body: []byte("{}")}}) {
		if !errors.Is(err, ErrReplaced) {
			t.Errorf("writes together: %v, want %v", err, ErrReplaced)
		}
	}
	select {
	case <-c.Health.Replaced():
	default:
		t.Error("Replaced is not ready")
	}
	if last, err := client.LastSeq(t.Context(), subject); err != nil || last != 0 {
		t.Errorf("the new stream ends with message %d, error %v, want an empty one", last, err)
	}
	if _, err := client.Write(t.Context(), m); err != nil {
		t.Errorf("write of a process without Guard: got %v, want no error", err)
	}
	if err := c.Provision(t.Context(), Provision{}); err != nil {
		t.Fatal(err)
	}
	m.Fence = After(subject, 1)
	if _, err := c.Write(t.Context(), m); err != nil {
		t.Errorf("write after Provision: got %v, want no error", err)
	}
	if c.Health.Restored(0, time.Hour) {
		t.Error("a stream that was made again counts as restored")
	}
}

// TestAcknowledgementAfterReconnect: after a reconnect no acknowledgement is
// sent until Confirm has asked the streams. No write has to come first.
func TestAcknowledgementAfterReconnect(t *testing.T) {
	dial := Dial{Server: serveT(t, ServerConfig{})}
	c := openT(t, dial, true)
	guardT(t, c)
	if _, err := c.Write(t.Context(), Message{Subject: "axe.run.echo.T1.r.call", Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	d, err := openFeedT(t, c, one).Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reconnectT(t, c)
	if err := d.Ack(); !errors.Is(err, errUnconfirmed) {
		t.Errorf("acknowledgement: %v, want %v", err, errUnconfirmed)
	}
	if err := c.Health.Confirm(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Ack(); err != nil {
		t.Errorf("acknowledgement after Confirm: got %v, want no error", err)
	}
}

// TestStreamReplacedBehindALiveConnection: a stream is removed and made again
// while the connection stays. A guarded write that finds no stream asks for the
// identity of the streams before it is repeated. So the new stream does not get
// it.
func TestStreamReplacedBehindALiveConnection(t *testing.T) {
	dial := Dial{Server: serveT(t, ServerConfig{})}
	c, other := openT(t, dial, true), openT(t, dial, false)
	guardT(t, c)
	if _, err := c.Write(t.Context(), Message{Subject: "axe.run.echo.T0.r.call", Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if err := other.js.DeleteStream(t.Context(), "AXE_RUNS"); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	// The write ends when there is a stream again, or with the test.
	go func() {
		_, err := c.Write(t.Context(), Message{Subject: "axe.run.echo.T1.r.call", Body: []byte("{}")})
		written <- err
	}()
	for began := time.Now(); c.Health.identity.absences.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the absence of the stream was not noticed")
		}
	}
	if err := other.Provision(t.Context(), Provision{}); err != nil {
		t.Fatal(err)
	}
	if err := <-written; !errors.Is(err, ErrReplaced) {
		t.Errorf("write: %v, want %v", err, ErrReplaced)
	}
}

// TestRestoredStream: a stream is removed and restored from a backup. Its fault
// says so, and Restored reports it within the time that its caller gives.
func TestRestoredStream(t *testing.T) {
	dial := Dial{Server: serveT(t, ServerConfig{})}
	c, other := openT(t, dial, true), openT(t, dial, false)
	if _, err := c.Write(t.Context(), Message{Subject: "axe.run.echo.T1.r.call"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Clocks.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.Health.Restored(0, time.Hour) {
		t.Error("the first stream counts as restored")
	}
	nc, js := other.NATS()
	copied, err := bustest.BackUp(t.Context(), nc, []string{"AXE_RUNS"})
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), "AXE_RUNS"); err != nil {
		t.Fatal(err)
	}
	if err := copied.Restore(t.Context(), nc); err != nil {
		t.Fatal(err)
	}
	if err := c.Clocks.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectFault(t, faultsT(t, c), "stream AXE_RUNS was restored from a backup")
	if !c.Health.Restored(0, time.Hour) || c.Health.Restored(0, 0) {
		t.Errorf("restored within an hour %t, within no time %t; want true and false",
			c.Health.Restored(0, time.Hour), c.Health.Restored(0, 0))
	}
}
