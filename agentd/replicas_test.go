package agentd_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/history"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// startCluster starts three servers that replicate. It runs outside of bubbles:
// elections take real time.
func startCluster(t *testing.T) []*server.Server {
	t.Helper()
	var ports []int
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // closed at once: the port is what matters
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, l.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // of a TCP listener
		_ = l.Close()
	}
	var routes []string
	for _, p := range ports {
		routes = append(routes, fmt.Sprintf("nats://127.0.0.1:%d", p))
	}
	var all []*server.Server
	for i, p := range ports {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("s%d", i),
			Host:       "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{
				Name: "c",
				Host: "127.0.0.1",
				Port: p,
			}, Routes: server.RoutesFromStr(strings.Join(routes, ",")),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		all = append(all, s)
	}
	for _, s := range all {
		if !s.ReadyForConnections(time.Minute) {
			t.Fatal("server is not ready")
		}
	}
	return all
}

// onCluster starts a cluster whose streams are on all three servers. open
// connects to the server with the given number first, and makes the streams if
// they are missing. The connection knows the other servers.
func onCluster(ctx context.Context, t *testing.T) (servers []*server.Server, open func(first int) *bus.Conn) {
	t.Helper()
	servers = startCluster(t)
	var urls []string
	for _, s := range servers {
		urls = append(urls, s.ClientURL())
	}
	open = func(first int) *bus.Conn {
		c, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{URL: urls[first] + "," + strings.Join(urls, ",")}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		// This fails until the streams have a leader.
		for provision := (bus.Provision{Replicas: 3}); c.Provision(ctx, provision) != nil; {
			if err := pause.For(ctx, 200*time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	return servers, open
}

// TestLeaderIsAsked: a read of a subject's last message goes to the stream's
// leader, so it sees a message at once, on every connection. The replicas learn
// of it later. A read of everything that is stored by now waits for them.
func TestLeaderIsAsked(t *testing.T) {
	t.Parallel()
	thorough(t)
	_, open := onCluster(t.Context(), t)
	conns := []*bus.Conn{open(0), open(1), open(2)}
	for i := range 16 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			for k := range 100 {
				subject := fmt.Sprintf("axe.run.echo.T%d-%d.r.call", i, k)
				seq, err := conns[k%3].Write(
					t.Context(),
					bus.Message{Subject: subject, Body: []byte("{}"), Fence: bus.After(subject, 0)},
				)
				if err != nil {
					t.Fatal(err)
				}
				for at, c := range conns {
					if last, err := c.LastSeq(t.Context(), subject); err != nil || last != seq {
						t.Fatalf(
							"message %d was stored, and server %d is told that the last one is %d (%v)",
							seq,
							at,
							last,
							err,
						)
					}
					m, ok, err := history.New(c).FirstAt(t.Context(), subject)
					if err != nil || !ok || m.Seq != seq {
						t.Fatalf("message %d was stored, and server %d finds message %d (%v)", seq, at, m.Seq, err)
					}
				}
			}
		})
	}
}

// TestReferencesOnReplicas: a reader that knows a message can load its body by
// reference, though the replica that it asks has not stored the body yet. Few
// replicas lag that far, so it takes 192 bodies with -rapid.checks, and eight
// without.
func TestReferencesOnReplicas(t *testing.T) {
	t.Parallel()
	thorough(t)
	_, open := onCluster(t.Context(), t)
	conns := []*bus.Conn{open(0), open(1), open(2)}
	body := bytes.Repeat([]byte("x"), 1<<20+1)
	bodies := 2
	if full {
		bodies = 48
	}
	for i := range 4 {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			for k := range bodies {
				at := conns[k%3]
				subject := fmt.Sprintf("axe.run.echo.T%d-%d.r.call", i, k)
				seq, err := at.Write(t.Context(), bus.Message{Subject: subject, Body: body})
				if err != nil {
					t.Fatal(err)
				}
				ms, err := at.ScanUntil(t.Context(), subject, seq-1, seq)
				if err != nil || len(ms) != 1 {
					t.Fatalf("%d messages (%v), want the one that was written", len(ms), err)
				}
				for n, c := range conns {
					if got, err := c.Load(t.Context(), ms[0]); err != nil || !bytes.Equal(got, body) {
						t.Fatalf("server %d: %d bytes (%v), want the body of %d", n, len(got), err, len(body))
					}
				}
			}
		})
	}
}

