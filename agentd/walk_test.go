package agentd_test

import (
	"flag"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"pgregory.net/rapid"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// fate is what happens to a worker at one of its steps.
type fate struct {
	Step int
	What string // "kill", "freeze" or "drain"
}

// TestSimWorkersDie walks at random: some trees, four workers with a bad fate each, some cancelled
// trees. Every tree comes to its one right end.
func TestSimWorkersDie(t *testing.T) {
	t.Parallel()
	ats.Register()
	defer ats.Unregister()
	rapid.Check(t, func(t *rapid.T) {
		fates := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) fate {
			return fate{
				rapid.IntRange(1, 60).Draw(t, "step"),
				rapid.SampledFrom([]string{"kill", "kill", "freeze", "drain"}).Draw(t, "what"),
			}
		}), 4, 4).Draw(t, "fates")
		depth := rapid.IntRange(1, 3).Draw(t, "depth")
		fan := rapid.IntRange(1, 3).Draw(t, "fan")
		sequential := rapid.Bool().Draw(t, "sequential")
		slots := rapid.IntRange(1, 4).Draw(t, "slots")
		cancels := rapid.SliceOfN(rapid.IntRange(-10, 10), 1, 2).Draw(t, "trees") // seconds until cancelled, or never
		rapid.SyncTest(t, func(t *rapid.T) {
			dir, err := os.MkdirTemp("", "sim") //nolint:usetesting // a rapid.T has no TempDir
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			inBubble(t, dir, func(s *sim) {
				s.agents = levels(depth+1, func(a *configs.Agent) { a.SubAgentsConf.Parallel = !sequential })
				s.model.fan = fan
				s.walk(fates, slots, depth, cancels)
			})
		})
	})
}

// long says that the number of walks was given on the command line, as make sim does.
var long bool

// TestMain reads the flags before any test does: some of them run beside each other.
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

// walk runs the trees under the fates and checks how they ended.
func (s *sim) walk(fates []fate, slots, depth int, cancels []int) {
	var procs []*proc
	for i, f := range fates {
		procs = append(procs, s.fated(fmt.Sprintf("w%d", i), slots, f))
	}
	var trees []subjects.Run
	for _, c := range cancels {
		r := s.submit("a0", "L")
		trees = append(trees, r)
		if c >= 0 {
			go func() {
				time.Sleep(time.Duration(c) * time.Second)
				_, _ = s.conn.Write(s.ctx, bus.Message{Subject: r.Cancel(), Fence: bus.After(r.Cancel(), 0)})
			}()
		}
	}
	var last *proc
	go func() { // whatever happened to the four, one comes that lives
		time.Sleep(40 * time.Second)
		last = s.start("last", agentd.Config{Slots: slots}, nil)
	}()
	for i, r := range trees {
		o := s.result(r, 30*time.Minute)
		if cancels[i] < 0 || o.Kind != run.KindCancelled {
			s.right(o, depth)
		}
	}
	time.Sleep(3 * time.Minute)
	for _, r := range trees {
		s.check(r.Tree)
	}
	for key, who := range s.model.repeated() {
		// Each worker may have had a turn in flight at its bad end, in each of the trees.
		if len(who) > len(trees)*(1+len(fates)) {
			s.tb.Errorf("turn %s was asked by %v", key, who)
		}
	}
	for _, p := range append(procs, last) {
		p.kill()
		_ = p.wait()
	}
}

// fated starts a worker that meets its fate.
func (s *sim) fated(name string, slots int, f fate) *proc {
	var frozen atomic.Bool
	return s.startWith(name, agentd.Config{Slots: slots}, &frozen, func(p *proc, step int, _ bus.Point) {
		if step != f.Step {
			return
		}
		switch f.What {
		case "kill":
			p.kill()
		case "drain":
			p.stop()
		case "freeze":
			frozen.Store(true)
			time.Sleep(time.Minute)
			frozen.Store(false)
		}
	})
}
