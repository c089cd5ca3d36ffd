package bus

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// Update stores the next message of a subject by compare-and-set. Change makes
// its body from the body of the last message, which is nil if the subject has
// no message. If another writer stores a message at the same time, Update calls
// change again with the new last body. Exactly one change is stored, also after
// lost acknowledgements. If change returns nil, Update stores nothing and
// returns no error.
func (c *Conn) Update(ctx context.Context, subject string, change func(last []byte) (next []byte)) error {
	ms, err := c.current(ctx, subject)
	if err != nil {
		return err
	}
	for {
		var last Stored
		if len(ms) > 0 {
			last = ms[len(ms)-1]
		}
		m := Message{
			Subject: subject,
			Body:    change(last.Body),
			ID:      subject + "." + NewID(),
			Fence:   After(subject, last.Seq),
		}
		if m.Body == nil {
			return nil
		}
		_, err := c.Write(ctx, m)
		refused, ok := errors.AsType[*ConflictError](err)
		if !ok {
			return err
		}
		if ms, err = c.since(ctx, subject, last.Seq, refused.Last); err != nil {
			return err
		}
		for _, other := range ms {
			if other.Header.Get(jetstream.MsgIDHeader) == m.ID {
				// The write was stored and its acknowledgement
				// lost.
				return nil
			}
		}
	}
}

// current reads the last message of a subject. On replicas it is the message
// that the leader has.
func (c *Conn) current(ctx context.Context, subject string) ([]Stored, error) {
	if c.Replicas() <= 1 {
		return c.LastPerSubject(ctx, subject)
	}
	last, err := c.LastSeq(ctx, subject)
	if err != nil || last == 0 {
		return nil, err
	}
	return c.ScanUntil(ctx, subject, last-1, last)
}

// since reads the messages of a subject that follow the sequence after. It
// reads until the answer contains the subject's last message, of the sequence
// last. If last is 0 or at most after, messages have been removed meanwhile.
func (c *Conn) since(ctx context.Context, subject string, after, last uint64) ([]Stored, error) {
	if last == 0 {
		return nil, nil
	}
	return c.ScanUntil(ctx, subject, min(after, last-1), last)
}
