package agentd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
	"github.com/axebus/axe/subjects"
)

type model func(ctx context.Context, req *provider.Request) (*provider.Response, error)

func (m model) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	return m(ctx, req)
}

func TestSmoke(t *testing.T) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	s, err := bus.Serve(bus.ServerConfig{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := bus.Open(ctx, bus.Config{Dial: bus.Dial{Server: s}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Provision(ctx, bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	m := model(func(_ context.Context, req *provider.Request) (*provider.Response, error) {
		last := req.Messages[len(req.Messages)-1]
		if len(req.Tools) > 0 && last.Role == provider.User {
			var calls []provider.ToolCall
			for i := range 3 {
				calls = append(calls, provider.NewToolCall(fmt.Sprint("c", i), "call_agent", fmt.Appendf(nil, `{"agent":%q,"task":"t%d"}`, req.System, i)))
			}
			return &provider.Response{ToolCalls: calls}, nil
		}
		if last.Role == provider.ToolRole {
			out := ""
			for _, r := range last.ToolResults {
				out += "[" + r.Content + "]"
			}
			return &provider.Response{Content: out}, nil
		}
		return &provider.Response{Content: last.Content}, nil
	})
	w, err := agentd.New(conn, agentd.Config{Name: "w1", Log: log, Open: func(string) (provider.Provider, string, error) { return m, "m", nil }})
	if err != nil {
		t.Fatal(err)
	}
	_ = w.Serve([]configs.Agent{
		{Name: "lead", Model: "x/y", SystemPrompt: "mid", SubAgents: []string{"mid"}, SubAgentsConfig: configs.SubAgentsConfig{Parallel: true}},
		{Name: "mid", Model: "x/y", SystemPrompt: "leaf", SubAgents: []string{"leaf"}, SubAgentsConfig: configs.SubAgentsConfig{Parallel: false}},
		{Name: "leaf", Model: "x/y", SystemPrompt: "leaf", SubAgentsConfig: configs.SubAgentsConfig{Parallel: true}},
	})
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	lead, _ := subjects.ParseAgent("lead")
	id, _ := subjects.ParseTree(bus.NewID())
	res := make(chan bus.Stored, 1)
	stop, err := conn.Watch(conn.Space().Live(conn.Space().Result(lead, id)), func(m bus.Stored) { res <- m })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	start := time.Now()
	if _, err := conn.Write(ctx, bus.Message{Subject: conn.Space().Submit(lead, id), Body: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	select {
	case m := <-res:
		var o run.Outcome
		_ = json.Unmarshal(m.Body, &o)
		t.Logf("%v %s", time.Since(start), m.Body)
	case <-time.After(10 * time.Second):
		t.Error("no result")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
