package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// workload is one kind of work.
type workload struct {
	name, about string
	run         func(ctx context.Context, s *testbed) ([]Metric, error)
	// long reports that the workload runs only if Config.Only names it.
	long bool
}

func (w workload) wanted(only []string) bool {
	return len(only) == 0 && !w.long || slices.Contains(only, w.name)
}

// workloads lists all workloads in the order in which they run.
var workloads = []workload{
	{
		"leaf", "leaf runs, one at a time and one for each slot at once, in turn with raw durable request and reply",
		leaves, false,
	},
	{"fan-out", "a parent with 10, 100 and 1,000 children", fanOut, false},
	{"roots", "submissions at once: 1,000 leaves, in turn with raw requests, and 500 parents", roots, false},
	{
		"tree", "a tree of 156 runs with the model behind HTTP, in turn with as many raw requests and HTTP calls",
		tree, false,
	},
	{"chain", "conversations of 12, 24 and 49 turns with one call each, and a last turn", chain, false},
	{"tool", "a conversation of 24 turns with a call of a tool each, in turn with one that calls leaves", tools, false},
	{"wake", "mail to an idle fork, in turn with new leaves", wake, false},
	{"workers", "leaf runs with one worker process and with two, in turn", workers, false},
	{
		"scale", "a stream of many runs, some waiting, in turn with an empty one; a worker with many agents",
		scale, true,
	},
	{
		"view", "lists of trees and the drawing of one on a stream of many runs, in turn with raw reads",
		view, true,
	},
	{
		"observe", "a worker with metrics, in turn with one without; a tree with 200 followers, and without",
		observe, true,
	},
	{"signed", "leaves and parents of a worker with signed outcomes, in turn with one without", signed, true},
	{"crash", "workers that are killed during a model call, until it is repeated", crash, true},
	{"agents", "three workers with many agents, compared with three workers with few", agentsAtWork, true},
}

// Names lists the workloads.
func Names() (names []string) {
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}

// OnRequest lists the workloads that run only if Config.Only names them.
func OnRequest() (names []string) {
	for _, w := range workloads {
		if w.long {
			names = append(names, w.name)
		}
	}
	return names
}

func (s *testbed) asks(group string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.raw.Ask(ctx, group, []byte(`{"task":"hello"}`))
		return err
	}
}

func (s *testbed) calls(agent string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.tree(ctx, agent)
		return err
	}
}

func leaves(ctx context.Context, s *testbed) (ms []Metric, err error) {
	k := s.cfg.Slots
	err = s.startWorkers(ctx, 1, false,
		rawServers{Name: "one", N: 1}, rawServers{Name: "oneAhead", N: 1, Ahead: true},
		rawServers{Name: "many", N: k}, rawServers{Name: "manyAhead", N: k, Ahead: true})
	if err != nil {
		return nil, err
	}
	leaf, pulled, ahead := &runner{do: s.leaf}, &runner{do: s.asks("one")}, &runner{do: s.asks("oneAhead")}
	if err := s.compare(ctx, 1, leaf, pulled, ahead); err != nil {
		return nil, err
	}
	ms = append(ms,
		duration("one at a time, p50", leaf.quantile(.5)), duration("one at a time, p99", leaf.quantile(.99)),
		duration("raw, p50", pulled.quantile(.5)), duration("raw, p99", pulled.quantile(.99)),
		quotient("latency, of raw", leaf, pulled).atMost(1.3),
		quotient("latency, of raw with 500 ahead", leaf, ahead),
		count("stored messages for each", leaf.perRun(float64(leaf.used.Last))).exactly(2),
		size("stored for each", leaf.perRun(float64(leaf.used.Bytes))),
	)
	leaf, pulled, ahead = &runner{do: leaf.do}, &runner{do: s.asks("many")}, &runner{do: s.asks("manyAhead")}
	if err := s.compare(ctx, k, leaf, pulled, ahead); err != nil {
		return nil, err
	}
	ms = append(ms, rate(fmt.Sprintf("%d at once", k), leaf.rate()), rate("raw", pulled.rate()),
		ratio("rate, of raw", leaf.rate()/pulled.rate()).atLeast(.75),
		ratio("rate, of raw with 500 ahead", leaf.rate()/ahead.rate()),
		leaf.cpu("CPU time of the worker for 1,000", leaf.used.workers),
		pulled.cpu("CPU time of the raw servers for 1,000", pulled.used.workers),
		size("memory of the worker", leaf.used.workers.Peak))
	if s.server != nil {
		ms = append(ms, leaf.cpu("CPU time of the server for 1,000", leaf.used.server),
			pulled.cpu("CPU time of the server for 1,000 raw", pulled.used.server),
			size("memory of the server", leaf.used.server.Peak))
	}
	return ms, nil
}

// submissions is the number of leaves that are submitted at once. Of parents it
// is half.
const submissions = 1000

