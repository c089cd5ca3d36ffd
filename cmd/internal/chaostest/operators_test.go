package chaostest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

// slip is a mistake of an operator while trees are under way.
type slip struct {
	name string
	// do makes the mistake when half of the trees have been submitted.
	do func(ctx context.Context, js jetstream.JetStream) error
	// mend, if not nil, undoes it a few seconds later.
	mend func(ctx context.Context, js jetstream.JetStream) error
	// says is a text that a worker logs within a minute; "" for none.
	says string
	// loses says that trees under way may be lost. The submitter of each of
	// them is told.
	loses bool
	// queued is the number of further trees that are submitted while the
	// workers are frozen. The slip is made before they thaw.
	queued int
	// asksAgain says that workers may ask the model again for turns of lost
	// requests or of lost trees.
	asksAgain bool
	// args are further arguments of the workers.
	args    []string
	inShort bool
}

var slips = []slip{
	{name: "consumers removed", do: removeConsumers, inShort: true},
	{
		name: "allow_direct off", says: "limit=allow-direct", inShort: true,
		do: editRuns(func(c *jetstream.StreamConfig) { c.AllowDirect = false }),
	},
	{name: "agents removed", do: removeStream("KV_AXE_AGENTS"), says: "stream=KV_AXE_AGENTS"},
	{name: "objects removed", do: removeStream("OBJ_AXE_OBJECTS"), says: "stream=OBJ_AXE_OBJECTS"},
	{name: "submissions purged", do: purgeStream("AXE_SUBMIT"), loses: true, queued: 20, inShort: true},
	{
		name: "submissions removed", do: removeStream("AXE_SUBMIT"), says: "stream=AXE_SUBMIT", loses: true,
		queued: 20,
	},
	{
		name: "runs purged", do: purgeStream("AXE_RUNS"), says: "before their age", loses: true, asksAgain: true,
		inShort: true,
	},
	{name: "runs removed", do: removeStream("AXE_RUNS"), says: "stream=AXE_RUNS", loses: true, asksAgain: true},
	{
		name: "runs removed, exit", do: removeStream("AXE_RUNS"), says: "stream=AXE_RUNS", loses: true, asksAgain: true,
		args: []string{"--exit-on-lost-stream"},
	},
	{
		name: "max_msgs", says: "limit=\"max-msgs=200\"", loses: true, asksAgain: true,
		do:   editRuns(func(c *jetstream.StreamConfig) { c.MaxMsgs = 200 }),
		mend: editRuns(func(c *jetstream.StreamConfig) { c.MaxMsgs = -1 }),
	},
}

// removeStream returns a slip that removes a stream.
func removeStream(name string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error { return js.DeleteStream(ctx, name) }
}

// purgeStream returns a slip that removes all messages of a stream.
func purgeStream(name string) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, name)
		if err != nil {
			return err
		}
		return s.Purge(ctx)
	}
}

// editRuns returns a slip that changes the configuration of the stream of runs.
func editRuns(change func(*jetstream.StreamConfig)) func(context.Context, jetstream.JetStream) error {
	return func(ctx context.Context, js jetstream.JetStream) error {
		s, err := js.Stream(ctx, "AXE_RUNS")
		if err != nil {
			return err
		}
		cfg := s.CachedInfo().Config
		change(&cfg)
		_, err = js.UpdateStream(ctx, cfg)
		return err
	}
}

// removeConsumers removes all consumers of the stream of runs.
func removeConsumers(ctx context.Context, js jetstream.JetStream) error {
	s, err := js.Stream(ctx, "AXE_RUNS")
	if err != nil {
		return err
	}
	names := s.ConsumerNames(ctx)
	for name := range names.Name() {
		if err := s.DeleteConsumer(ctx, name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			return err
		}
	}
	return names.Err()
}

// operators makes one slip after the other, and prints a table. Without a
// number of trees it makes some of the slips, each beside 24 trees.
func operators(t *testing.T, bin string, trees int) {
	t.Helper()
	short := trees == 0
	if short {
		trees = submitters
	}
	table := []string{"slip                   trees  wrong  told  noticed  asked  extra   took"}
	for _, s := range slips {
		if short && !s.inShort {
			continue
		}
		t.Run(s.name, func(t *testing.T) { table = append(table, s.perform(t, bin, trees)) })
	}
	t.Logf("\n%s", strings.Join(table, "\n"))
}

