package bus

import (
	"context"
	"fmt"

	"github.com/axebus/axe/internal/pause"
)

// RateLimit is one small value that all workers change by compare-and-set: the
// use of one provider account. It is a key of a key-value bucket. A RateLimit
// is safe for concurrent use.
type RateLimit struct {
	*bucket
	key string
}

// RateLimit is the value under a key of letters, digits, - and _. It makes no
// request yet.
func (c *Conn) RateLimit(key string) *RateLimit {
	return &RateLimit{c.bucket("LIMITS", "What may be asked of providers, of all workers together"), key}
}

// String names the bucket and the key as the nats CLI does.
func (r *RateLimit) String() string { return r.bucket.String() + ", key " + r.key }

// Read returns the value and its revision, 0 if none was ever stored. A removed
// value is empty and has a revision. Read repeats requests without an answer
// until ctx ends. The replica that answers may lag. The answer is revision
// minSeq or a later one: after a refused write, pass ConflictError.Last; 0
// takes any. Read fails if replicas answer without that revision for 5 s.
func (r *RateLimit) Read(ctx context.Context, minSeq uint64) (value []byte, rev uint64, err error) {
	err = r.do(ctx, func() (again bool, _ error) {
		for range maxLagPolls {
			ms, again, err := r.get(ctx, directGet{MultiLast: []string{r.subject(r.key)}})
			if err != nil {
				return again, err
			}
			if len(ms) > 0 {
				value, rev = ms[0].Body, ms[0].Seq
			}
			if rev >= minSeq {
				return false, nil
			}
			if err := pause.For(ctx, lagPoll); err != nil {
				return false, err
			}
		}
		return false, fmt.Errorf("revision %d is missing", minSeq)
	})
	return value, rev, err
}

// maxLagPolls times lagPoll is 5 s, and the requests take a time of their own.
// A message that is missing for longer may have been removed.
const maxLagPolls = 500

// Swap stores a value if the last revision is was; 0 means that there is no
// value. It tries until ctx ends. The error wraps a *ConflictError if there is
// another revision. After a lost acknowledgement that revision may be the value
// itself.
func (r *RateLimit) Swap(ctx context.Context, was uint64, value []byte) (rev uint64, err error) {
	return r.swap(ctx, r.key, was, value)
}

// Watch calls fn, one value at a time, for the present value and later ones. It
// may skip one that is soon replaced. It ends with ctx, if it cannot begin, and
// if the bucket was removed and made again. Revisions of a new bucket begin
// anew.
func (r *RateLimit) Watch(ctx context.Context, fn func(value []byte, rev uint64)) error {
	if _, err := r.open(ctx); err != nil {
		return fmt.Errorf("watch %s: %w", r, err)
	}
	f := follower{
		conn: r.conn, stream: r.streamName(), filter: r.subject(r.key), bucket: true,
		fn: func(m Stored) { fn(m.Body, m.Seq) }, caught: func() {},
	}
	err := f.run(ctx)
	if ctx.Err() == nil {
		err = fmt.Errorf("watch %s: %w", r, err)
	}
	return err
}
