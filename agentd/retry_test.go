package agentd_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

// patient makes an agent ask so often, 4 s apart.
func patient(attempts int) func(*configs.Agent) {
	return func(a *configs.Agent) {
		a.Retry = configs.Retry{MaxAttempts: attempts, Backoff: configs.Fixed, Initial: 4 * time.Second}
	}
}

// failing plays a part after so many failures.
func failing(n int, err error, then part) part {
	var failed atomic.Int64
	return func(ctx context.Context, a *asked) (*provider.Response, error) {
		if failed.Add(1) <= int64(n) {
			return nil, err
		}
		return then(ctx, a)
	}
}

var busy = &provider.Error{Category: provider.RateLimit, Status: 429, Message: "slow down"}

// apart are the seconds between an agent's requests.
func (s *stage) apart(agent string) []float64 {
	gaps := []float64{}
	asks := s.asked(agent)
	for i := 1; i < len(asks); i++ {
		gaps = append(gaps, asks[i].from.Sub(asks[i-1].from).Round(100*time.Millisecond).Seconds())
	}
	return gaps
}

func TestRetry(t *testing.T) {
	after := func(d time.Duration) error {
		return &provider.Error{Category: provider.Overloaded, RetryAfter: d, Message: "later"}
	}
	denied := &provider.Error{Category: provider.Auth, Message: "who are you"}
	for name, test := range map[string]struct {
		attempts, failures int
		err                error
		deadline           time.Duration // 0: the worker's hour
		gaps               []float64
		want               string // of the error; "": it answers
		retries            int
	}{
		"off by default":                   {0, 1, busy, 0, []float64{}, busy.Error(), 0},
		"one attempt is none more":         {1, 1, busy, 0, []float64{}, busy.Error(), 0},
		"to success":                       {3, 2, busy, 0, []float64{4, 4}, "", 2},
		"until there are no attempts left": {3, 5, busy, 0, []float64{4, 4}, busy.Error(), 2},
		"a refused key is final":           {3, 1, denied, 0, []float64{}, denied.Error(), 0},
		"as the provider asks":             {3, 1, after(time.Minute), 0, []float64{60}, "", 1},
		"not less than configured":         {3, 1, after(time.Second), 0, []float64{4}, "", 1},
		"not beyond the deadline":          {3, 1, after(time.Minute), 30 * time.Second, []float64{}, after(0).Error(), 0},
		"while the deadline allows it":     {9, 9, busy, 10 * time.Second, []float64{4, 4}, busy.Error(), 2},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.agents = []configs.Agent{define("lead", nil, patient(test.attempts))}
				s.parts["lead"] = failing(test.failures, test.err, repeats)
				s.hire("w", engagement{})
				s.settle()
				r := s.root("lead")
				if test.deadline > 0 {
					s.send(r, "go", due(time.Now().Add(test.deadline)))
				} else {
					s.send(r, "go")
				}
				var o run.Outcome
				if test.want == "" {
					o = s.completed(r, "go")
				} else {
					o = s.result(r, time.Hour)
				}
				if o.Error != test.want || o.Retries != test.retries || o.Turns != 1 {
					t.Errorf("%+v", o)
				}
				if diff := cmp.Diff(test.gaps, s.apart("lead")); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestRetryCounts: the time of all attempts is the model's, the pauses between
// are not; turns on the log count with the last one.
func TestRetryCounts(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", []string{"leaf"}, patient(2)), define("leaf", nil)}
		s.parts["lead"] = turns(
			failing(1, busy, after(time.Second, calls(call("leaf", "x")))),
			after(time.Second, failing(1, busy, sums)),
		)
		s.hire("w", engagement{})
		r := s.submit("lead", "go")
		o := s.completed(r, "c0=leaf")
		if got := s.entries(r)[0]; o.Retries != 2 || got.Retries != 1 || o.ModelMS != 3000 || got.ModelMS != 1000 ||
			o.Turns != 2 {
			t.Errorf("outcome %+v\nentry %+v", o, got)
		}
	})
}