// start starts the server and a pool of four workers.
func (s slip) start(t *testing.T, bin string) *harness {
	t.Helper()
	h, worker := newFleet(t, bin, t.TempDir(), 200*time.Millisecond)
	h.name = "operators, " + s.name
	h.log.keep = s.says
	if err := h.servers.up(t.Context(), h.servers.nodes[0]); err != nil {
		t.Fatal(err)
	}
	worker.agents = writeAgents(t)
	worker.args = s.args
	h.pool = worker.newPool(t, h.servers.group, h.servers, 0)
	for _, b := range h.pool.places {
		if err := b.fill(nil); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// perform makes a slip while trees are under way, and checks them. Each tree
// has its right answer or, if the slip may lose trees, its submitter is told.
// It returns the row of the table.
func (s slip) perform(t *testing.T, bin string, trees int) string {
	t.Helper()
	h := s.start(t, bin)
	conn := h.connect(t)
	lead, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	l := &load{h: h, client: client.New(conn), lead: lead, mayTell: s.loses}
	begin := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	noticed := "-"
	h.lasting.Go(func() { h.reportProgress(ctx, l) })
	var slip, queued sync.WaitGroup
	slip.Go(func() {
		after, err := s.make(ctx, h, l, trees, &queued)
		if err != nil {
			t.Errorf("the slip: %v", err)
		}
		if s.says != "" {
			noticed = fmt.Sprintf("%.1fs", after.Seconds())
		}
	})
	l.run(t.Context(), trees, func() bool { return true })
	slip.Wait()
	queued.Wait()
	took := time.Since(begin)
	cancel()
	h.lasting.Wait()
	extra := h.model.extra()
	if !s.asksAgain && extra > 0 {
		t.Errorf("the model was asked again for %d turns, want 0, since no worker has died", extra)
	}
	if l.told < s.queued {
		t.Errorf("%d submitters were told that their tree is lost, want at least %d", l.told, s.queued)
	}
	if len(l.wrong) > 0 {
		t.Errorf("%d trees are wrong:\n%s", len(l.wrong), strings.Join(l.wrong[:min(10, len(l.wrong))], "\n"))
	}
	if !s.loses {
		if err := h.awaitQuiet(t.Context()); err != nil {
			t.Error(err)
		}
		h.verify(t)
	}
	line := fmt.Sprintf("%-22s %5d  %5d  %4d  %7s  %5d  %5d  %.1fs", s.name, l.ended.Load(), len(l.wrong), l.told,
		noticed, h.model.count(), extra, took.Seconds())
	t.Log(line)
	return line
}

// make makes the slip when half of the trees have been submitted. It returns
// the time until a worker has logged it. Queued waits for the trees that are
// submitted to frozen workers.
func (s slip) make(
	ctx context.Context, h *harness, l *load, trees int, queued *sync.WaitGroup,
) (noticed time.Duration, _ error) {
	nc, err := h.servers.dial()
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return 0, err
	}
	for int(l.next.Load()) < trees/2 || h.model.count() < trees/2 {
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return 0, err
		}
	}
	if s.queued > 0 {
		h.pool.each((*process).stop)
		// The server delivers to a frozen worker until its requests for
		// messages have run out.
		if err := pause.For(ctx, 2*bus.PullExpiry); err != nil {
			return 0, err
		}
		for i := range s.queued {
			queued.Go(func() { l.tree(ctx, trees+i) })
		}
		for i := range s.queued {
			if err := awaitQueued(ctx, l.client, client.TreeID(treeLabel(trees+i))); err != nil {
				return 0, err
			}
		}
	}
	h.log.log("the operator: %s", s.name)
	if err := s.do(ctx, js); err != nil {
		return 0, fmt.Errorf("%s: %w", s.name, err)
	}
	if s.queued > 0 {
		h.pool.each((*process).cont)
	}
	made := time.Now()
	for s.says != "" && !h.log.saidSo("", s.says) {
		if time.Since(made) > time.Minute {
			return 0, fmt.Errorf("no worker has logged %q within a minute", s.says)
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return 0, fmt.Errorf("no worker has logged %q: %w", s.says, err)
		}
	}
	noticed = time.Since(made)
	if s.mend != nil {
		return noticed, s.mend(ctx, js)
	}
	return noticed, nil
}

// awaitQueued waits until a submission is stored.
func awaitQueued(ctx context.Context, c *client.Client, tree subjects.Tree) error {
	for {
		queued, err := c.Queued(ctx, tree)
		if err != nil || queued {
			return err
		}
		if err := pause.For(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// tells reports whether the end of a tree tells its submitter that an operator
// has removed it. A tree that was submitted and is unknown was never taken. A
// submission that is delivered again after a purge begins its tree anew; the
// logs that its first children wrote after the purge have no calls, so the
// model is told that these children are lost, and repeats it in its answer.
func tells(o run.Outcome, err error) bool {
	return errors.Is(err, client.ErrUnknownTree) || errors.Is(err, client.ErrRemoved) ||
		errors.Is(err, client.ErrNeverTaken) ||
		err == nil && strings.Contains(o.Result+o.Error, run.ErrRemoved.Error())
}

// extra returns the number of requests for turns that were asked for before.
func (m *model) extra() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, asks := range m.asks {
		n += len(asks) - 1
	}
	return n
}
