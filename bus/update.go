package bus

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// Update stores a message that is made of the last one of its subject, nil if
// there is none. Somebody else may store one at the same time; change is called
// again then, with that. What change makes of the message that is stored in the
// end was made once, lost acknowledgements or not. A change that returns nil
// stores nothing.
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
				return nil // the acknowledgement was lost
			}
		}
	}
}

// current reads the last message of a subject; on replicas the one that the
// leader has.
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

// since reads what a subject has after a message, until that contains another
// one: the one that it ends with. Where that is an earlier one, or none, what
// was read has been removed meanwhile.
func (c *Conn) since(ctx context.Context, subject string, after, last uint64) ([]Stored, error) {
	if last == 0 {
		return nil, nil
	}
	return c.ScanUntil(ctx, subject, min(after, last-1), last)
}