// roots compares leaves that are submitted, all at once, with raw requests, and
// measures parents with one child.
func roots(ctx context.Context, s *testbed) (ms []Metric, err error) {
	if err := s.startWorkers(ctx, 1, false, rawServers{Name: "roots", N: s.cfg.Slots}); err != nil {
		return nil, err
	}
	submits := func(agent string) *runner {
		return &runner{do: func(ctx context.Context) error { return s.submit(ctx, agent) }}
	}
	leaf, parent, raw := submits("leaf"), submits("parent"), &runner{do: s.asks("roots")}
	if err := s.compare(ctx, submissions, leaf, raw); err != nil {
		return nil, err
	}
	if err := s.compare(ctx, submissions/2, parent); err != nil {
		return nil, err
	}
	stored := func(r *runner) float64 { return r.perRun(float64(r.used.Last + r.used.Submitted)) }
	return []Metric{
		rate("roots", leaf.rate()), rate("raw", raw.rate()), ratio("roots, of raw", leaf.rate()/raw.rate()),
		rate("parents of one child", parent.rate()),
		count("stored messages for each root, its submission with it", stored(leaf)).atMost(3.1),
		count("stored messages for each parent, its submission with it", stored(parent)),
		leaf.cpu("CPU time of the worker for 1,000 roots", leaf.used.workers),
	}, nil
}

// compareSizes starts a worker and compares the sizes of a shape. An agent's
// name is the shape and the size.
func (s *testbed) compareSizes(ctx context.Context, shape string, sizes []int) (all []*runner, err error) {
	if err := s.startWorkers(ctx, 1, false); err != nil {
		return nil, err
	}
	for _, n := range sizes {
		all = append(all, &runner{do: s.calls(fmt.Sprint(shape, n))})
	}
	return all, s.compare(ctx, 1, all...)
}

func fanOut(ctx context.Context, s *testbed) (ms []Metric, err error) {
	all, err := s.compareSizes(ctx, "fan", fans)
	if err != nil {
		return nil, err
	}
	for i, n := range fans {
		r, name := all[i], fmt.Sprintf("%d children", n)
		// There are the root's call and outcome, n outcomes, and the
		// turn: its entry and n calls.
		extra := r.perRun(float64(r.used.Last)) - float64(2+2*n)
		read := r.perRun(float64(r.used.workers.Read)) / float64(n)
		ms = append(ms, duration(name+", p50", r.quantile(.5)),
			count(name+": messages of the turn, beyond one for each call", extra).exactly(1),
			count(name+": messages read for each reply", read).atMost(1.1))
	}
	last := len(all) - 1
	return append(ms, quotient("1,000 children, of 100", all[last], all[last-1]).atMost(12)), nil
}

// tree compares a tree with raw requests and HTTP calls of the same number and
// concurrency. On the way down each run of a level is a raw request with an
// HTTP call, all of a level at once. On the way up each parent is an HTTP call.
func tree(ctx context.Context, s *testbed) (ms []Metric, err error) {
	if err := s.startWorkers(ctx, 1, true, rawServers{Name: "tree", N: s.cfg.Slots, HTTP: true}); err != nil {
		return nil, err
	}
	direct := processConfig{ModelURL: s.model.url, Slots: s.cfg.Slots}.provider()
	parts := &runner{do: func(ctx context.Context) error {
		n := 1
		for range treeDepth + 1 {
			if err := times(ctx, n, s.asks("tree")); err != nil {
				return err
			}
			n *= treeFan
		}
		for n /= treeFan * treeFan; n > 0; n /= treeFan {
			if err := times(ctx, n, func(ctx context.Context) error { return ping(ctx, direct) }); err != nil {
				return err
			}
		}
		return nil
	}}
	whole := &runner{do: func(ctx context.Context) error {
		o, err := s.tree(ctx, "tree0")
		if err == nil && o.Subtree.Runs != treeRuns {
			err = fmt.Errorf("%d runs, want %d", o.Subtree.Runs, treeRuns)
		}
		return err
	}}
	if err := s.compare(ctx, 1, whole, parts); err != nil {
		return nil, err
	}
	return []Metric{
		duration(fmt.Sprintf("%d runs, p50", treeRuns), whole.quantile(.5)), duration("p99", whole.quantile(.99)),
		duration("raw requests and HTTP calls, p50", parts.quantile(.5)),
		quotient("of raw requests and HTTP calls", whole, parts).atMost(2),
	}, nil
}

// tools compares conversations that call a tool in each turn with those that
// call a leaf. Both tools and leaves answer at once.
func tools(ctx context.Context, s *testbed) (ms []Metric, err error) {
	if err := s.startWorkers(ctx, 1, false); err != nil {
		return nil, err
	}
	use, leaf := &runner{do: s.calls(fmt.Sprint("use", uses))}, &runner{do: s.calls(fmt.Sprint("chain", uses))}
	if err := s.compare(ctx, 1, use, leaf); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%d calls", uses)
	return []Metric{
		duration(name+" of a tool, p50", use.quantile(.5)), duration(name+" of a leaf, p50", leaf.quantile(.5)),
		quotient("calls of a tool, of those of a leaf", use, leaf).atMost(1.2),
		count("stored messages of the tool's, less those of the leaf's",
			use.perRun(float64(use.used.Last))-leaf.perRun(float64(leaf.used.Last))).exactly(0),
	}, nil
}

