package agentd

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/axebus/axe/agentd/ratelimit"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/provider"
)

// gate is where requests to one provider with one key wait until all workers
// together may make one more. One goroutine, run, brings all that has ended and
// all that waits to the state on the bus in one compare-and-set, so that many
// requests cost few writes; a step that changes nothing is not written. Who
// waits is let in in line, here; between workers, whoever is quicker.
type gate struct {
	on     *bus.Register
	limits ratelimit.Settings
	// as a holder: a worker that is started again is another one
	worker string
	log    *slog.Logger
	// holds a token when there may be something to do
	kick chan struct{}

	mu sync.Mutex
	// who waits, oldest first; true lets it in as the probe
	line    []chan bool
	held    int
	probing bool
	ended   []ratelimit.Result
	// as it was stored last, as far as this worker knows
	state ratelimit.State
	steps int // that were tried
	// the last of them, until it is known what came of it
	tried *attempt
	rev   uint64
	last  ratelimit.Decision // why who still waits does
	over  bool               // nobody is let in any more
}

func (g *gate) wake() { poke(g.kick) }

// enter waits until one more request may begin, until ctx ends or the worker
// leaves. Who is let in calls pass.
func (g *gate) enter(ctx context.Context, leaving <-chan struct{}) (pass func(*provider.Response, error), err error) {
	in := make(chan bool, 1)
	g.mu.Lock()
	g.line = append(g.line, in)
	g.mu.Unlock()
	g.wake()
	select {
	case probe := <-in:
		if probe {
			return g.probe(), nil
		}
		return func(resp *provider.Response, err error) { g.pass(ratelimit.ResultOf(resp, err, false, time.Now())) }, nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-leaving:
		err = errDraining
	}
	if !g.quit(in) { // it was let in meanwhile
		g.pass(ratelimit.Result{Probe: <-in})
	}
	return nil, err
}

// taken is how long a probe may go unanswered until it counts as taken: a
// provider refuses sooner. The others do not wait for the whole of a long
// answer.
const taken = 10 * time.Second

// probe is what the one that goes first calls when its request has ended.
func (g *gate) probe() (pass func(*provider.Response, error)) {
	slow := time.AfterFunc(taken, func() {
		g.mu.Lock()
		g.probing = false
		g.ended = append(g.ended, ratelimit.Result{Probe: true, Passed: true})
		g.mu.Unlock()
		g.wake()
	})
	return func(resp *provider.Response, err error) {
		g.pass(ratelimit.ResultOf(resp, err, slow.Stop(), time.Now()))
	}
}

// quit leaves the line; false means that it is too late.
func (g *gate) quit(in chan bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return leave(&g.line, in)
}

// pass ends a request.
func (g *gate) pass(r ratelimit.Result) {
	g.mu.Lock()
	g.held--
	g.probing = g.probing && !r.Probe
	g.ended = append(g.ended, r)
	g.mu.Unlock()
	g.wake()
}

// waitsFor says why requests wait.
func (g *gate) waitsFor() (ratelimit.Reason, time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.last.Reason, g.last.Until
}

// run lets requests in until ctx ends. At its end nothing is held any more, so
// that nobody has to wait until that is forgotten.
func (g *gate) run(ctx context.Context) {
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { g.watch(ctx) })
	// before anybody is let in
	insist(ctx, g.log, "limits of a provider", func() error { return g.read(ctx, 0) })
	for ctx.Err() == nil {
		var next time.Time
		insist(ctx, g.log, "limits of a provider", func() (err error) {
			next, err = g.step(ctx)
			return err
		})
		g.sleep(ctx, next)
	}
	g.mu.Lock()
	g.over = true
	g.mu.Unlock()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := g.step(last); err != nil {
		g.log.DebugContext(last, "what is held is forgotten later", slog.Any(keyError, err))
	}
}

// sleep waits until there may be something to do.
func (g *gate) sleep(ctx context.Context, next time.Time) {
	var due <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(time.Until(next))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-g.kick:
	case <-due:
	case <-ctx.Done():
	}
}
