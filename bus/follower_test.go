package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
		for i, h := range [][2]string{
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
		} {
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
