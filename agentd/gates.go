package agentd

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// gates are those that this worker has come to. A provider without limits has
// none, and costs nothing.
type gates struct {
	mu    sync.Mutex
	known map[string]*gate // by account
	fresh []*gate          // that nobody runs yet
	// holds a token when there are any
	more chan struct{}
}

func newGates() *gates {
	return &gates{known: map[string]*gate{}, more: make(chan struct{}, 1)}
}

// run runs the gates until ctx ends, and returns when the last of them has.
func (g *gates) run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-g.more:
		}
		g.mu.Lock()
		fresh := g.fresh
		g.fresh = nil
		g.mu.Unlock()
		for _, one := range fresh {
			running.Go(func() { one.run(ctx) })
		}
	}
}

// gate is the one that requests to a model go through, nil if they need none.
func (w *Worker) gate(model string) *gate {
	if w.cfg.RateLimit == nil {
		return nil
	}
	account, limits := w.cfg.RateLimit(model)
	if !limits.On() {
		return nil
	}
	w.gates.mu.Lock()
	defer w.gates.mu.Unlock()
	if g := w.gates.known[account]; g != nil {
		return g
	}
	g := &gate{
		on: w.conn.RateLimit(account), limits: limits, worker: w.cfg.Name + "/" + bus.NewID(),
		log: w.log.With(slog.String(keyAccount, account)), kick: make(chan struct{}, 1),
	}
	w.gates.known[account] = g
	w.gates.fresh = append(w.gates.fresh, g)
	poke(w.gates.more)
	return g
}

// admit waits at the gate of a model, if it has one. Who waits for long is told
// of. Like in a pause before another attempt, the run keeps its slot: its lease
// is renewed as that of every delivery in hand, and the end of ctx and a drain
// end the wait at once.
func (w *Worker) admit(
	ctx context.Context,
	r subjects.Run,
	model string,
	part run.Progress,
) (pass func(*provider.Response, error), err error) {
	g := w.gate(model)
	if g == nil {
		return func(*provider.Response, error) {}, nil
	}
	long := time.AfterFunc(worthTelling, func() {
		why, until := g.waitsFor()
		part.Event, part.Reason, part.Next = run.ProgressWaiting, string(why), until
		w.tell(ctx, r, part)
	})
	defer long.Stop()
	return g.enter(ctx, w.leaving)
}
