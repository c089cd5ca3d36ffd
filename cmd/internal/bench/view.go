package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/busbench"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

const (
	// viewFan is the number of children of each tree that fills the stream,
	// and largeFan that of the tree that is shown.
	viewFan  = 9
	largeFan = 999
	// atWork is the number of trees at work: half of them are the oldest
	// trees of the stream, and half of them the newest.
	atWork = 20
	// viewedAgent is the agent of all trees. No worker serves it.
	viewedAgent = "viewed"
)

// view fills a stream with runs, and measures lists of trees and the drawing of
// one, each in turn with a raw read of as many messages. Each operation opens a
// connection, as a command does.
func view(ctx context.Context, s *testbed) ([]Metric, error) {
	// A worker answers the question for the runs in its hand.
	if err := s.startWorkers(ctx, 1, false); err != nil {
		return nil, err
	}
	v := &viewed{testbed: s}
	ms, err := v.fill(ctx)
	if err != nil {
		return ms, err
	}
	const page = client.DefaultTrees
	list := func(q client.TreeQuery, want int) func(context.Context, *client.Client) error {
		return func(ctx context.Context, c *client.Client) error {
			found, err := c.Trees(ctx, q)
			if err == nil && len(found.Trees) != want {
				err = fmt.Errorf("%d trees are listed, want %d", len(found.Trees), want)
			}
			return err
		}
	}
	for _, o := range []viewOperation{
		{"list of the trees at work", .3, list(client.TreeQuery{}, atWork)},
		{"list of the newest trees", .3, list(client.TreeQuery{All: true}, page)},
		{"list after the first quarter", .3, list(client.TreeQuery{All: true, Before: v.large}, page)},
		{"a tree of 1,000 runs", .5, func(ctx context.Context, c *client.Client) error {
			snapshot, err := c.Snapshot(ctx, v.large)
			if err == nil && len(snapshot.Runs()) != largeFan+1 {
				err = fmt.Errorf("the tree has %d runs, want %d", len(snapshot.Runs()), largeFan+1)
			}
			return err
		}},
	} {
		more, err := v.measure(ctx, o)
		if ms = append(ms, more...); err != nil {
			return ms, fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return ms, nil
}

// viewOperation is an operation of a person at a shell.
type viewOperation struct {
	name string
	// aim is the longest time that it may take, in seconds.
	aim float64
	do  func(context.Context, *client.Client) error
}

// viewed is a testbed with a stream of many runs.
type viewed struct {
	*testbed
	// large is the tree of 1,000 runs. It began after a quarter of the runs.
	large subjects.Tree
	last  uint64
}

// fill makes the trees.
func (v *viewed) fill(ctx context.Context) (ms []Metric, err error) {
	began, reported := time.Now(), time.Now()
	trees := max(1, (v.cfg.Runs-largeFan-1)/(viewFan+1))
	progress := func(stored int) {
		if time.Since(reported) < 10*time.Second {
			return
		}
		reported = time.Now()
		fmt.Fprintf(v.cfg.Progress, "view: %d of about %d messages stored\n", stored, 2*v.cfg.Runs)
	}
	quarter := trees / 4
	for _, step := range []func() error{
		func() error { return v.begin(ctx, atWork/2) },
		func() error { return busbench.Fill(ctx, v.conn, v.ended(quarter, viewFan), progress) },
		func() error { return busbench.Fill(ctx, v.conn, v.ended(1, largeFan), progress) },
		func() error { return busbench.Fill(ctx, v.conn, v.ended(trees-quarter, viewFan), progress) },
		func() error { return v.begin(ctx, atWork/2) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	volume, err := busbench.VolumeOf(ctx, v.conn)
	v.last = volume.Last
	return []Metric{
		count("runs", float64(trees*(viewFan+1)+largeFan+1+atWork*(viewFan+1))), duration("made in", time.Since(began)),
		count("stored messages", float64(volume.Last)), size("stored", volume.Bytes),
	}, err
}

// ended yields the messages of trees that have ended: a root with n children.
func (v *viewed) ended(trees, n int) iter.Seq[bus.Message] {
	shape, err := newShape(n)
	return func(yield func(bus.Message) bool) {
		for range trees {
			r, wrong := v.newRoot(viewedAgent)
			if err != nil || wrong != nil {
				return // the agent's name is a constant
			}
			if n == largeFan {
				v.large = r.Tree
			}
			for m := range shape.messages(r, true) {
				if !yield(m) {
					return
				}
			}
		}
	}
}

// begin stores trees that are at work: the children have no outcomes.
func (v *viewed) begin(ctx context.Context, trees int) error {
	shape, err := newShape(viewFan)
	if err != nil {
		return err
	}
	for range trees {
		r, err := v.newRoot(viewedAgent)
		if err != nil {
			return err
		}
		for m := range shape.messages(r, false) {
			if _, err := v.conn.Write(ctx, m); err != nil {
				return err
			}
		}
		timer := bus.Timer{At: time.Now().Add(24 * time.Hour), Target: r.Fired(0)}
		if _, err := v.conn.Write(ctx, bus.Message{Subject: r.Timer(0), Body: []byte("{}"), Timer: timer}); err != nil {
			return err
		}
	}
	return nil
}

// shape has the bodies of a tree, which are those that a worker writes.
type shape struct {
	children             int
	call, entry          []byte
	childEnded, treeEnds []byte
}

func newShape(children int) (s shape, err error) {
	s.children = children
	entry := run.Entry{
		Index: 1, Kind: run.EntryTurn, Trigger: 1, Seen: 1, Worker: "w1", ModelMS: 1000,
		Start: &run.Start{
			Model: "openai/gpt-5", System: "You lead a review.", User: "Review it.", SubAgents: []string{viewedAgent},
		},
		Answer: &provider.Response{
			Content: "I ask my readers.", StopReason: "tool_use",
			Usage: provider.Usage{InputTokens: 400, OutputTokens: 100},
		},
	}
	deadline := time.Now().Add(time.Hour)
	for i := range children {
		arguments := fmt.Sprintf(`{"agent":%q,"task":"Read part %d, and say what is wrong with it."}`, viewedAgent, i)
		call := provider.NewToolCall(fmt.Sprint("call_", i), "call_agent", json.RawMessage(arguments))
		entry.Answer.ToolCalls = append(entry.Answer.ToolCalls, call)
		entry.Calls = append(entry.Calls, run.Call{Agent: viewedAgent, Deadline: deadline})
	}
	child := run.Outcome{
		Status: run.StatusCompleted, Result: "There is nothing wrong with it.", Agent: viewedAgent, Worker: "w1",
		Model: "openai/gpt-5", StopReason: "end_turn", Turns: 1, DurationMS: 1200, ModelMS: 1000,
		Usage: provider.Usage{InputTokens: 200, OutputTokens: 20},
	}
	child.Subtree = run.Totals{Usage: child.Usage, Runs: 1, ModelCalls: 1, ModelMS: 1000}
	root := child
	root.Turns = 2
	for range children {
		root.Subtree = root.Subtree.Add(child.Subtree)
	}
	for body, value := range map[*[]byte]any{
		&s.call: run.Input{Task: "Read it, and say what is wrong with it."}, &s.entry: entry,
		&s.childEnded: child, &s.treeEnds: root,
	} {
		if *body, err = json.Marshal(value); err != nil {
			return s, err
		}
	}
	return s, nil
}

// messages yields the messages of a tree.
func (s shape) messages(r subjects.Run, ended bool) iter.Seq[bus.Message] {
	call := func(of subjects.Run, reply string) bus.Message {
		head := subjects.Header{
			Tree: of.Tree, Path: of.Path, MaxDepth: subjects.MaxDepth, Reply: reply,
			Deadline: time.Now().Add(24 * time.Hour),
		}
		if !of.Path.IsRoot() {
			head.Parent, head.Depth = r.Agent, 1
		}
		return bus.Message{Subject: of.Call(), Header: head.Pairs(), Body: s.call}
	}
	schema := [][2]string{{"Axe-Schema", "1"}}
	return func(yield func(bus.Message) bool) {
		if !yield(call(r, r.Space.Result(r.Agent, r.Tree))) ||
			!yield(bus.Message{Subject: r.Log(), Header: schema, Body: s.entry}) {
			return
		}
		for i := range s.children {
			child := r
			child.Path = r.Path.Child(1, i)
			if !yield(call(child, r.Reply(1, i))) {
				return
			}
		}
		for i := range s.children {
			if ended && !yield(bus.Message{Subject: r.Reply(1, i), Header: schema, Body: s.childEnded}) {
				return
			}
		}
		if ended {
			yield(bus.Message{Subject: r.Space.Result(r.Agent, r.Tree), Header: schema, Body: s.treeEnds})
		}
	}
}

// use opens a connection for one operation, and returns the number of messages
// that the operation has read.
func (v *viewed) use(ctx context.Context, do func(context.Context, *bus.Conn) error) (uint64, error) {
	space, err := subjects.NewSpace(v.cfg.Prefix)
	if err != nil {
		return 0, err
	}
	conn, err := bus.Open(ctx, bus.Config{Dial: v.dial, Space: space})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	err = do(ctx, conn)
	return conn.Stats().Messages, err
}

// measure compares an operation with a raw read of as many messages.
func (v *viewed) measure(ctx context.Context, o viewOperation) ([]Metric, error) {
	var read uint64
	operation := &runner{do: func(ctx context.Context) (err error) {
		read, err = v.use(ctx, func(ctx context.Context, conn *bus.Conn) error { return o.do(ctx, client.New(conn)) })
		return err
	}}
	// The first operation tells how much is read.
	if err := operation.do(ctx); err != nil {
		return nil, err
	}
	raw := &runner{do: func(ctx context.Context) error {
		_, err := v.use(ctx, func(ctx context.Context, conn *bus.Conn) error {
			if err := conn.Provisioned(ctx); err != nil {
				return err
			}
			left := int(read)
			for _, err := range conn.Scan(ctx, conn.Space().All(), v.last-min(v.last, read)) {
				if left--; err != nil || left == 0 {
					return err
				}
			}
			return nil
		})
		return err
	}}
	if err := v.compare(ctx, 1, operation, raw); err != nil {
		return nil, err
	}
	p50 := seconds(o.name+", p50", operation.quantile(.5).Seconds())
	return []Metric{
		p50.atMost(o.aim), duration(o.name+", p99", operation.quantile(.99)),
		count(o.name+": messages read", float64(read)), duration("a raw read of as many, p50", raw.quantile(.5)),
		quotient(o.name+", of the raw read", operation, raw),
	}, nil
}
