// Package examples_test loads the example agents and lets their scripts work through a whole review, without a bus.
package examples_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axebus/axe/agentd/prompt"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/provider/script"
)

// tree runs agents the simplest way there is: one goroutine, depth first.
type tree struct {
	agents map[string]configs.Agent
	runs   map[string]int
	spent  provider.Usage
}

func load(t *testing.T) *tree {
	t.Helper()
	agents, err := configs.LoadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	tr := &tree{agents: map[string]configs.Agent{}, runs: map[string]int{}}
	for _, a := range agents {
		tr.agents[a.Name] = a
	}
	return tr
}

func (tr *tree) run(ctx context.Context, name, user string) (string, error) {
	tr.runs[name]++
	a := tr.agents[name]
	model, err := script.Load("scripts", strings.TrimPrefix(a.Model, "script/"))
	if err != nil {
		return "", err
	}
	system, err := prompt.System(a)
	if err != nil {
		return "", err
	}
	req := &provider.Request{
		Model: strings.TrimPrefix(a.Model, "script/"), System: system, Temperature: a.Params.Temperature,
		Messages: []provider.Message{{Role: provider.User, Content: user}},
	}
	for range 10 {
		resp, err := model.Send(ctx, req)
		if err != nil {
			return "", err
		}
		tr.spent = tr.spent.Add(resp.Usage)
		if len(resp.ToolCalls) == 0 {
			return resp.Content, nil
		}
		answer := provider.Message{Role: provider.ToolRole}
		for _, c := range resp.ToolCalls {
			answer.ToolResults = append(answer.ToolResults, tr.call(ctx, a, c))
		}
		req.Messages = append(req.Messages,
			provider.Message{Role: provider.Assistant, Content: resp.Content, ToolCalls: resp.ToolCalls}, answer)
	}
	return "", errors.New("too many turns")
}

func (tr *tree) call(ctx context.Context, a configs.Agent, c provider.ToolCall) provider.ToolResult {
	child, task := c.Arguments["agent"], c.Arguments["task"]
	if !strings.Contains(strings.Join(a.SubAgents, " "), child) || task == "" {
		return provider.ToolResult{CallID: c.ID, Content: "not allowed", IsError: true}
	}
	text, err := tr.run(ctx, child, prompt.User(task, c.Arguments["context"]))
	if err != nil {
		return provider.ToolResult{CallID: c.ID, Content: err.Error(), IsError: true}
	}
	return provider.ToolResult{CallID: c.ID, Content: text}
}

func TestReview(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := load(t)
		began := time.Now()
		report, err := tr.run(t.Context(), "lead", prompt.RootUser(""))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s\n%v of model time, %+v", report, time.Since(began), tr.spent)
	})
}
