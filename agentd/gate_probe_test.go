package agentd_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axebus/axe/agentd/ratelimit"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
)

// TestLongProbe: a provider wants to be left alone for five seconds and is
// content then, and its answers take ten minutes. One request goes before the
// others; they do not wait for the whole of its answer.
func TestLongProbe(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", nil, patient(5))}
		var n atomic.Int64
		s.parts["lead"] = func(ctx context.Context, a *asked) (*provider.Response, error) {
			if n.Add(1) == 1 {
				return nil, &provider.Error{Category: provider.RateLimit, Status: 429, RetryAfter: 5 * time.Second}
			}
			return after(10*time.Minute, repeats)(ctx, a)
		}
		s.crew(4, engagement{Config: limited(ratelimit.Settings{RetryAfter: true})})
		first := s.submit("lead", "first")
		s.asking("lead", 1)
		time.Sleep(100 * time.Millisecond)
		open := time.Now().Add(5 * time.Second)
		rs := s.submitAll(10)
		s.completed(first, "first")
		for i, r := range rs {
			s.completed(r, fmt.Sprintf("t%d", i))
		}
		for i, a := range s.asked("lead")[1:] {
			if d := a.from.Sub(open); d > time.Minute {
				t.Errorf("request %d of 11 was made %v after the gate's time was over", i+1, d.Round(time.Second))
				return
			}
		}
	})
}
