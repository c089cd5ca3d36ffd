package agentd_test

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// TestSimWorkersDie walks at random: some trees, four workers with a bad fate
// each, and what else a plot has. Every tree comes to a right end, and nothing
// on the stream is ever wrong.
func TestSimWorkersDie(t *testing.T) {
	t.Parallel()
	ats.Register()
	defer ats.Unregister()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPlot(t)
		defer watch(fmt.Sprintf("the walk %+v", p))()
		rapid.SyncTest(t, func(t *rapid.T) {
			dir, err := os.MkdirTemp("", "sim") //nolint:usetesting // a rapid.T has no TempDir
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			inBubble(t, dir, p.Parts, func(s *sim) { (&walk{sim: s, plot: p}).run() })
		})
	})
}

// long says that the number of walks was given on the command line, as make sim
// does.
var long bool

// TestMain reads the flags before any test does: some of them run beside each
// other.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { long = long || f.Name == "rapid.checks" })
	if !long {
		if err := flag.Set("rapid.checks", "20"); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// walk is one plot in a bubble.
type walk struct {
	*sim
	plot
	procs []*proc
	trees []subjects.Run

	// who comes when the four may all be dead
	rescued chan *proc

	mu sync.Mutex
	// labels below which nobody is asked, from a time on
	cuts map[string]time.Time
	met  map[string]bool // workers that have met their fate
	// when the last worker that was away is back, zero if none was
	quiet time.Time
}

// label is the task of a tree, so that no two trees have the same turns.
func (w *walk) label(i int) string { return fmt.Sprintf("L%d", i) }

// run lets the trees grow and checks how they ended. What the workers leave
// undone is done by one that lives.
func (w *walk) run() {
	all, served := w.cast()
	w.play(w.model)
	w.cuts, w.met, w.rescued = map[string]time.Time{}, map[string]bool{}, make(chan *proc, 1)
	defer w.bury()
	if w.Gone {
		w.announce(all)
	}
	w.agents = served
	for i, f := range w.Fates {
		w.procs = append(w.procs, w.fated(fmt.Sprintf("w%d", i), f))
	}
	for i, f := range w.Trees {
		w.grow(i, f)
	}
	rescue := time.AfterFunc(
		40*time.Second,
		func() { w.rescued <- w.start("rescue", agentd.Config{Slots: w.Slots}, nil) },
	)
	for i, f := range w.Trees {
		label := w.label(i)
		if o := w.result(w.trees[i], 30*time.Minute); !w.ends(f, label, w.model, o) {
			w.tb.Errorf(
				"%s: outcome %s %s %q %s\n%s",
				label,
				o.Status,
				o.Kind,
				o.Result,
				o.Error,
				w.dump(w.trees[i].Tree),
			)
		}
	}
	if !rescue.Stop() { // it has begun
		w.procs = append(w.procs, <-w.rescued)
	}
	w.agents = all
	w.procs = append(w.procs, w.start("last", agentd.Config{Slots: 8}, nil))
	w.settle()
	for _, r := range w.trees {
		w.check(r.Tree)
	}
	w.thrifty()
}

// bury ends all workers.
func (w *walk) bury() {
	select {
	case p := <-w.rescued: // a walk that failed has not waited for it
		w.procs = append(w.procs, p)
	default:
	}
	for _, p := range w.procs {
		p.kill()
		_ = p.wait()
	}
}

// announce makes all agents known, by a worker that then dies: who calls one
// that nobody has waits.
func (w *walk) announce(all []configs.Agent) {
	w.agents = all
	p := w.start("gone", agentd.Config{}, nil)
	time.Sleep(2 * time.Second)
	p.kill()
	_ = p.wait()
}

// grow submits a tree, and has it cancelled or its child.
func (w *walk) grow(i int, f fruit) {
	a, err := subjects.ParseAgent(fmt.Sprintf("a%d", f.Agent))
	if err != nil {
		w.tb.Fatal(err)
	}
	id, err := subjects.ParseTree(bus.NewID())
	if err != nil {
		w.tb.Fatal(err)
	}
	r := w.conn.Space().Run(a, id, subjects.Root)
	w.trees = append(w.trees, r)
	m := bus.Message{Subject: r.Space.Submit(a, id), Body: []byte(w.label(i))}
	if f.Deadline > 0 {
		at := time.Now().Add(time.Duration(f.Deadline) * time.Second)
		m.Header = [][2]string{{subjects.HeaderDeadline, at.Format(time.RFC3339Nano)}}
	}
	if _, err := w.conn.Write(w.ctx, m); err != nil {
		w.tb.Fatal(err)
	}
	w.visit(i, f, r)
	label := w.label(i)
	switch {
	case f.Path < 0:
		return
	case f.Path > 0:
		r = w.childOf(i, f)
		label = fmt.Sprintf("%s.%d", label, (f.Path-1)%w.Fan)
	}
	time.AfterFunc(time.Duration(f.Cancel)*time.Second, func() {
		if _, err := w.conn.Write(w.ctx, bus.Message{Subject: r.Cancel(), Fence: bus.After(r.Cancel(), 0)}); err == nil {
			w.mu.Lock()
			w.cuts[label] = time.Now()
			w.mu.Unlock()
		}
	})
}

// childOf is the child of a tree's first turn that something befalls.
func (w *walk) childOf(i int, f fruit) subjects.Run {
	below := f.Agent + 1
	if w.Mail == "top" {
		below = f.Agent // a fork
	}
	a, err := subjects.ParseAgent(fmt.Sprintf("a%d", below))
	if err != nil {
		w.tb.Fatal(err)
	}
	r := w.trees[i]
	return r.Space.Run(a, r.Tree, r.Path.Child(1, (f.Path-1)%w.Fan))
}
