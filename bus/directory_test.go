package bus

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server/ats"
)

// TestDirectoryWatchOutlivesItsBucket: the bucket of a watch is missing for a
// minute, and the client library gives the watch up. The watch goes on when the
// bucket is made again. It reports the keys that were removed meanwhile.
func TestDirectoryWatchOutlivesItsBucket(t *testing.T) {
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
		put("stays")
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
		if err := conn.js.DeleteStream(ctx, bucket); err != nil {
			t.Fatal(err)
		}
		// The library misses heartbeats, asks for another consumer, and
		// is refused.
		time.Sleep(time.Minute)
		if err := conn.Provision(ctx, Provision{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		put("stays")
		put("comes")
		time.Sleep(time.Second)
		cancel()
		watching.Wait()
		want := []string{"stays", "goes", "goes is gone", "stays is gone", "stays", "comes"}
		if diff := cmp.Diff(want, slices.Compact(seen)); diff != "" || caught != 1 {
			t.Errorf("caught up %d times, want 1; keys (-want +got):\n%s", caught, diff)
		}
	})
}
