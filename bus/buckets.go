package bus

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
)

// MakeBuckets makes the buckets that workers make otherwise when they need them
// first, with the replicas of the streams. The streams have to be there. It
// tries until ctx ends.
func MakeBuckets(ctx context.Context, c *Conn) error {
	for _, b := range []*bucket{c.Workers().bucket, c.Activity().bucket, c.Memory().bucket, c.RateLimit("").bucket} {
		if err := b.do(ctx, func(jetstream.Stream) (bool, error) { return false, nil }); err != nil {
			return err
		}
	}
	return nil
}
