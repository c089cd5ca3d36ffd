package toolset_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/internal/toolset"
	"github.com/axebus/axe/subjects"
)

// remote returns a toolset with the tool far, an agent of the bus at a URL.
func remote(t *testing.T, url string) toolset.Canceller {
	t.Helper()
	set, err := toolset.Remote(configs.Toolset{
		Name: "acme", Kind: configs.ToolsetRemote, Server: url, Tools: map[string]configs.ToolsetTool{"far": {}},
	}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	return set
}

// callFar is a call of the tool far.
var callFar = toolset.Call{
	Tool: "far", Arguments: json.RawMessage(`{"task":"the task"}`), Key: "k", CalledAt: time.Unix(1, 0),
}

// silentServer accepts connections and says nothing. Accepted returns the
// number of them so far.
func silentServer(t *testing.T) (url string, accepted func() int64) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { _ = l.Close() })
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			t.Cleanup(func() { _ = conn.Close() })
		}
	})
	return "nats://" + l.Addr().String(), n.Load
}

// TestRemoteOpensOnce: the server of another domain hangs. All calls, polls and
// cancels wait for the same attempt to connect, each no longer than its time.
func TestRemoteOpensOnce(t *testing.T) {
	t.Parallel()
	url, accepted := silentServer(t)
	set := remote(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var calls sync.WaitGroup
	for i := range 4 {
		calls.Go(func() {
			var err error
			if i%2 == 0 {
				err = set.CancelTask(ctx, "tree")
			} else {
				_, err = set.Call(ctx, callFar)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("request %d: got %v, want the end of its time", i, err)
			}
		})
	}
	calls.Wait()
	if n := accepted(); n > 2 {
		t.Errorf("%d connections, want the requests to share one", n)
	}
}

// TestRemoteCancelledInSubmission: a call is cancelled while its task is on its
// way to the other domain. The tree begins there, and the error has its id, by
// which it is cancelled.
func TestRemoteCancelledInSubmission(t *testing.T) {
	t.Parallel()
	server := testbus.Listen(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	set := remote(t, bustest.Proxy(t, server, func(piece []byte) error {
		if bytes.Contains(piece, []byte("PUB axe.submit.far.")) {
			cancel()
			<-ended
		}
		return nil
	}))
	_, err := set.Call(ctx, callFar)
	close(ended)
	goesOn, ok := errors.AsType[*toolset.TaskError](err)
	if !ok || !errors.Is(goesOn.Why, context.Canceled) {
		t.Fatalf("got %v, want a task that may go on", err)
	}
	far := testbus.Dial(t, server)
	tree := client.TreeID(goesOn.Task.ID)
	awaitSubmission(t, far, tree)
	if err := set.CancelTask(t.Context(), goesOn.Task.ID); err != nil {
		t.Fatal(err)
	}
	if err := client.New(far).Cancel(t.Context(), tree, subjects.Root, ""); !errors.Is(err, client.ErrCancelled) {
		t.Errorf("the tree is cancelled again: got %v, want that it was cancelled", err)
	}
}

// awaitSubmission waits until a bus has stored the submission of a tree.
func awaitSubmission(t *testing.T, conn *bus.Conn, tree subjects.Tree) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		_, ok, err := conn.QueuedSubmission(t.Context(), conn.Space().SubmissionOf(tree)...)
		if ok && err == nil {
			return
		}
		if err != nil || time.Now().After(end) {
			t.Fatalf("the submission of tree %s is not stored: %v", tree, err)
		}
	}
}
