package bus

import "context"

// MakeBuckets makes the buckets of workers, activity, memory and rate limits,
// with the replicas of the streams. Without it, the first worker that needs a
// bucket makes it. The streams have to be there. MakeBuckets tries until ctx
// ends.
func MakeBuckets(ctx context.Context, c *Conn) error {
	for _, b := range []*bucket{c.Workers().bucket, c.Activity().bucket, c.Memory().bucket, c.RateLimit("").bucket} {
		if err := b.do(ctx, func() (bool, error) { return false, nil }); err != nil {
			return err
		}
	}
	return nil
}