// TestRetryIsTold to who watches, with the time of the next attempt.
func TestRetryIsTold(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil, patient(3))}
		s.parts["lead"] = failing(1, busy, after(time.Second, repeats))
		s.hire("w", engagement{})
		s.settle()
		r := s.root("lead")
		parts := s.tap(r.Space.PartsOf(r.Tree))
		s.send(r, "go")
		s.completed(r, "go")
		var got []run.Progress
		for _, m := range parts() {
			var p run.Progress
			if err := json.Unmarshal(m.Body, &p); err != nil {
				t.Fatal(err)
			}
			got = append(got, p)
		}
		retrying := run.Progress{
			Event:    "retrying",
			Turn:     1,
			Worker:   "w",
			Attempt:  2,
			Attempts: 3,
			Reason:   "rate_limit",
			Next:     s.asked("lead")[1].from.UTC(),
		}
		asking := run.Progress{Event: "asking", Turn: 1, Worker: "w", Attempt: 2, Attempts: 3}
		for i := range got {
			got[i].Next = got[i].Next.UTC()
		}
		if diff := cmp.Diff([]run.Progress{retrying, asking}, got); diff != "" {
			t.Error(diff)
		}
	})
}

// TestTombstoneEndsAPause at once, and nothing is asked any more.
func TestTombstoneEndsAPause(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil, patient(3))}
		s.parts["lead"] = fails(busy)
		s.hire("w", engagement{})
		r := s.submit("lead", "go")
		s.asking("lead", 1)
		time.Sleep(time.Second)
		from := time.Now()
		s.pub(r.Cancel(), "")
		s.failed(r, run.KindCancelled, "cancelled")
		s.within(from, 500*time.Millisecond)
		time.Sleep(time.Minute)
		if n := len(s.asked("lead")); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// TestDrainEndsAPause at once: another worker goes on with a first attempt.
func TestDrainEndsAPause(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil, func(a *configs.Agent) {
			a.Retry = configs.Retry{
				MaxAttempts: 3,
				Backoff:     configs.Fixed,
				Initial:     40 * time.Second,
				Max:         time.Minute,
			}
		})}
		s.parts["lead"] = failing(1, busy, repeats)
		h := s.hire("w", engagement{})
		r := s.submit("lead", "go")
		s.asking("lead", 1)
		s.hire("heir", engagement{})
		s.settle()
		from := time.Now()
		h.leave(s)
		if o := s.completed(r, "go"); o.Worker != "heir" || o.Retries != 0 {
			t.Errorf("%+v", o)
		}
		s.within(from, 3*time.Second)
	})
}

// TestRetryIsRecorded: a later turn, on a worker whose file says nothing of it,
// keeps to what the run was started with.
func TestRetryIsRecorded(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", []string{"leaf"}, patient(3)), define("leaf", nil)}
		s.parts["lead"] = turns(calls(call("leaf", "x")), failing(2, busy, sums))
		s.parts["leaf"] = after(30*time.Second, says("leaf"))
		h := s.hire("first", engagement{agents: s.agents[:1]})
		s.hire("leaves", engagement{agents: s.agents[1:]})
		s.settle()
		r := s.submit("lead", "go")
		s.asking("leaf", 1)
		h.leave(s)
		s.hire("next", engagement{agents: []configs.Agent{define("lead", []string{"leaf"})}})
		if o := s.completed(r, "c0=leaf"); o.Worker != "next" || o.Retries != 2 {
			t.Errorf("%+v", o)
		}
		want := &run.Retry{Attempts: 3, Backoff: run.Fixed, Initial: 4 * time.Second, Max: 30 * time.Second}
		if diff := cmp.Diff(want, s.entries(r)[0].Start.Retry); diff != "" {
			t.Error(diff)
		}
	})
}

// TestNoRetryLeavesNoTrace: what is stored of a run without it is what it
// always was.
func TestNoRetryLeavesNoTrace(t *testing.T) {
	onStage(t, func(s *stage) {
		s.lead([]string{"leaf"}, call("leaf", "x"))
		s.hire("w", engagement{})
		r := s.submit("lead", "go")
		s.completed(r, "c0=leaf")
		for _, m := range s.stored(r.Tree) {
			at, err := s.conn.Space().Parse(m.Subject)
			if err == nil && at.Kind != subjects.Call && strings.Contains(string(m.Body), "retr") {
				t.Errorf("%s: %s", m.Subject, m.Body)
			}
		}
	})
}
