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

// passesContext calls an agent with the first user text as the context, and
// then answers with the agent's answer.
func passesContext(name string) scriptedModel {
	return turns(func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		return calls(use("call_agent", "agent", name, "task", "echo", "context", req.text()))(ctx, req)
	}, func(ctx context.Context, req *modelRequest) (*provider.Response, error) {
		return says(req.results()[0].Content)(ctx, req)
	})
}

// echoesContext answers with the context that it was given.
func echoesContext(ctx context.Context, req *modelRequest) (*provider.Response, error) {
	return says(strings.TrimPrefix(req.text(), "Task: echo\n\nContext:\n"))(ctx, req)
}

// TestLargeBodies: 20 MiB pass whole through a submission, an agent, its
// child's context and the answers. The race detector would need half a minute
// for it.
func TestLargeBodies(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		h.agents = []configs.Agent{define("lead", []string{"leaf"}), define("leaf", nil)}
		h.models["lead"], h.models["leaf"] = passesContext("leaf"), echoesContext
		h.startWorker("w1", workerOptions{agents: h.agents[:1]})
		h.startWorker("w2", workerOptions{agents: h.agents[1:]})
		h.awaitReady()
		task := strings.Repeat("0123456789abcdef", 20<<20/16-1) + "that is the end"
		r := h.submit("lead", task)
		o := h.awaitOutcome(r, 30*time.Minute)
		if o.Result != task {
			t.Errorf("outcome %s %q with %d bytes, want the %d bytes of the task",
				o.Status, o.Error, len(o.Result), len(task))
		}
		if n := len(h.requests("leaf")[0].text()); n < 20<<20-16 {
			t.Errorf("the child was shown %d bytes, want %d at least", n, 20<<20-16)
		}
	})
}

// TestHostileLargeBodies: a text of 10 MiB in any body of JSON ends no run but
// that which gets it.
func TestHostileLargeBodies(t *testing.T) {
	t.Parallel()
	testHostileBodies(t, longText(10<<20))
}
