package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"

	"github.com/axebus/axe/subjects"
)

// TestFollowHostileStatus: stored messages without a body have the headers by
// which a server ends a request, says that it stands, or that its consumer is
// gone. A follower sees each of them once, in order, and those behind them.
func TestFollowHostileStatus(t *testing.T) {
	t.Parallel()
	server := serveT(t, ServerConfig{})
	c := openT(t, Dial{Server: server}, true)
	r := c.Space().Run(agentT(t, "a"), treeT(t, "T"), subjects.Root)
	var want []string
	write := func(i int, header ...[2]string) {
		t.Helper()
		subject := r.Space.Run(r.Agent, r.Tree, r.Path.Child(1, i)).Cancel()
		if _, err := c.Write(t.Context(), Message{Subject: subject, Header: header}); err != nil {
			t.Fatal(err)
		}
		want = append(want, subject)
	}
	hostile := func(from int) {
		for i, h := range statuses {
			write(from+2*i, [2]string{"Status", h[0]}, [2]string{"Description", h[1]},
				[2]string{"Nats-Pending-Messages", "many"})
			write(from + 2*i + 1)
		}
	}
	hostile(0)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var mu sync.Mutex
	var got []string
	seen := func(n int) func(Stored) {
		return func(m Stored) {
			mu.Lock()
			defer mu.Unlock()
			if got = append(got, m.Subject); len(got) == n {
				cancel()
			}
		}
	}
	const all = 40
	caught := make(chan struct{})
	following := make(chan error, 1)
	go func() { following <- c.Follow(ctx, c.Space().Cancels(), seen(all), func() { close(caught) }) }()
	select {
	case <-caught:
	case <-ctx.Done():
		t.Fatal("the follower has not caught up with the messages before it")
	}
	hostile(all / 2)
	if err := <-following; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the end of the test", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages seen (-want +got):\n%s", diff)
	}
}

