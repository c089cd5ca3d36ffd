package bus

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"
)

// readT checks the value of a rate limit and returns its revision, which is 0
// without a value.
func readT(t *testing.T, r *RateLimit, want string) (rev uint64) {
	t.Helper()
	value, rev, err := r.Read(t.Context(), 0)
	if err != nil || string(value) != want {
		t.Errorf("read %q, %v; want %q", value, err, want)
	}
	return rev
}

// swapT stores a value after the revision was and returns the new revision.
func swapT(t *testing.T, r *RateLimit, was uint64, value string) (rev uint64) {
	t.Helper()
	rev, err := r.Swap(t.Context(), was, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return rev
}

// TestRateLimit: Swap stores a value only after the last revision. Each key has
// its own value.
func TestRateLimit(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	one, other := c.RateLimit("openai-1"), c.RateLimit("openai-2")
	if rev := readT(t, one, ""); rev != 0 {
		t.Errorf("without a value: revision %d, want 0", rev)
	}
	rev := swapT(t, one, 0, "a")
	swapT(t, other, 0, "x")
	_, err := one.Swap(t.Context(), 0, []byte("b"))
	if refused, ok := errors.AsType[*ConflictError](err); !ok || refused.Last != rev {
		t.Errorf("got %v, want a conflict with revision %d", err, rev)
	}
	readT(t, one, "a")
	swapT(t, one, rev, "c")
	readT(t, one, "c")
	readT(t, other, "x")
	if got := one.String(); got != "bucket AXE_LIMITS, key openai-1" {
		t.Errorf("named %q, want bucket AXE_LIMITS, key openai-1", got)
	}
}

// TestRateLimitLosesNoSwap: four workers add 1 to a number at the same time, 25
// times each. The number has all of their additions.
func TestRateLimitLosesNoSwap(t *testing.T) {
	server := serveT(t, ServerConfig{})
	openT(t, Dial{Server: server}, true)
	const workers, times = 4, 25
	var wg sync.WaitGroup
	for range workers {
		r := openT(t, Dial{Server: server}, false).RateLimit("sum")
		wg.Go(func() {
			for range times {
				addOne(t, r)
			}
		})
	}
	wg.Wait()
	readT(t, openT(t, Dial{Server: server}, false).RateLimit("sum"), strconv.Itoa(workers*times))
}

// addOne adds 1 to the number that a rate limit holds. After a conflict with
// another writer it reads again.
func addOne(t *testing.T, r *RateLimit) {
	t.Helper()
	minSeq := uint64(0)
	for {
		value, rev, err := r.Read(t.Context(), minSeq)
		if err != nil {
			t.Errorf("read: %v", err)
			return
		}
		n, _ := strconv.Atoi(string(value))
		_, err = r.Swap(t.Context(), rev, []byte(strconv.Itoa(n+1)))
		refused, ok := errors.AsType[*ConflictError](err)
		if !ok {
			if err != nil {
				t.Errorf("swap: %v", err)
			}
			return
		}
		minSeq = refused.Last
	}
}

// TestRateLimitWatch: a watch reports the present value and each later one, and
// ends with its context.
func TestRateLimitWatch(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	r := c.RateLimit("watched")
	rev := swapT(t, r, 0, "a")
	rev = swapT(t, r, rev, "b")
	ctx, stop := context.WithCancel(t.Context())
	seen, ended := make(chan string, 10), make(chan error, 1)
	go func() { ended <- r.Watch(ctx, func(value []byte, _ uint64) { seen <- string(value) }) }()
	next := func(want string) {
		t.Helper()
		select {
		case got := <-seen:
			if got != want {
				t.Errorf("value %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("value %q did not come", want)
		}
	}
	next("b")
	swapT(t, c.RateLimit("another"), 0, "x")
	swapT(t, r, rev, "c")
	next("c")
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v, want context.Canceled", err)
	}
}

// TestRateLimitWatchOfANewBucket: a watch ends when its bucket was removed and
// made again. The revisions of the new one begin anew.
func TestRateLimitWatchOfANewBucket(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	r := c.RateLimit("watched")
	swapT(t, r, swapT(t, r, 0, "a"), "b")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	begun, ended := make(chan string, 10), make(chan error, 1)
	go func() { ended <- r.Watch(ctx, func(value []byte, _ uint64) { begun <- string(value) }) }()
	if got := <-begun; got != "b" {
		t.Errorf("value %q, want b", got)
	}
	if err := c.js.DeleteKeyValue(ctx, "AXE_LIMITS"); err != nil {
		t.Fatal(err)
	}
	if err := MakeBuckets(ctx, openT(t, c.cfg.Dial, false)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, errReplaced) {
		t.Errorf("the watch ended with %v, want that the bucket is another one", err)
	}
}

// TestRateLimitIsCreatedAgain: the bucket is created again after an operator
// has removed it. The refused write names revision 0, so the read after it does
// not wait for a removed revision.
func TestRateLimitIsCreatedAgain(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	r := c.RateLimit("k")
	swapT(t, r, swapT(t, r, 0, "a"), "b")
	if err := c.js.DeleteKeyValue(t.Context(), "AXE_LIMITS"); err != nil {
		t.Fatal(err)
	}
	_, err := r.Swap(t.Context(), 2, []byte("c"))
	if refused, ok := errors.AsType[*ConflictError](err); !ok || refused.Last != 0 {
		t.Fatalf("got %v, want a conflict with revision 0", err)
	}
	if rev := readT(t, r, ""); rev != 0 {
		t.Errorf("revision %d, want 0", rev)
	}
	swapT(t, r, 0, "d")
	readT(t, r, "d")
}
