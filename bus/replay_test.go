package bus

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"

	"github.com/axebus/axe/subjects"
)

// replay is the state before a replay: a holder has the fourth delivery of a
// message in hand, and the consumer of its feed was removed.
type replay struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // lasts as long as the bubble
	// holder is the feed that has returned the delivery.
	holder *Feed
	// other is the connection of another process.
	other *Conn
	// held is the delivery that the holder has in hand.
	held *Delivery
}

// replayLease is the lease of all deliveries in a replay.
const replayLease = 4 * time.Second

// withReplay runs fn with a replay in a bubble.
func withReplay(t *testing.T, fn func(r *replay)) {
	t.Helper()
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		server := serveT(t, ServerConfig{})
		c := openT(t, Dial{Server: server}, true)
		c.cfg.AckWait = replayLease
		other := openT(t, Dial{Server: server}, false)
		other.cfg.AckWait = replayLease
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		r := &replay{t: t, ctx: ctx, holder: openFeedT(t, c, one), other: other}
		if err := c.Workers().Answer(ctx, subjects.WorkerOf("holder"), Answers{Recall: knowsNothing}); err != nil {
			t.Fatal(err)
		}
		r.write("axe.run.echo.T1.r.call")
		for range 3 {
			if err := r.next(r.holder).Nak(0); err != nil {
				t.Fatal(err)
			}
		}
		r.held = r.next(r.holder)
		if r.held.Replayed(r.ctx) {
			t.Error("a message that is younger than its consumer is replayed")
		}
		time.Sleep(time.Second)
		if err := c.js.DeleteConsumer(t.Context(), "AXE_RUNS", "test"); err != nil {
			t.Fatal(err)
		}
		fn(r)
	})
}

// write stores a call without a body.
func (r *replay) write(subject string) {
	r.t.Helper()
	if _, err := r.holder.conn.Write(r.ctx, Message{Subject: subject}); err != nil {
		r.t.Fatal(err)
	}
}

// next returns the next delivery of a feed.
func (r *replay) next(f *Feed) *Delivery {
	r.t.Helper()
	d, err := f.Next(r.ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// kept asks the holder, from the other process, whether it keeps a delivery.
func (r *replay) kept(d *Delivery) bool {
	return r.other.Workers().Keeps(r.ctx, subjects.WorkerOf("holder"), d)
}

// expectAgain gives back the message in hand. The server must deliver it again
// at once, as the second delivery of the new consumer.
func (r *replay) expectAgain(f *Feed) {
	r.t.Helper()
	began := time.Now()
	if err := r.held.Nak(0); err != nil {
		r.t.Fatal(err)
	}
	if d := r.next(f); d.Count != 2 || d.Seq != r.held.Seq || time.Since(began) > 0 {
		r.t.Errorf("delivery %d of message %d after %v, want delivery 2 of %d at once",
			d.Count, d.Seq, time.Since(began), r.held.Seq)
	}
}

// TestReplayToItsHolder: a process receives a message that it already has in
// hand. It goes on with the delivery that it has, under the lease of the new
// one. No feed of the process returns the new one.
func TestReplayToItsHolder(t *testing.T) {
	withReplay(t, func(r *replay) {
		again := openFeedT(r.t, r.holder.conn, one)
		r.write("axe.run.echo.T2.r.call")
		if d := r.next(again); d.Subject != "axe.run.echo.T2.r.call" {
			t.Errorf("got a delivery of %s, want the call of T2", d.Subject)
		}
		time.Sleep(replayLease * 7 / 8)
		if r.held.LeaseExpired() {
			t.Error("the lease has expired, though the server has delivered the message anew")
		}
		r.expectAgain(again)
	})
}

// TestReplayToAnotherProcess: a process that receives a replayed message asks
// the holder. The holder keeps the message, and its nak counts for the newest
// delivery.
func TestReplayToAnotherProcess(t *testing.T) {
	withReplay(t, func(r *replay) {
		feed := openFeedT(r.t, r.other, one)
		d := r.next(feed)
		if !d.Replayed(r.ctx) {
			t.Error("a message that is older than its consumer is not replayed")
		}
		if !r.kept(d) {
			t.Fatal("the holder does not keep the message")
		}
		d.Leave()
		r.expectAgain(feed)
	})
}

// TestHolderWithoutLease: a process keeps no message when its lease may be
// over, or when it has acknowledged the message.
func TestHolderWithoutLease(t *testing.T) {
	for name, end := range map[string]func(r *replay){
		"late":         func(*replay) { time.Sleep(replayLease) },
		"acknowledged": func(r *replay) { _ = r.held.Ack() },
	} {
		t.Run(name, func(t *testing.T) {
			withReplay(t, func(r *replay) {
				end(r)
				if d := r.next(openFeedT(r.t, r.other, one)); r.kept(d) {
					t.Error("the holder keeps the message")
				}
				if late := r.held.LeaseExpired(); late != (name == "late") {
					t.Errorf("lease expired: %t, want %t", late, name == "late")
				}
			})
		})
	}
}

// TestFeedOfANewConsumer: a process that has no request at its consumer does
// not notice that the consumer was removed and made again. Nevertheless its
// next delivery, from the new consumer, is replayed.
func TestFeedOfANewConsumer(t *testing.T) {
	withReplay(t, func(r *replay) {
		time.Sleep(time.Second)
		if err := openFeedT(r.t, r.other, one).conn.Flush(r.ctx); err != nil {
			t.Fatal(err)
		}
		if err := r.held.Ack(); err != nil {
			t.Fatal(err)
		}
		if d := r.next(r.holder); d.Count != 1 || !d.Replayed(r.ctx) {
			t.Errorf("delivery %d, replayed %t; want delivery 1, replayed", d.Count, d.Replayed(r.ctx))
		}
	})
}

// knowsNothing is for a worker that recalls no answer of a model.
func knowsNothing(string) []byte { return nil }
