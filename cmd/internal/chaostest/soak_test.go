package chaostest

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/internal/pause"
	"github.com/axebus/axe/subjects"
)

const (
	soakEnv     = "AXE_SOAK"      // the time for which trees are submitted
	soakKeepEnv = "AXE_SOAK_KEEP" // the --keep of the workers
)

const (
	// soakRate is the number of trees a second.
	soakRate = 2
	// Of soakLarge trees one is a leaf with a task of largeTask bytes, which
	// the bus keeps as an object.
	soakLarge = 20
	largeTask = 3 << 19
	// soakWarm is the number of large tasks before the first sample. Their
	// trees are numbered from soakWarmID on.
	soakWarm   = 6
	soakWarmID = 90000
	// latenessOfAge is the time after its age that a message may be kept.
	latenessOfAge = 15 * time.Second
)

// soak is a fleet under a steady load that keeps its trees for a short time.
type soak struct {
	*harness
	length, keep time.Duration
	every        time.Duration // between two samples
	conn         *bus.Conn
	load, large  *load
	samples      []sample
}

// TestSoak submits trees of all styles at a steady rate, while the streams keep
// each for a short time. Every tree has its right answer, and no message is
// kept for longer. After a while, the size of the streams and of the processes
// stays where it is. AXE_SOAK is the time, and AXE_SOAK_KEEP the time for which
// trees are kept: a quarter of it, or 5 minutes if that is shorter. Without
// AXE_SOAK the test takes half a minute.
func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("takes its time: make soak")
	}
	s := &soak{length: 26 * time.Second}
	duration(t, soakEnv, &s.length)
	s.keep = min(s.length/4, 5*time.Minute)
	duration(t, soakKeepEnv, &s.keep)
	s.every = max(s.length/120, 500*time.Millisecond)
	s.start(t)
	s.run(t)
	if wrong := slices.Concat(s.load.wrong, s.large.wrong); len(wrong) > 0 {
		t.Errorf("%d trees are wrong:\n%s", len(wrong), strings.Join(wrong[:min(10, len(wrong))], "\n"))
	}
	if err := s.awaitQuiet(t.Context()); err != nil {
		t.Error(err)
	}
	s.verify(t)
	for _, text := range growing(s.samples, s.keep*3/2) {
		t.Error(text)
	}
	t.Logf("%d trees; %d samples; submissions and waits tried again: %d", s.ended(), len(s.samples),
		s.load.retries.Load()+s.large.retries.Load())
}

// duration sets a time from the environment, if it is set there.
func duration(t *testing.T, name string, to *time.Duration) {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		t.Fatalf("%s=%q: want a time, for example 20m", name, text)
	}
	*to = d
}

// start starts the server and the workers.
func (s *soak) start(t *testing.T) {
	t.Helper()
	programs := binaries(t)
	// The scheduler of a child prints its goroutines.
	t.Setenv("GODEBUG", fmt.Sprintf("schedtrace=%d,scheddetail=1", s.every.Milliseconds()))
	h, worker := newFleet(t, programs, t.TempDir(), 200*time.Millisecond)
	s.harness = h
	h.name, h.log.traces = "soak", newSchedulerTraces()
	worker.agents = writeAgents(t)
	worker.args = []string{"--keep", s.keep.String(), "--timeout", (s.keep * 4 / 5).String()}
	h.startFleet(t, worker)
	s.conn = h.connect(t)
	load := func(agent string) *load {
		a, err := subjects.ParseAgent(agent)
		if err != nil {
			t.Fatal(err)
		}
		return &load{h: h, client: client.New(s.conn), lead: a}
	}
	s.load, s.large = load("lead"), load("leaf")
	s.large.more = "\n" + strings.Repeat("large ", largeTask/6)
	s.large.answer = func(label string) string { return label + "()" }
}

func (s *soak) ended() int64 { return s.load.ended.Load() + s.large.ended.Load() }

// run submits trees at the rate, takes samples, and prints one a minute. It
// returns when all trees have ended.
func (s *soak) run(t *testing.T) {
	t.Helper()
	// Each large task adds some 40 MiB to a fresh server, until its collector
	// has run a few times. In half a minute that would take until the end.
	for i := range soakWarm {
		s.large.tree(t.Context(), soakWarmID+i)
	}
	ctx, over := context.WithTimeout(t.Context(), s.length)
	defer over()
	var trees, sampler sync.WaitGroup
	sampler.Go(func() { s.sample(ctx, t) })
	for i := 0; ctx.Err() == nil; i++ {
		trees.Go(func() {
			if i%soakLarge == soakLarge/2 {
				s.large.tree(t.Context(), i)
			} else {
				s.load.tree(t.Context(), i)
			}
		})
		_ = pause.For(ctx, time.Second/soakRate)
	}
	sampler.Wait()
	trees.Wait()
}

// sample takes samples until ctx ends.
func (s *soak) sample(ctx context.Context, t *testing.T) {
	t.Helper()
	begin, shown := time.Now(), 0
	t.Log(header())
	for pause.For(ctx, s.every) == nil {
		u, err := bus.MeasureUsage(ctx, s.conn)
		if err != nil {
			if ctx.Err() == nil {
				t.Error(err)
			}
			return
		}
		one := s.measure(u, time.Since(begin))
		s.samples = append(s.samples, one)
		for _, kept := range u.Streams {
			age := u.Time.Sub(kept.Oldest)
			if kept.OfTrees && kept.Messages > 0 && age > s.keep+latenessOfAge {
				t.Errorf("after %s: a message of %s is kept for %s, want %s", one.at, kept.Name, age, s.keep)
			}
		}
		// A row for each minute, and eight at least.
		if n := int(one.at / min(time.Minute, s.length/8)); n > shown {
			shown = n
			t.Log(one)
		}
	}
}
