package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/subjects"
)

// workload is one kind of work that is measured.
type workload struct {
	name, about string
	run         func(ctx context.Context, s *stand) ([]Metric, error)
	// it is run only when it is asked for
	long bool
}

func (w workload) wanted(only []string) bool {
	if len(only) == 0 {
		return !w.long
	}
	return slices.Contains(only, w.name)
}

// workloads are all that there are, in the order in which they are run.
var workloads = []workload{
	{
		"leaf",
		"leaf runs one at a time and as many at once as there are slots, in turn with raw durable request and reply",
		leaves,
		false,
	},
	{"fan-out", "a parent with 10, 100 and 1,000 children", fanOut, false},
	{
		"tree",
		"a tree of 156 runs whose model is asked over HTTP, in turn with the raw requests and HTTP calls that it consists of",
		tree,
		false,
	},
	{"chain", "conversations of 12, 24 and 49 turns with a call each", chain, false},
	{"wake", "an idle child that is written to, in turn with fresh leaves", wake, false},
	{"workers", "leaf runs with one worker process and with two, in turn", workers, false},
	{
		"scale",
		"a stream with a million runs, many of which wait, beside an empty one; a worker with hundreds of agents",
		scale,
		true,
	},
}

// Names lists the workloads.
func Names() (names []string) {
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return names
}

func (s *stand) asks(group string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.raw.Ask(ctx, group, []byte(`{"task":"hello"}`))
		return err
	}
}

func (s *stand) calls(agent string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := s.tree(ctx, agent)
		return err
	}
}

func leaves(ctx context.Context, s *stand) (ms []Metric, err error) {
	k := s.cfg.Slots
	err = s.hire(
		ctx,
		1,
		false,
		group{"one", 1, false, false},
		group{"oneAhead", 1, true, false},
		group{"many", k, false, false},
		group{"manyAhead", k, true, false},
	)
	if err != nil {
		return nil, err
	}
	leaf, pulled, ahead := &runner{do: s.leaf}, &runner{do: s.asks("one")}, &runner{do: s.asks("oneAhead")}
	if err := s.race(ctx, 1, leaf, pulled, ahead); err != nil {
		return nil, err
	}
	ms = append(ms,
		duration("one at a time, p50", leaf.at(.5)), duration("one at a time, p99", leaf.at(.99)),
		duration("raw, p50", pulled.at(.5)), duration("raw, p99", pulled.at(.99)),
		ratio("latency, of raw", leaf.at(.5).Seconds()/pulled.at(.5).Seconds()).atMost(1.3),
		ratio("latency, of raw with 500 ahead", leaf.at(.5).Seconds()/ahead.at(.5).Seconds()),
		count("stored messages for each", leaf.each(float64(leaf.used.Last))).exactly(2),
		Metric{Name: "stored for each", Value: leaf.each(float64(leaf.used.Bytes)), Unit: "B"},
	)
	leaf, pulled, ahead = &runner{do: leaf.do}, &runner{do: s.asks("many")}, &runner{do: s.asks("manyAhead")}
	if err := s.race(ctx, k, leaf, pulled, ahead); err != nil {
		return nil, err
	}
	ms = append(
		ms,
		rate(fmt.Sprintf("%d at once", k), leaf.rate()),
		rate("raw", pulled.rate()),
		ratio("rate, of raw", leaf.rate()/pulled.rate()).atLeast(.75),
		ratio("rate, of raw with 500 ahead", leaf.rate()/ahead.rate()),
		Metric{
			Name:  "processor time of the worker for 1,000",
			Value: leaf.each(leaf.used.workers.CPU.Seconds()) * 1000,
			Unit:  "s",
		},
		Metric{
			Name:  "processor time of raw servers for 1,000",
			Value: pulled.each(pulled.used.workers.CPU.Seconds()) * 1000,
			Unit:  "s",
		},
		memory("memory of the worker", leaf.used.workers.Peak),
	)
	if s.server != nil {
		ms = append(
			ms,
			Metric{
				Name:  "processor time of the server for 1,000",
				Value: leaf.each(leaf.used.server.CPU.Seconds()) * 1000,
				Unit:  "s",
			},
			Metric{Name: "the same for raw", Value: pulled.each(pulled.used.server.CPU.Seconds()) * 1000, Unit: "s"},
			memory("memory of the server", leaf.used.server.Peak),
		)
	}
	return ms, nil
}

func fanOut(ctx context.Context, s *stand) (ms []Metric, err error) {
	if err := s.hire(ctx, 1, false); err != nil {
		return nil, err
	}
	var all []*runner
	for _, n := range fans {
		all = append(all, &runner{do: s.calls(fmt.Sprint("fan", n))})
	}
	if err := s.race(ctx, 1, all...); err != nil {
		return nil, err
	}
	for i, n := range fans {
		r := all[i]
		ms = append(
			ms,
			duration(fmt.Sprintf("%d children, p50", n), r.at(.5)),
			// Of a root's call and outcome, n outcomes, and the
			// turn: its entry, n calls and its timer.
			count(
				fmt.Sprintf("%d children: messages of the turn, beyond one for each call", n),
				r.each(float64(r.used.Last))-float64(2+2*n),
			).exactly(
				2,
			),
			count(
				fmt.Sprintf("%d children: messages read for each reply", n),
				r.each(float64(r.used.workers.Read))/float64(n),
			).atMost(
				1.1,
			),
		)
	}
	last := len(all) - 1
	return append(
		ms,
		ratio("1,000 children, of 100", all[last].at(.5).Seconds()/all[last-1].at(.5).Seconds()).atMost(12),
	), nil
}

