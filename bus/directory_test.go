package bus

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server/ats"
)

// TestDirectoryWatchOutlivesItsBucket: the bucket of a watch is removed, and
// made again after a time. The watch goes on, and reports the keys that were
// removed meanwhile. After a minute, the client library has given its watch up.
// If the bucket is made again at once, the library waits for a sequence that
// the new bucket does not have yet. It may be made again twice.
func TestDirectoryWatchOutlivesItsBucket(t *testing.T) {
	for _, missing := range []time.Duration{time.Minute, 0} {
		t.Run(missing.String(), func(t *testing.T) { outliveBucket(t, missing) })
	}
}

// outliveBucket is TestDirectoryWatchOutlivesItsBucket for a time.
func outliveBucket(t *testing.T, missing time.Duration) {
	t.Helper()
	ats.Register()
	defer ats.Unregister()
	// The library keeps timers for later use. The use of a bubble's timer
	// outside the bubble is fatal. Two collections empty the library's pool.
	defer func() {
		runtime.GC()
		runtime.GC()
	}()
	synctest.Test(t, func(t *testing.T) {
		server := serveT(t, ServerConfig{})
		conn := openT(t, Dial{Server: server}, true)
		ctx, cancel := context.WithCancel(t.Context())
		dir, err := conn.Directory(ctx)
		if err != nil {
			t.Fatal(err)
		}
		put := func(key string) {
			if _, err := dir.Put(ctx, key, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			put("stays")
		}
		put("goes")
		var mu sync.Mutex
		var seen []string
		caught := 0
		var watching sync.WaitGroup
		watching.Go(func() {
			_ = dir.Watch(ctx, func(key string, value []byte) {
				mu.Lock()
				defer mu.Unlock()
				if value == nil {
					key += " is gone"
				}
				seen = append(seen, key)
			}, func() { caught++ })
		})
		time.Sleep(time.Second)
		bucket := "KV_" + conn.cfg.Space.Name("AGENTS")
		for _, key := range []string{"comes", "comes-again"} {
			if err := conn.js.DeleteStream(ctx, bucket); err != nil {
				t.Fatal(err)
			}
			// The library misses heartbeats, asks for another
			// consumer, and may be refused.
			time.Sleep(missing)
			if err := conn.Provision(ctx, Provision{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			put("stays")
			put(key)
			time.Sleep(time.Second)
		}
		cancel()
		watching.Wait()
		want := []string{
			"stays", "goes", "goes is gone", "stays is gone", "stays", "comes",
			"comes is gone", "stays is gone", "stays", "comes-again",
		}
		if diff := cmp.Diff(want, slices.Compact(seen)); diff != "" || caught != 1 {
			t.Errorf("caught up %d times, want 1; keys (-want +got):\n%s", caught, diff)
		}
	})
}

// TestPutTogether: values are stored together, or none of them. A bucket of an
// earlier version refuses to, until Provision has changed it.
func TestPutTogether(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{SyncAlways: true})}, true)
	dir, err := c.Directory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	values := map[string][]byte{}
	for i := range 300 {
		values[fmt.Sprintf("agent%d", i)] = fmt.Appendf(nil, "card %d", i)
	}
	expect := func(want int) {
		t.Helper()
		all, err := dir.All(t.Context())
		if err != nil || len(all) != want {
			t.Errorf("the bucket has %d values, want %d; error %v", len(all), want, err)
		}
	}
	bucket := "KV_" + c.cfg.Space.Name("AGENTS")
	s, err := c.js.Stream(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	earlier := s.CachedInfo().Config
	earlier.AllowAtomicPublish = false
	if _, err := c.js.UpdateStream(t.Context(), earlier); err != nil {
		t.Fatal(err)
	}
	if err := dir.PutTogether(t.Context(), values); err == nil {
		t.Error("a bucket of an earlier version: got no error, want one")
	}
	expect(0)
	if err := c.Provision(t.Context(), Provision{}); err != nil {
		t.Fatal(err)
	}
	// Wherever the key comes in the map's order, it makes the batch fail.
	values["."] = []byte("no key")
	if err := dir.PutTogether(t.Context(), values); err == nil {
		t.Error("a key that the bucket does not have: got no error, want one")
	}
	expect(0)
	delete(values, ".")
	var told atomic.Int64
	c.cfg.Observe = func(e Exchange) {
		if e.Op == OpWrite {
			told.Add(1)
		}
	}
	for range 2 { // whatever value a key has
		if err := dir.PutTogether(t.Context(), values); err != nil {
			t.Fatal(err)
		}
		expect(300)
	}
	if n := told.Load(); n != 2 {
		t.Errorf("Observe was told of %d writes, want one for each call", n)
	}
	if got, _, ok, err := dir.Get(t.Context(), "agent7"); string(got) != "card 7" || !ok || err != nil {
		t.Errorf("agent7: got %q (found %t), error %v, want card 7", got, ok, err)
	}
	if err := dir.PutTogether(t.Context(), nil); err != nil {
		t.Errorf("no values: got %v, want no error", err)
	}
}
