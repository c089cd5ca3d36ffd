package agentd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/ratelimit"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// limited is a worker's configuration with limits for all models.
func limited(s ratelimit.Settings) agentd.Config {
	return agentd.Config{Slots: 4, RateLimit: func(string) (string, ratelimit.Settings) { return "sim-000000000000", s }}
}

// crew hires so many workers and waits until they work.
func (s *stage) crew(n int, e engagement) {
	for i := range n {
		s.hire(fmt.Sprintf("w%d", i), e)
	}
	s.settle()
}

// submitAll submits so many tasks at once.
func (s *stage) submitAll(n int) []subjects.Run {
	var rs []subjects.Run
	for i := range n {
		rs = append(rs, s.submit("lead", fmt.Sprintf("t%d", i)))
	}
	return rs
}

// limits is what is stored of the limits.
func (s *stage) limits() ratelimit.State {
	value, _, err := s.conn.RateLimit("sim-000000000000").Read(s.ctx, 0)
	if err != nil {
		s.tb.Fatal(err)
	}
	return ratelimit.Decode(value)
}

// TestNoLimitCostsNothing: without one nothing is written, and there is not
// even a bucket to write to.
func TestNoLimitCostsNothing(t *testing.T) {
	for set, want := range map[ratelimit.Settings]bool{{}: false, {RetryAfter: true}: false, {Concurrent: 1}: true} {
		onStage(t, func(s *stage) {
			s.agents = []configs.Agent{define("lead", nil)}
			written, made := s.tap("$KV.AXE_LIMITS.>"), s.tap("$JS.API.STREAM.CREATE.KV_AXE_LIMITS")
			s.crew(1, engagement{Config: limited(set)})
			s.completed(s.submit("lead", "go"), "lead")
			if n := len(written()); n > 0 != want {
				t.Errorf("%+v: %d writes", set, n)
			}
			if n := len(made()); n > 0 != set.On() {
				t.Errorf("%+v: the bucket was made %d times", set, n)
			}
		})
	}
}

// moody refuses everything until a first refusal is so old, and notes when that
// was.
type moody struct {
	mu      sync.Mutex
	refused time.Time
}

func (m *moody) part(after time.Duration, then part) part {
	return func(ctx context.Context, a *asked) (*provider.Response, error) {
		if err := m.mood(after); err != nil {
			return nil, err
		}
		return then(ctx, a)
	}
}

func (m *moody) mood(after time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.refused.IsZero() {
		m.refused = now
	}
	if left := m.refused.Add(after).Sub(now); left > 0 {
		return &provider.Error{Category: provider.RateLimit, Status: 429, RetryAfter: left, Message: "slow down"}
	}
	return nil
}

// TestRetryAfterClosesTheGate: of 16 workers at most one asks before the time
// is over that the provider wants to be left alone; then one asks first, and
// the others when it has been answered.
func TestRetryAfterClosesTheGate(t *testing.T) {
	onStage(t, func(s *stage) {
		var m moody
		s.agents = []configs.Agent{define("lead", nil, patient(5))}
		s.parts["lead"] = m.part(5*time.Second, after(time.Second, repeats))
		s.crew(16, engagement{Config: limited(ratelimit.Settings{RetryAfter: true})})
		first := s.submit("lead", "first")
		s.asking("lead", 1)
		time.Sleep(100 * time.Millisecond)
		rs := s.submitAll(50)
		s.completed(first, "first")
		for i, r := range rs {
			s.completed(r, fmt.Sprintf("t%d", i))
		}
		early, open := 0, m.refused.Add(5*time.Second)
		var later []time.Time
		for _, a := range s.asked("lead") {
			switch {
			case a.from.After(m.refused.Add(20*time.Millisecond)) && a.from.Before(open):
				early++
			case !a.from.Before(open):
				later = append(later, a.from)
			}
		}
		if early > 1 {
			t.Errorf("%d requests before the 5 s were over", early)
		}
		slices.SortFunc(later, time.Time.Compare)
		if len(later) != 51 || later[1].Sub(later[0]) < time.Second {
			t.Errorf("%d requests afterwards, the second %v after the first", len(later), later[1].Sub(later[0]))
		}
		if st := s.limits(); !st.ClosedUntil.IsZero() || st.Probe != nil {
			t.Errorf("it is not open again: %+v", st)
		}
	})
}

// TestTheNextProbe: a probe that fails in a way that says nothing is followed
// by another one, and a refused one closes the gate again.
func TestTheNextProbe(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil, patient(9))}
		var mu sync.Mutex
		n := 0
		s.parts["lead"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			mu.Lock()
			n++
			nth := n
			mu.Unlock()
			switch nth {
			case 1:
				return nil, &provider.Error{Category: provider.Overloaded, RetryAfter: 10 * time.Second}
			case 2:
				return nil, &provider.Error{Category: provider.Server, Message: "broken"}
			case 3:
				return nil, &provider.Error{Category: provider.RateLimit, RetryAfter: 20 * time.Second}
			}
			return repeats(ctx, a)
		}
		s.crew(3, engagement{Config: limited(ratelimit.Settings{RetryAfter: true})})
		from := time.Now()
		rs := []subjects.Run{s.submit("lead", "t0")}
		s.asking("lead", 1)
		time.Sleep(time.Second)
		rs = append(rs, s.submit("lead", "t1"), s.submit("lead", "t2"))
		for i, r := range rs {
			s.completed(r, fmt.Sprintf("t%d", i))
		}
		var at []float64
		for _, a := range s.asked("lead") {
			at = append(at, a.from.Sub(from).Round(time.Second).Seconds())
		}
		if diff := cmp.Diff([]float64{0, 10, 10, 30, 30, 30}, at); diff != "" {
			t.Error(diff)
		}
	})
}

