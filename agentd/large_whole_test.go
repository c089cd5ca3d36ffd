//go:build !race

package agentd_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
)

// handsOn calls an agent with what it was asked as the context, and then
// answers with the answer.
func handsOn(name string) part {
	return turns(func(ctx context.Context, a *asked) (*provider.Response, error) {
		return calls(
			toolCall("call_agent", map[string]string{"agent": name, "task": "echo", "context": a.text()}),
		)(
			ctx,
			a,
		)
	}, func(ctx context.Context, a *asked) (*provider.Response, error) {
		return says(a.results()[0].Content)(ctx, a)
	})
}

// echoes answers with the context that it was given.
func echoes(ctx context.Context, a *asked) (*provider.Response, error) {
	return says(strings.TrimPrefix(a.text(), "Task: echo\n\nContext:\n"))(ctx, a)
}

// TestLargeBodies: 20 MiB through a submission, an agent, its child's context
// and the answers, whole. The race detector makes half a minute of it.
func TestLargeBodies(t *testing.T) {
	onStage(t, func(s *stage) {
		s.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		s.parts["lead"], s.parts["leaf"] = handsOn("leaf"), echoes
		s.hire("w1", engagement{agents: s.agents[:1]})
		s.hire("w2", engagement{agents: s.agents[1:]})
		s.settle()
		task := strings.Repeat("0123456789abcdef", 20<<20/16-1) + "that is the end"
		r := s.submit("lead", task)
		o := s.result(r, 30*time.Minute)
		if o.Result != task {
			t.Errorf("%s %s: %d bytes, want %d", o.Status, o.Error, len(o.Result), len(task))
		}
		if n := len(s.asked("leaf")[0].text()); n < 20<<20-16 {
			t.Errorf("the child was shown %d bytes", n)
		}
	})
}