func chain(ctx context.Context, s *testbed) (ms []Metric, err error) {
	all, err := s.compareSizes(ctx, "chain", chains)
	if err != nil {
		return nil, err
	}
	perTurn := make([]float64, len(chains))
	for i, n := range chains {
		perTurn[i] = all[i].perRun(float64(all[i].used.Bytes)) / float64(n)
		name := fmt.Sprintf("%d turns", n)
		ms = append(ms, duration(name+", p50", all[i].quantile(.5)), size(name+": stored for each", perTurn[i]))
	}
	last := len(chains) - 1
	name := fmt.Sprintf("bytes of a turn, of %d to those of %d", chains[last], chains[0])
	return append(ms, ratio(name, perTurn[last]/perTurn[0]).atMost(1)), nil
}

func wake(ctx context.Context, s *testbed) ([]Metric, error) {
	if err := s.startWorkers(ctx, 1, false); err != nil {
		return nil, err
	}
	root, err := s.lead(ctx)
	if err != nil {
		return nil, err
	}
	woken, leaf, err := s.compareMail(ctx, root)
	if err != nil {
		return nil, err
	}
	return []Metric{
		duration("p50", woken.quantile(.5)), duration("p99", woken.quantile(.99)),
		duration("a fresh leaf, p50", leaf.quantile(.5)),
		quotient("of a fresh leaf", woken, leaf).atMost(3),
	}, nil
}

// lead calls a root that forks, and waits for the idle notices of all its forks
// but the last.
func (s *testbed) lead(ctx context.Context) (subjects.Run, error) {
	r, err := s.newRoot("lead")
	if err == nil {
		err = s.storeCall(ctx, r, subjects.Header{Reply: s.space.Result(r.Agent, r.Tree)})
	}
	for range forks {
		if err == nil {
			_, err = s.idleNotice(ctx)
		}
	}
	return r, err
}

// compareMail compares mail to the idle forks of roots with leaves. It writes
// to each root's fork in turn.
func (s *testbed) compareMail(ctx context.Context, roots ...subjects.Run) (woken, leaf *runner, err error) {
	next := 0
	woken = &runner{do: func(ctx context.Context) error {
		fork := roots[next%len(roots)]
		fork.Path = fork.Path.Child(1, next/len(roots)%forks)
		next++
		return s.wake(ctx, fork)
	}}
	leaf = &runner{do: s.leaf}
	return woken, leaf, s.compare(ctx, 1, woken, leaf)
}

// wake writes to a fork that is idle and waits until it is idle again.
func (s *testbed) wake(ctx context.Context, fork subjects.Run) error {
	key, err := subjects.ParseKey(bus.NewID())
	if err != nil {
		return err
	}
	to, body := fork.Mail(key), []byte(`{"from":"somebody","text":"go on"}`)
	if _, err := s.conn.Write(ctx, bus.Message{Subject: to, Fence: bus.After(to, 0), Body: body}); err != nil {
		return err
	}
	from, err := s.idleNotice(ctx)
	if err == nil && from != fork.Path {
		err = fmt.Errorf("mail to %s must make it idle again, got a notice of %s", fork, from)
	}
	return err
}

// idleNotice waits for the next idle notice of a fork, and returns the fork's
// path.
func (s *testbed) idleNotice(ctx context.Context) (subjects.Path, error) {
	select {
	case m := <-s.idle:
		key := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
		from, _, ok := subjects.ParseIdleKey(key)
		if !ok {
			return from, fmt.Errorf("mail key must be that of an idle notice, got %s", key)
		}
		return from, nil
	case <-time.After(noticeTimeout):
		return subjects.Path{}, fmt.Errorf("no idle notice of a fork within %s", noticeTimeout)
	case <-ctx.Done():
		return subjects.Path{}, context.Cause(ctx)
	}
}

// noticeTimeout is the time that a fork has to become idle.
const noticeTimeout = time.Minute

func workers(ctx context.Context, s *testbed) (ms []Metric, err error) {
	var all [2]runner
	for range minRounds {
		for i := range all {
			if err := s.startWorkers(ctx, i+1, false); err != nil {
				return nil, err
			}
			all[i].do = s.leaf
			if err := s.compare(ctx, 2*s.cfg.Slots, &all[i]); err != nil {
				return nil, err
			}
		}
	}
	for i := range all {
		ms = append(ms, rate(fmt.Sprintf("%d at once, worker processes: %d", 2*s.cfg.Slots, i+1), all[i].rate()))
	}
	return append(ms, ratio("two, of one", all[1].rate()/all[0].rate()).atLeast(1)), nil
}
