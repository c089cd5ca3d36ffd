package bus

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/internal/bustest"
	"github.com/axebus/axe/subjects"
)

// errBroken breaks a connection.
var errBroken = errors.New("connection broken")

// breaker is a proxy between a client and a server. After breakNext it drops
// the next piece that the client sends, and breaks the connection. The next
// connection works, unless the breaker refuses connections.
type breaker struct {
	url     string
	mu      sync.Mutex
	next    bool // drop the next piece
	refuses bool // drop every piece
}

// breakerT starts a breaker before the server with a URL, until the test ends.
func breakerT(t *testing.T, server string) *breaker {
	t.Helper()
	m := &breaker{}
	m.url = bustest.Proxy(t, server, func([]byte) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.next && !m.refuses {
			return nil
		}
		m.next = false
		return errBroken
	})
	return m
}

// breakNext breaks the connection at the next piece that the client sends. With
// refuse it also refuses later connections, until accept.
func (m *breaker) breakNext(refuse bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next, m.refuses = true, refuse
}

// accept lets later connections work again.
func (m *breaker) accept() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuses = false
}

// requestsOf returns requests of a connection, by their names. Those about a
// run are about r.
func requestsOf(r subjects.Run) map[string]func(context.Context, *Conn) error {
	return map[string]func(context.Context, *Conn) error{
		"provisioned": func(ctx context.Context, conn *Conn) error { return conn.Provisioned(ctx) },
		"write": func(ctx context.Context, conn *Conn) error {
			_, err := conn.Write(ctx, Message{Subject: r.Call()})
			return err
		},
		"first": func(ctx context.Context, conn *Conn) error { _, _, err := conn.First(ctx, r.Call()); return err },
		"last":  func(ctx context.Context, conn *Conn) error { _, err := conn.LastSeq(ctx, r.Call()); return err },
		"count": func(ctx context.Context, conn *Conn) error { _, err := count(ctx, conn, r.All()); return err },
		"queued": func(ctx context.Context, conn *Conn) error {
			_, _, err := conn.QueuedSubmission(ctx, conn.Space().SubmissionOf(r.Tree)...)
			return err
		},
		"directory": func(ctx context.Context, conn *Conn) error { _, err := conn.Directory(ctx); return err },
		"follow": func(ctx context.Context, conn *Conn) error {
			ctx, stop := context.WithCancelCause(ctx)
			caught := errors.New("caught up")
			if err := conn.Follow(ctx, r.Cancel(), func(Stored) {}, func() { stop(caught) }); !errors.Is(err, caught) {
				return err
			}
			return nil
		},
	}
}

// TestCauseOfAnEndDuringARequest: a context ends while a request waits for its
// answer. The error is the cause of the end.
func TestCauseOfAnEndDuringARequest(t *testing.T) {
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	openT(t, Dial{URL: server.URL()}, true)
	tree, err := subjects.ParseTree("tree")
	if err != nil {
		t.Fatal(err)
	}
	requests := requestsOf(subjects.Space{}.Run(agentT(t, "lead"), tree, subjects.Root))
	requests["consumer"] = func(ctx context.Context, conn *Conn) error {
		_, err := conn.Consumer(ctx, ConsumerConfig{Stream: "RUNS", Name: "calls"})
		return err
	}
	for name, ask := range requests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var end atomic.Pointer[context.CancelCauseFunc]
			over, release := errors.New("over"), make(chan struct{})
			url := bustest.Proxy(t, server.URL(), func([]byte) error {
				if end := end.Load(); end != nil {
					(*end)(over)
					<-release
				}
				return nil
			})
			conn := openT(t, Dial{URL: url}, true)
			t.Cleanup(func() { close(release) })
			ctx, cancel := context.WithCancelCause(t.Context())
			end.Store(&cancel)
			if err := ask(ctx, conn); !errors.Is(err, over) {
				t.Errorf("error %v, want %v", err, over)
			}
		})
	}
}

