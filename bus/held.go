package bus

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// Held is a message that a worker has in hand.
type Held struct {
	// Ack is the subject for the acknowledgement of its delivery. Any
	// process may give the message back there.
	Ack string `json:"ack"`
	// Subject is the subject of the message.
	Subject string `json:"subject"`
	// Since is the server's time at which the worker received it.
	Since time.Time `json:"since"`
}

// HeldList is what the process of a worker has in hand, as it has stored it.
type HeldList struct {
	// Process is the time at which the process began.
	Process time.Time `json:"process"`
	// Messages are sorted by Since.
	Messages []Held `json:"messages"`
}

// maxHeld bounds a HeldList. The messages beyond it come again when their
// leases are over.
const maxHeld = 5000

// maxHeldBytes bounds the size of a list that is read.
const maxHeldBytes = 16 << 20

// Held lists the messages that this process has had in hand for least or
// longer, the oldest first, maxHeld at most.
func (w *Workers) Held(least time.Duration) []Held {
	now := time.Now()
	server := w.conn.Clocks.Now()
	var all []Held
	w.conn.leases.mu.Lock()
	for _, d := range w.conn.leases.held {
		age := now.Sub(d.Received)
		if age < least {
			continue
		}
		since := server.Add(-age).UTC().Truncate(time.Millisecond)
		all = append(all, Held{Ack: d.msg.Load().Reply, Subject: d.Subject, Since: since})
	}
	w.conn.leases.mu.Unlock()
	slices.SortFunc(all, func(a, b Held) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Ack, b.Ack))
	})
	return all[:min(len(all), maxHeld)]
}

// LetGo lets go of the messages of a list that are still in hand, as if their
// leases were over: another process has given them back.
func (w *Workers) LetGo(list []Held) {
	l := &w.conn.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range list {
		id, _, err := messageOf(&nats.Msg{Reply: m.Ack, Sub: &nats.Subscription{}})
		if d := l.held[id]; err == nil && d != nil {
			l.lose(d)
		}
	}
}

// heldKey is the key of a worker's HeldList. List does not see it.
func heldKey(worker subjects.Worker) string { return "held." + worker.String() }

// PutHeld stores the list of a worker, over the one of the revision was, 0 for
// none. It tries until ctx ends. The error wraps a *ConflictError if there is
// another revision.
func (w *Workers) PutHeld(
	ctx context.Context, worker subjects.Worker, was uint64, list HeldList,
) (rev uint64, err error) {
	body, err := json.Marshal(list)
	if err != nil {
		return 0, err
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	// A buffer takes everything.
	_, _ = zip.Write(body)
	_ = zip.Close()
	return w.store(ctx, heldKey(worker), was, packed.Bytes())
}

// HeldBy reads the list of a worker, and the revision of its key; 0 if the key
// has none. A value that is no list has a revision too, beside the error. So
// has the marker of a deleted key. HeldBy asks once, and waits for 1 s at most.
func (w *Workers) HeldBy(ctx context.Context, worker subjects.Worker) (list HeldList, rev uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, workersTimeout)
	defer cancel()
	ms, _, err := w.get(ctx, directGet{MultiLast: []string{w.subject(heldKey(worker))}})
	if err != nil || len(ms) == 0 {
		return list, 0, err
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(ms[0].Body))
	if err == nil {
		err = json.NewDecoder(io.LimitReader(unpacked, maxHeldBytes)).Decode(&list)
	}
	if err != nil {
		return HeldList{}, ms[0].Seq, fmt.Errorf("messages in hand of worker %s: %w", worker, err)
	}
	return list, ms[0].Seq, nil
}

// GiveBack gives back messages that a worker had in hand which is gone. The
// server delivers them again at once. It ignores those that were acknowledged
// since. GiveBack does nothing while it is not certain that the streams are
// those of the list. It waits for 1 s at most until the server has them.
func (w *Workers) GiveBack(ctx context.Context, list []Held) error {
	if !w.conn.Health.isConfirmed() {
		return errUnconfirmed
	}
	for _, m := range list {
		if err := w.conn.nc.Publish(m.Ack, []byte("-NAK")); err != nil {
			return fmt.Errorf("give back %s: %w", m.Subject, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, workersTimeout)
	defer cancel()
	return w.conn.Flush(ctx)
}

// settleTime is the time after a reconnect within which workers are not judged:
// their connections may have broken with this one.
const settleTime = 3 * time.Second

// Settled reports whether this connection has lasted for 3 s, or has never
// broken.
func (w *Workers) Settled() bool {
	at := w.conn.inflight.redialed.Load()
	return at == 0 || time.Since(time.Unix(0, at)) > settleTime
}

const (
	// goneLooks is the number of times that a worker is asked which the
	// server does not know, goneInterval apart, before it counts as gone. A
	// worker whose server in a cluster has gone has connected to another
	// one by then.
	goneLooks    = 3
	goneInterval = 100 * time.Millisecond
)

// IsGone reports whether the server knows no process of a worker. A worker that
// does not answer in time is not gone: it may be frozen. Soon after a reconnect
// of this process no worker is gone.
func (w *Workers) IsGone(ctx context.Context, worker subjects.Worker) bool {
	for look := range goneLooks {
		if look > 0 && pause.For(ctx, goneInterval) != nil {
			return false
		}
		// A request that was on its way to a process at its death gets
		// no answer. The next look is soon.
		ask, cancel := context.WithTimeout(ctx, 2*goneInterval)
		_, err := w.Ask(ask, worker)
		cancel()
		if !errors.Is(err, ErrNoWorker) {
			return false
		}
	}
	return w.Settled()
}
