package ratelimit_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/internal/ratelimit"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/provider"
)

// TestBucketIsMadeAgain: two workers share one permit, and learn of each
// other's releases. They do so too after the bucket was removed and made again,
// though revisions of the new bucket are lower than those of the old one.
func TestBucketIsMadeAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make walks runs it")
	}
	t.Parallel()
	conn := testbus.Open(t)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	limiter := func(worker string) *ratelimit.Limiter {
		all := ratelimit.New(conn, worker, slog.New(slog.DiscardHandler))
		running.Go(func() { _ = all.Run(ctx) })
		return all.Of("sim", ratelimit.Settings{Concurrent: 1})
	}
	one, other := limiter("one"), limiter("other")
	acquire := func(ctx context.Context, l *ratelimit.Limiter) func(*provider.Response, error) {
		release, err := l.Acquire(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	// handOver lets one release the permit while other waits for it. Other
	// must get it before the lease of one would end.
	handOver := func() {
		t.Helper()
		release := acquire(ctx, one)
		soon, cancel := context.WithTimeout(ctx, ratelimit.Lease/2)
		defer cancel()
		waits := make(chan error, 1)
		go func() {
			release, err := other.Acquire(soon, nil)
			if err == nil {
				release(&provider.Response{}, nil)
			}
			waits <- err
		}()
		for reason, _ := other.Waiting(); reason == "" && soon.Err() == nil; reason, _ = other.Waiting() {
			time.Sleep(time.Millisecond)
		}
		release(&provider.Response{}, nil)
		if err := <-waits; err != nil {
			t.Errorf("the other worker did not get the released permit within half a lease: %v", err)
		}
	}
	for range 5 {
		handOver()
	}
	_, js := conn.NATS()
	if err := js.DeleteKeyValue(ctx, "AXE_LIMITS"); err != nil {
		t.Fatal(err)
	}
	handOver()
	handOver()
}
