package agentd_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
)

// TestZombieStopsAsking: a worker that has lost its lease goes on asking until it knows that another one
// asks too, and then stops at once. It does not ask again, and gives nothing back that is not its own.
func TestZombieStopsAsking(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.parts["lead"] = after(10*time.Minute, says("done"))
		var mute atomic.Bool
		s.hire("victim", engagement{Config: agentd.Config{Slots: 1}, mute: &mute})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("lead", 1)
		mute.Store(true)
		time.Sleep(time.Minute)
		if a := s.asked("lead"); len(a) != 1 || !a[0].to.IsZero() {
			t.Fatalf("%d requests, the first ended at %v: nobody else was there", len(a), a[0].to)
		}
		s.hire("heir", engagement{})
		s.asking("lead", 2)
		taken := time.Now()
		mute.Store(false)
		s.completed(r, "done")
		a := s.asked("lead")
		if d := a[0].to.Sub(taken); d > bus.DefaultAckWait/2 || a[0].err == nil {
			t.Errorf("the zombie went on for %v, error %v", d, a[0].err)
		}
		if len(a) != 2 || a[1].worker != "heir" {
			t.Errorf("%d requests, the second by %s", len(a), a[1].worker)
		}
	})
}

// TestOutageLongerThanALease: while the server is away nobody can take a run over, and the request goes on.
// It takes real time: a connection inside the process does not come back.
func TestOutageLongerThanALease(t *testing.T) {
	t.Parallel()
	cfg := bus.ServerConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()}
	server, err := bus.Serve(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	url := server.URL()
	conn, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{URL: url}, AckWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := &sim{tb: t, ctx: ctx, conn: conn, model: newTreeModel()}
	s.model.latency = 6 * time.Second
	if err := conn.Provision(ctx, bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	w, err := agentd.New(conn, agentd.Config{Name: "w", Open: func(string) (provider.Provider, string, error) { return s.model.at("w"), "m", nil }})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Serve(levels(1)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	r := s.submit("a0", "L")
	for asked := 0; asked == 0; time.Sleep(10 * time.Millisecond) {
		s.model.mu.Lock()
		asked = len(s.model.asked)
		s.model.mu.Unlock()
	}
	server.Close()
	time.Sleep(3 * time.Second) // three leases
	cfg.Listen = url[len("nats://"):]
	if server, err = bus.Serve(cfg); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	s.right(s.result(r, time.Minute), 0)
	if again := s.model.repeated(); len(again) > 0 {
		t.Errorf("asked again: %v", again)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestFinishedMeanwhile: whoever took the run over has ended it before the zombie looks.
func TestFinishedMeanwhile(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead(nil)
		s.parts["lead"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			if a.worker == "victim" {
				return after(10*time.Minute, says("late"))(ctx, a)
			}
			return says("at once")(ctx, a)
		}
		var mute atomic.Bool
		s.hire("victim", engagement{Config: agentd.Config{Slots: 1}, mute: &mute})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("lead", 1)
		mute.Store(true)
		s.hire("heir", engagement{})
		if o := s.completed(r, "at once"); o.Worker != "heir" {
			t.Errorf("%s has answered", o.Worker)
		}
		from := time.Now()
		s.eventually("the end of the first request", func() bool { return !s.asked("lead")[0].to.IsZero() })
		s.within(from, bus.DefaultAckWait)
		if got := s.outcomes(r.Space.Result(r.Agent, r.Tree)); len(got) != 1 || got[0].Status != run.StatusCompleted {
			t.Errorf("outcomes %+v", got)
		}
	})
}