// TestLostAnswersAreAskedForAgain: a request that loses its answer with the
// connection is repeated as soon as there is another connection, which takes up
// to 2 s. It does not wait for the timeout of the answer, which is 5 s.
func TestLostAnswersAreAskedForAgain(t *testing.T) {
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	openT(t, Dial{URL: server.URL()}, true)
	agent := agentT(t, "lead")
	tree, err := subjects.ParseTree("tree")
	if err != nil {
		t.Fatal(err)
	}
	r := subjects.Space{}.Run(agent, tree, subjects.Root)
	for name, ask := range requestsOf(r) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := breakerT(t, server.URL())
			conn := openT(t, Dial{URL: m.url}, true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			m.breakNext(false)
			begin := time.Now()
			if err := ask(ctx, conn); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took >= answerTimeout {
				t.Errorf("took %v, want less than %v", took, answerTimeout)
			}
		})
	}
}

// TestEndedContextSendsNothing: with a context that has ended, a read sends no
// request, and a write stores nothing. The errors are the cause of the end.
func TestEndedContextSendsNothing(t *testing.T) {
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	conn := openT(t, Dial{URL: server.URL()}, true)
	lead := agentT(t, "lead")
	tree, err := subjects.ParseTree("tree")
	if err != nil {
		t.Fatal(err)
	}
	r := conn.Space().Run(lead, tree, subjects.Root)
	memory := conn.Memory()
	if _, err := memory.Values(t.Context(), lead); err != nil {
		t.Fatal(err)
	}
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	reads := conn.Stats().Reads
	_, _, first := conn.First(ctx, r.Call())
	_, values := memory.Values(ctx, lead)
	_, write := conn.Write(ctx, Message{Subject: r.Call()})
	for what, err := range map[string]error{"first": first, "values": values, "write": write} {
		if !errors.Is(err, over) {
			t.Errorf("%s: error %v, want that of the context", what, err)
		}
	}
	if n := conn.Stats().Reads - reads; n != 0 {
		t.Errorf("%d reads were sent, want none", n)
	}
	if _, stored, err := conn.First(t.Context(), r.Call()); err != nil || stored {
		t.Errorf("the call is stored: %v (%v), want not", stored, err)
	}
}

// TestFeedSurvivesReconnect: a feed goes on after the connection was down for
// longer than a pull request lasts at the server.
func TestFeedSurvivesReconnect(t *testing.T) {
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	m := breakerT(t, server.URL())
	conn := openT(t, Dial{URL: m.url}, true)
	direct := openT(t, Dial{URL: server.URL()}, true)
	tree, err := subjects.ParseTree("tree")
	if err != nil {
		t.Fatal(err)
	}
	r := conn.Space().Run(agentT(t, "lead"), tree, subjects.Root)
	c, err := conn.Consumer(
		t.Context(),
		ConsumerConfig{Stream: "RUNS", Name: "calls", Filters: []string{conn.Space().Calls(r.Agent)}},
	)
	if err != nil {
		t.Fatal(err)
	}
	feed, err := c.Open(func() int { return 1 })
	if err != nil {
		t.Fatal(err)
	}
	m.breakNext(true)
	var away sync.WaitGroup
	defer away.Wait()
	away.Go(func() {
		// The feed's first request is dropped. It cannot send another
		// one while the breaker refuses connections.
		time.Sleep(2 * PullExpiry)
		m.accept()
		if _, err := direct.Write(t.Context(), Message{Subject: r.Call()}); err != nil {
			t.Errorf("write of the call: %v", err)
		}
	})
	d, err := feed.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Subject != r.Call() {
		t.Errorf("delivered %s, want %s", d.Subject, r.Call())
	}
}

// TestDirectoryWatchSurvivesReconnect: a watch of the directory goes on though
// the connection broke at its first request.
func TestDirectoryWatchSurvivesReconnect(t *testing.T) {
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	m := breakerT(t, server.URL())
	conn := openT(t, Dial{URL: m.url}, true)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	dir, err := conn.Directory(ctx)
	if err != nil {
		t.Fatal(err)
	}
	caught, seen := make(chan struct{}), make(chan string, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	m.breakNext(false)
	watching.Go(func() {
		_ = dir.Watch(ctx, func(key string, _ []byte) { seen <- key }, func() { close(caught) })
	})
	select {
	case <-caught:
	case <-ctx.Done():
		t.Fatal("the watch has not caught up within 20 s")
	}
	// The watch outlasts the attempt that made it.
	time.Sleep(answerTimeout + time.Second)
	if _, err := dir.Put(ctx, "lead", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	select {
	case key := <-seen:
		if key != "lead" {
			t.Errorf("seen %s, want lead", key)
		}
	case <-ctx.Done():
		t.Error("the watch did not report the new key lead")
	}
}