// TestAnswersOnReplicas: all that is stored at a reply subject, and at the call
// of a peer, is an answer of a server to a read. On replicas too a reader finds
// that this is no outcome, and no peer. It does not wait for a replica that lags.
func TestAnswersOnReplicas(t *testing.T) {
	t.Parallel()
	thorough(t)
	_, open := onCluster(t.Context(), t)
	conn := open(0)
	h := newHarness(t.Context(), t, conn)
	asked := make(chan struct{})
	h.forkingLead(map[string][]scriptedModel{"r": {
		func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
			<-asked
			return calls(use("send", "to", "r-9-9", "message", "hello"))(ctx, req)
		},
		says("the end"),
	}})
	t.Cleanup(h.startWorker("w", workerOptions{conn: open(1)}).drain)
	r := h.submit("lead", "go")
	peer := r
	peer.Path = subjects.Root.Child(9, 9)
	nc, _ := conn.NATS()
	for _, subject := range []string{r.Reply(1, 0), peer.Call()} {
		if err := nc.PublishRequest("$JS.API.STREAM.INFO.AXE_RUNS", subject, nil); err != nil {
			t.Fatal(err)
		}
		for last := uint64(0); last == 0; {
			var err error
			if last, err = conn.LastSeq(t.Context(), subject); err != nil {
				t.Fatal(err)
			}
		}
	}
	runs := history.New(conn)
	if m, ok, err := runs.OutcomeAt(t.Context(), r, r.Reply(1, 0)); ok || err != nil {
		t.Errorf("message %d counts as an outcome: %t, error %v", m.Seq, ok, err)
	}
	if _, err := runs.Latest(t.Context(), r, r.Reply(1, 0)); err != nil {
		t.Errorf("the run cannot be read: %v", err)
	}
	close(asked)
	if o := h.awaitOutcome(r, time.Minute); o.Result != "the end" {
		t.Errorf("outcome %s %q %q, want the end", o.Status, o.Result, o.Error)
	}
	if n := len(h.requests("lead")); n != 2 {
		t.Errorf("the model was asked %d times, want 2", n)
	}
	for _, m := range h.readAll(r.All()) {
		if strings.Contains(m.Subject, ".in.returned.") {
			t.Errorf("the worker gave the run back: %s", m.Body)
		}
	}
}

// TestReplicas runs trees on three replicas with two workers. One server is
// shut down in the middle. All trees have the right answer, followers get every
// event, and budgets and cancel messages hold.
func TestReplicas(t *testing.T) {
	t.Parallel()
	thorough(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	servers, open := onCluster(ctx, t)
	h := newHarness(ctx, t, open(0))
	h.tree.latency = 50 * time.Millisecond
	h.agents = levels(3)
	for i := range 2 {
		w := h.startWorker(fmt.Sprintf("w%d", i), workerOptions{conn: open(i + 1)})
		t.Cleanup(w.drain)
	}
	for round := range 3 {
		var outcomes []func() run.Outcome
		for range 5 {
			r := h.submit("a0", "L")
			followed := h.countEvents(r)
			outcomes = append(outcomes, func() run.Outcome {
				o := h.awaitOutcome(r, time.Minute)
				if n := <-followed; n != 2*o.Subtree.Runs {
					t.Errorf("the follower got %d calls and ends of %d runs, want one of each for a run",
						n, o.Subtree.Runs)
				}
				return o
			})
		}
		if round == 1 {
			servers[0].Shutdown()
		}
		for _, o := range outcomes {
			h.expectAnswer(o(), 2)
		}
	}
	h.checkBudgetsAndCancels(ctx)
}

// countEvents counts the calls and ends of runs that a follower of a tree gets.
// Some come from a replica that lags behind the one with the result. The
// channel gets the number when the tree has ended.
func (h *harness) countEvents(r subjects.Run) <-chan int {
	followed := make(chan int, 1)
	go func() {
		n := 0
		err := client.New(h.conn).Follow(h.ctx, r.Tree, func(e client.Event) {
			if e.Kind == client.Called || e.Kind == client.ChildEnded || e.Kind == client.TreeEnded {
				n++
			}
		})
		if err != nil {
			h.tb.Errorf("follow: %v", err)
		}
		followed <- n
	}()
	return followed
}

// checkBudgetsAndCancels checks that budgets and cancel messages hold on three
// replicas, of which one is down, and that the stored messages keep the rules.
func (h *harness) checkBudgetsAndCancels(ctx context.Context) {
	a, err := subjects.ParseAgent("a0")
	if err != nil {
		h.tb.Fatal(err)
	}
	var bounded, cut []subjects.Run
	for i := range 6 {
		r := h.conn.Space().Run(a, client.TreeID(fmt.Sprintf("replicas%d", i)), subjects.Root)
		m := bus.Message{Subject: r.Space.Submit(r.Agent, r.Tree), Body: []byte("L")}
		if i%2 == 0 {
			bounded = append(bounded, r)
			m.Header = [][2]string{{subjects.HeaderLimits, "r agents=5 turns=7"}}
		} else {
			cut = append(cut, r)
		}
		if _, err := h.conn.Write(ctx, m); err != nil {
			h.tb.Fatal(err)
		}
	}
	for i, r := range cut {
		time.Sleep(time.Duration(i) * 70 * time.Millisecond)
		if _, err := h.conn.Write(ctx, bus.Message{Subject: r.Cancel(), Fence: bus.After(r.Cancel(), 0)}); err != nil {
			h.tb.Fatal(err)
		}
	}
	for _, r := range bounded {
		o := h.awaitOutcome(r, time.Minute)
		if o.Subtree.Runs > 5 || o.Subtree.ModelCalls > 7 {
			h.tb.Errorf("%d runs and %d model calls, want 5 and 7 at most: %s",
				o.Subtree.Runs, o.Subtree.ModelCalls, o.Result+o.Error)
		}
		if o.Status == run.StatusCompleted && o.Subtree.Runs < 5 {
			h.tb.Errorf("a tree completed with %d runs, want 5: %s", o.Subtree.Runs, o.Result)
		}
	}
	for _, r := range cut {
		h.awaitOutcome(r, time.Minute)
		left, err := client.New(h.conn).WaitEnded(ctx, r.Tree, subjects.Root, func(client.Event) {})
		if err != nil || left > 0 {
			h.tb.Fatalf("%d runs of a cancelled tree are left (%v), want none", left, err)
		}
	}
	for _, r := range append(bounded, cut...) {
		h.checkTree(r.Tree)
	}
}
