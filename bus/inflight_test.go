package bus

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/bus/bustest"
	"github.com/axebus/axe/subjects"
)

// errMute breaks a connection.
var errMute = errors.New("mute")

// mute lies between a client and a server. Once it is told, it swallows what
// the client says, and breaks the connection at the first word of it; the next
// connection works, if it does not refuse them.
type mute struct {
	url     string
	mu      sync.Mutex
	next    bool // the next word is swallowed
	refuses bool
}

func muteT(t *testing.T, server string) *mute {
	t.Helper()
	m := &mute{}
	m.url = bustest.Between(t, server, func([]byte) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.next && !m.refuses {
			return nil
		}
		m.next = false
		return errMute
	})
	return m
}

// swallow breaks the connection at the client's next word, and refuses others
// until it is told otherwise.
func (m *mute) swallow(refuse bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next, m.refuses = true, refuse
}

func (m *mute) accept() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuses = false
}

// A request whose answer is lost with the connection is made again as soon as
// there is another one, however long its caller would have waited for the
// answer.
func TestAnswersThatAreLost(t *testing.T) {
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	openT(t, Dial{URL: server.URL()}, true)
	agent := agentT(t, "lead")
	tree, err := subjects.ParseTree("tree")
	if err != nil {
		t.Fatal(err)
	}
	r := subjects.Space{}.Run(agent, tree, subjects.Root)
	for name, ask := range map[string]func(context.Context, *Conn) error{
		"provisioned": func(ctx context.Context, conn *Conn) error { return conn.Provisioned(ctx) },
		"write": func(ctx context.Context, conn *Conn) error {
			_, err := conn.Write(ctx, Message{Subject: r.Call()})
			return err
		},
		"first":    func(ctx context.Context, conn *Conn) error { _, _, err := conn.First(ctx, r.Call()); return err },
		"last":     func(ctx context.Context, conn *Conn) error { _, err := conn.LastSeq(ctx, r.Call()); return err },
		"repeated": func(ctx context.Context, conn *Conn) error { _, err := conn.repeated(ctx, r.All()); return err },
		"queued": func(ctx context.Context, conn *Conn) error {
			_, _, err := conn.QueuedSubmission(ctx, conn.Space().SubmissionOf(tree))
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
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := muteT(t, server.URL())
			conn := openT(t, Dial{URL: m.url}, true)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			m.swallow(false)
			begin := time.Now()
			if err := ask(ctx, conn); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begin); took >= answerTimeout {
				t.Errorf("took %s: the connection was back after 2 at most", took)
			}
		})
	}
}

// A feed goes on though there was no connection for longer than its requests
// stand.
func TestFeedOutlastsItsConnection(t *testing.T) {
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	m := muteT(t, server.URL())
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
	m.swallow(true)
	var away sync.WaitGroup
	defer away.Wait()
	away.Go(func() {
		// the first request is swallowed, and the next one cannot be
		// sent
		time.Sleep(2 * PullExpiry)
		m.accept()
		if _, err := direct.Write(t.Context(), Message{Subject: r.Call()}); err != nil {
			t.Error(err)
		}
	})
	d, err := feed.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d.Subject != r.Call() {
		t.Errorf("delivered %s", d.Subject)
	}
}

// What is known of the agents is watched on, though the connection broke as it
// was first asked for.
func TestDirectoryThatIsWatchedAgain(t *testing.T) {
	server := serveT(t, ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	m := muteT(t, server.URL())
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
	m.swallow(false)
	watching.Go(func() {
		_ = dir.Watch(ctx, func(key string, _ []byte) { seen <- key }, func() { close(caught) })
	})
	select {
	case <-caught:
	case <-ctx.Done():
		t.Fatal("nothing was watched")
	}
	// the watch outlasts the attempt that made it
	time.Sleep(answerTimeout + time.Second)
	if _, err := dir.Put(ctx, "lead", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	select {
	case key := <-seen:
		if key != "lead" {
			t.Errorf("seen %s", key)
		}
	case <-ctx.Done():
		t.Error("the watch has ended")
	}
}