// tree compares a tree with what it consists of, made with the same
// concurrency: on the way down a durable request with an HTTP call for each run
// of a level, all of a level at once; on the way up an HTTP call for each
// parent.
func tree(ctx context.Context, s *stand) (ms []Metric, err error) {
	if err := s.hire(ctx, 1, true, group{"tree", s.cfg.Slots, false, true}); err != nil {
		return nil, err
	}
	direct := order{ModelURL: s.model.url, Slots: s.cfg.Slots}.provider()
	level := func(ctx context.Context, n int, do func(context.Context) error) error {
		all, ctx := errgroup.WithContext(ctx)
		for range n {
			all.Go(func() error { return do(ctx) })
		}
		return all.Wait()
	}
	parts := &runner{do: func(ctx context.Context) error {
		n := 1
		for range treeDepth + 1 {
			if err := level(ctx, n, s.asks("tree")); err != nil {
				return err
			}
			n *= treeFan
		}
		for n /= treeFan * treeFan; n > 0; n /= treeFan {
			if err := level(ctx, n, func(ctx context.Context) error { return ping(ctx, direct) }); err != nil {
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
	if err := s.race(ctx, 1, whole, parts); err != nil {
		return nil, err
	}
	return []Metric{
		duration(fmt.Sprintf("%d runs, p50", treeRuns), whole.at(.5)), duration("p99", whole.at(.99)),
		duration("raw requests and HTTP calls, p50", parts.at(.5)),
		ratio("of raw requests and HTTP calls", whole.at(.5).Seconds()/parts.at(.5).Seconds()).atMost(2),
	}, nil
}

func chain(ctx context.Context, s *stand) (ms []Metric, err error) {
	if err := s.hire(ctx, 1, false); err != nil {
		return nil, err
	}
	var all []*runner
	for _, n := range chains {
		all = append(all, &runner{do: s.calls(fmt.Sprint("chain", n))})
	}
	if err := s.race(ctx, 1, all...); err != nil {
		return nil, err
	}
	perTurn := make([]float64, len(chains))
	for i, n := range chains {
		perTurn[i] = all[i].each(float64(all[i].used.Bytes)) / float64(n)
		ms = append(ms,
			duration(fmt.Sprintf("%d turns, p50", n), all[i].at(.5)),
			Metric{Name: fmt.Sprintf("%d turns: stored for each", n), Value: perTurn[i], Unit: "B"},
		)
	}
	last := len(chains) - 1
	return append(
		ms,
		ratio(
			fmt.Sprintf("bytes of a turn, of %d to those of %d", chains[last], chains[0]),
			perTurn[last]/perTurn[0],
		).atMost(
			1,
		),
	), nil
}

func wake(ctx context.Context, s *stand) ([]Metric, error) {
	if err := s.hire(ctx, 1, false); err != nil {
		return nil, err
	}
	root, err := s.lead(ctx)
	if err != nil {
		return nil, err
	}
	next := 0
	woken := &runner{do: func(ctx context.Context) error {
		fork := root
		fork.Path = root.Path.Child(1, next%forks)
		next++
		return s.wake(ctx, fork)
	}}
	leaf := &runner{do: s.leaf}
	if err := s.race(ctx, 1, woken, leaf); err != nil {
		return nil, err
	}
	return []Metric{
		duration("p50", woken.at(.5)), duration("p99", woken.at(.99)), duration("a fresh leaf, p50", leaf.at(.5)),
		ratio("of a fresh leaf", woken.at(.5).Seconds()/leaf.at(.5).Seconds()).atMost(3),
	}, nil
}

// lead calls a root that forks, and waits until its forks are idle.
func (s *stand) lead(ctx context.Context) (subjects.Run, error) {
	r, err := s.fresh("lead")
	if err == nil {
		err = s.begin(ctx, r, subjects.Header{Reply: s.space.Result(r.Agent, r.Tree)})
	}
	for range forks {
		if err == nil {
			_, err = s.word(ctx)
		}
	}
	return r, err
}

// wake writes to a fork that is idle and waits until it is idle again.
func (s *stand) wake(ctx context.Context, fork subjects.Run) error {
	key, err := subjects.ParseKey(bus.NewID())
	if err != nil {
		return err
	}
	_, err = s.conn.Write(
		ctx,
		bus.Message{
			Subject: fork.Mail(key),
			Body:    []byte(`{"from":"somebody","text":"go on"}`),
			Fence:   bus.After(fork.Mail(key), 0),
		},
	)
	if err != nil {
		return err
	}
	from, err := s.word(ctx)
	if err == nil && !strings.HasPrefix(from, fork.Path.String()+"-idle") {
		err = fmt.Errorf("%s was written to, and %s has answered", fork, from)
	}
	return err
}

// word waits for a fork to tell that it is idle, and returns the key of that.
func (s *stand) word(ctx context.Context) (key string, err error) {
	select {
	case m := <-s.words:
		return m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], nil
	case <-time.After(time.Minute):
		return "", errors.New("no word of a fork within a minute")
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func workers(ctx context.Context, s *stand) (ms []Metric, err error) {
	var all [2]runner
	for range fewest {
		for i := range all {
			if err := s.hire(ctx, i+1, false); err != nil {
				return nil, err
			}
			r := &runner{do: s.leaf}
			if err := s.race(ctx, 2*s.cfg.Slots, r); err != nil {
				return nil, err
			}
			all[i].took, all[i].wall = append(all[i].took, r.took...), all[i].wall+r.wall
		}
	}
	for i := range all {
		ms = append(ms, rate(fmt.Sprintf("%d at once, worker processes: %d", 2*s.cfg.Slots, i+1), all[i].rate()))
	}
	return append(ms, ratio("two, of one", all[1].rate()/all[0].rate()).atLeast(1)), nil
}