// TestFollowManyMessages: a follower asks again after each batch.
func TestFollowManyMessages(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	r := c.Space().Run(agentT(t, "a"), treeT(t, "T"), subjects.Root)
	ms := make([]Message, 2*followBatch+1)
	for i := range ms {
		ms[i] = Message{Subject: r.Space.Run(r.Agent, r.Tree, r.Path.Child(1, i)).Cancel()}
	}
	for _, err := range c.WriteAll(t.Context(), ms) {
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n := uint64(0)
	_ = c.Follow(ctx, c.Space().Cancels(), func(m Stored) {
		if n++; m.Seq != n {
			t.Error(fmt.Sprint("message ", m.Seq, " is number ", n))
		}
	}, cancel)
	if n != uint64(len(ms)) {
		t.Errorf("%d messages, want %d", n, len(ms))
	}
}

// statuses are the headers of words of a server: of one that ends a request,
// says that it stands, or that its consumer is gone.
var statuses = [][2]string{
	{"100", "Idle Heartbeat"},
	{"100", "FlowControl Request"},
	{"404", "No Messages"},
	{"408", "Request Timeout"},
	{"409", "Consumer Deleted"},
	{"409", "Batch Completed"},
	{"409", "Server Shutdown"},
	{"400", "Bad Request"},
	{"423", "Nats-Pin-Id mismatch"},
	{"503", ""},
}

// hostileT stores a value without a body, with the headers of a word of the
// server.
func hostileT(t *testing.T, c *Conn, subject string, header [2]string) {
	t.Helper()
	m := nats.NewMsg(subject)
	m.Header.Set("Status", header[0])
	m.Header.Set("Description", header[1])
	m.Header.Set("Nats-Pending-Messages", "many")
	m.Header.Set("Nats-Consumer-Stalled", "$JS.FC.x")
	m.Header.Set("Nats-Last-Consumer", "1000")
	if _, err := c.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// TestDirectoryWatchHostileStatus: a watch of the cards sees the values that
// have headers of a word of the server, those before it and those after it, and
// the values behind them. It does not take them for removed ones.
func TestDirectoryWatchHostileStatus(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	dir, err := c.Directory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put := func(key string) {
		t.Helper()
		if _, err := dir.Put(t.Context(), key, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	hostile := func(name string) {
		t.Helper()
		for i, header := range statuses {
			hostileT(t, c, c.bucket("AGENTS", "").subject(fmt.Sprint(name, i)), header)
		}
	}
	hostile("before")
	put("one")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var mu sync.Mutex
	seen := map[string]int{}
	caught, watching := make(chan struct{}), make(chan error, 1)
	go func() {
		watching <- dir.Watch(ctx, func(key string, value []byte) {
			mu.Lock()
			defer mu.Unlock()
			if seen[key]++; value == nil {
				t.Errorf("the value of %s is removed", key)
			}
			if key == "two" {
				cancel()
			}
		}, func() { close(caught) })
	}()
	select {
	case <-caught:
	case <-ctx.Done():
		t.Fatal("the watch has not caught up with the values before it")
	}
	hostile("after")
	put("two")
	if err := <-watching; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want the end of the test", err)
	}
	want := map[string]int{"one": 1, "two": 1}
	for i := range statuses {
		want[fmt.Sprint("before", i)], want[fmt.Sprint("after", i)] = 1, 1
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("values seen (-want +got):\n%s", diff)
	}
}

// TestRateLimitWatchHostileStatus: a watch of a rate limit sees a value that has
// headers of a word of the server, whether it is the first one or a later one.
// It goes on with the value behind it.
func TestRateLimitWatchHostileStatus(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	if err := MakeBuckets(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for i, header := range statuses {
		r := c.RateLimit(fmt.Sprint("watched", i))
		hostile := func() { hostileT(t, c, r.subject(r.key), header) }
		hostile()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		seen, watching := make(chan uint64, 10), make(chan error, 1)
		go func() { watching <- r.Watch(ctx, func(_ []byte, rev uint64) { seen <- rev }) }()
		next := func() (rev uint64) {
			t.Helper()
			select {
			case rev = <-seen:
			case err := <-watching:
				t.Fatalf("%v: the watch has ended: %v", header, err)
			}
			return rev
		}
		first := next()
		hostile()
		second := next()
		if third := swapT(t, r, second, "b"); second <= first || next() != third {
			t.Errorf("%v: the watch did not see each revision once", header)
		}
		cancel()
		if err := <-watching; !errors.Is(err, context.Canceled) {
			t.Errorf("%v: error %v, want the end of the test", header, err)
		}
	}
}

// TestDirectoryWatchLargeBucket: a server that pushes many bytes asks whether
// the watch keeps up, and waits for the answer.
func TestDirectoryWatchLargeBucket(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	dir, err := c.Directory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const values = 200
	for i := range values {
		if _, err := dir.Put(t.Context(), fmt.Sprint("agent", i), make([]byte, 64<<10)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n := 0
	if err := dir.Watch(ctx, func(string, []byte) { n++ }, cancel); !errors.Is(err, context.Canceled) || n != values {
		t.Errorf("%d values, error %v; want %d, and all of them in time", n, err, values)
	}
}

// TestFollowerBehind: messages are dropped that come faster than the follower
// takes them, and none comes after them. The follower misses them by the next
// sign of life of the server.
func TestFollowerBehind(t *testing.T) {
	t.Parallel()
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) {
		c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
		dir, err := c.Directory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const all = 5
		for i := range all {
			if _, err := dir.Put(t.Context(), fmt.Sprint("k", i), []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var got []uint64
		b := c.bucket("AGENTS", "")
		f := follower{
			conn: c, stream: b.streamName(), filter: b.subject(">"), bucket: true, pushed: true, room: 1,
			fn: func(m Stored) {
				if got = append(got, m.Seq); len(got) == 1 {
					time.Sleep(time.Second) // the others have come by then
				}
				if m.Seq == all {
					cancel()
				}
			},
			caught: func() {},
		}
		if err := f.run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want the end of the test", err)
		}
		if diff := cmp.Diff([]uint64{1, 2, 3, 4, 5}, got); diff != "" {
			t.Errorf("messages seen (-want +got):\n%s", diff)
		}
	})
}

// TestFollowerLooksAfterItsConsumer: a bucket is made again when a follower has
// found it missing, and before the follower makes its next consumer. That
// consumer would wait for a sequence that the new bucket reaches late. The
// follower ends.
func TestFollowerLooksAfterItsConsumer(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	dir, err := c.Directory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Put(t.Context(), "a", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	b := agentsBucket(c)
	f := follower{
		conn: c, stream: b.streamName(), filter: b.subject(">"), bucket: true, pushed: true,
		fn: func(Stored) {}, caught: func() {}, seq: 1,
	}
	began := f.madeAt(ctx)
	if err := c.js.DeleteStream(ctx, b.streamName()); err != nil {
		t.Fatal(err)
	}
	if err := c.Provision(ctx, Provision{}); err != nil {
		t.Fatal(err)
	}
	if err := f.consume(ctx, began); !errors.Is(err, errReplaced) {
		t.Errorf("the follower ended with %v, want that the bucket is another one", err)
	}
}