// TestConcurrent: never more requests in flight than there may be, and never
// fewer while more wait.
func TestConcurrent(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil)}
		s.parts["lead"] = after(3*time.Second, repeats)
		s.crew(3, engagement{Config: limited(ratelimit.Settings{Concurrent: 5})})
		from := time.Now()
		for i, r := range s.submitAll(20) {
			o := s.completed(r, fmt.Sprintf("t%d", i))
			if o.ModelMS != 3000 {
				t.Errorf("the time at the gate counts as the model's: %d ms", o.ModelMS)
			}
		}
		if n := peak(s.asked("lead")); n != 5 {
			t.Errorf("%d at once", n)
		}
		s.within(from, 13*time.Second)
		for _, h := range s.hands {
			h.leave(s)
		}
		if st := s.limits(); len(st.Holders) > 0 {
			t.Errorf("held by workers that have left: %+v", st)
		}
	})
}

// TestLimitsPerMinute: never more requests in a minute of the clock than there
// may be, and none when the tokens of the minute are spent.
func TestLimitsPerMinute(t *testing.T) {
	for name, set := range map[string]ratelimit.Settings{"requests": {Requests: 7}, "tokens": {Tokens: 70}} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.agents = []configs.Agent{define("lead", nil)}
				s.parts["lead"] = repeats // 11 tokens
				s.crew(3, engagement{Config: limited(set)})
				for i, r := range s.submitAll(30) {
					s.completed(r, fmt.Sprintf("t%d", i))
				}
				windows := map[time.Time]int{}
				for _, a := range s.asked("lead") {
					windows[a.from.UTC().Truncate(time.Minute)]++
				}
				for at, n := range windows {
					// as many as were in flight when the
					// last tokens were spent
					if name == "requests" && n > 7 || n > 7+12 {
						t.Errorf("%d requests in the minute from %v", n, at)
					}
				}
				if name == "requests" && len(windows) < 4 || len(windows) < 2 {
					t.Errorf("%d minutes for 30 requests", len(windows))
				}
			})
		})
	}
}

// TestPermitsOfTheDead come back when their lease is over.
func TestPermitsOfTheDead(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil)}
		s.parts["lead"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			if a.worker == "victim" {
				return after(10*time.Minute, repeats)(ctx, a)
			}
			return repeats(ctx, a)
		}
		h := s.hire("victim", engagement{Config: limited(ratelimit.Settings{Concurrent: 2})})
		s.settle()
		one, two := s.submit("lead", "t0"), s.submit("lead", "t1")
		s.asking("lead", 2)
		time.Sleep(time.Minute)
		if st := s.limits(); len(st.Holders) != 1 {
			t.Errorf("the lease of what is in flight was not renewed: %+v", st)
		}
		h.kill()
		died := time.Now()
		s.hire("heir", engagement{Config: limited(ratelimit.Settings{Concurrent: 2})})
		s.completed(one, "t0")
		s.completed(two, "t1")
		s.within(died, 35*time.Second)
		if next := s.asked("lead")[2].from.Sub(died); next < 20*time.Second {
			t.Errorf("asked %v after the death, with the permits of the dead", next)
		}
	})
}

// TestPermitsOfWhoLeaves are free at once, also when what it had in flight was
// aborted.
func TestPermitsOfWhoLeaves(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil)}
		s.parts["lead"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			if a.worker == "w" {
				return after(10*time.Minute, repeats)(ctx, a)
			}
			return repeats(ctx, a)
		}
		cfg := limited(ratelimit.Settings{Concurrent: 1})
		cfg.Grace = 3 * time.Second
		h := s.hire("w", engagement{Config: cfg})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("lead", 1)
		s.hire("heir", engagement{Config: cfg})
		s.settle()
		h.leave(s)
		left := time.Now()
		s.completed(r, "go")
		s.within(left, 2*time.Second)
	})
}

// TestWaitAtTheGate is told, keeps the lease of the trigger, and ends with a
// tombstone, a drain and the deadline.
func TestWaitAtTheGate(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("busy", nil), define("lead", nil)}
		s.parts["busy"] = after(10*time.Minute, repeats)
		cfg := limited(ratelimit.Settings{Concurrent: 1})
		h := s.hire("w", engagement{Config: cfg})
		s.settle()
		s.submit("busy", "go")
		s.asking("busy", 1)
		cut, late, kept := s.root("lead"), s.root("lead"), s.root("lead")
		parts := s.tap(cut.Space.PartsOf(cut.Tree))
		from := time.Now()
		s.send(cut, "cut")
		s.send(late, "late", due(from.Add(time.Minute)))
		s.send(kept, "kept")
		time.Sleep(40 * time.Second)
		s.pub(cut.Cancel(), "")
		at := time.Now()
		s.failed(cut, run.KindCancelled, "cancelled")
		s.within(at, 500*time.Millisecond)
		s.failed(late, run.KindTimeout, "timeout after 60s")
		s.within(from, 61*time.Second)
		var p run.Progress
		told := parts()
		if len(told) != 1 || json.Unmarshal(told[0].Body, &p) != nil ||
			p != (run.Progress{Event: "waiting", Turn: 1, Worker: "w", Reason: "max_concurrent"}) {
			t.Errorf("%d parts, %+v", len(told), p)
		}
		time.Sleep(time.Minute)
		s.hire("heir", engagement{Config: limited(ratelimit.Settings{})})
		s.settle()
		at = time.Now()
		h.stop()
		s.completed(kept, "lead")
		s.within(at, 3*time.Second)
		if asks := s.asked("lead"); len(asks) != 1 || asks[0].worker != "heir" {
			t.Errorf("asked: %+v", asks)
		}
	})
}
