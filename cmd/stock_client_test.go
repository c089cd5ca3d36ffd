package cmd_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/agentd"
	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/provider"
)

// TestStockClient: a client with a NATS library alone submits tasks, waits for
// outcomes, finds them later, and serves an agent, as docs/protocol.md says.
// The server has the default bound of a payload, 1 MB.
func TestStockClient(t *testing.T) {
	c := newStockClient(t)

	t.Run("wait for an outcome, and find it later", func(t *testing.T) {
		m := c.ask(t, "axe.submit.echo.order1", "hello", nil)
		c.wantOutcome(t, m.Data, "", "hello")
		stored := c.last(t, "axe.result.echo.order1")
		c.wantOutcome(t, stored.Data, "", "hello")
		c.publish(t, "axe.submit.echo.order1", "hello", nil)
		c.ask(t, "axe.submit.echo.order2", "a later task", nil)
		if again := c.last(t, "axe.result.echo.order1"); again.Sequence != stored.Sequence {
			t.Errorf("the same id again stored outcome %d, want only outcome %d", again.Sequence, stored.Sequence)
		}
	})

	t.Run("headers", func(t *testing.T) {
		soon := time.Now().Add(200 * time.Millisecond).Format(time.RFC3339Nano)
		for i, test := range []struct{ agent, name, value, kind, text string }{
			{"echo", "Axe-Limits", "r agents=50 tokens=200000", "", "x"},
			{"echo", "Axe-Limits", "50 agents", "error", `submission refused: Axe-Limits: path "50": malformed`},
			{"echo", "Axe-Deadline", "tomorrow", "error", `submission refused: Axe-Deadline "tomorrow": malformed`},
			{"slow", "Axe-Deadline", soon, "timeout", "timeout after "},
		} {
			id := string(rune('a' + i))
			m := c.ask(t, "axe.submit."+test.agent+".head"+id, "x", nats.Header{test.name: {test.value}})
			c.wantOutcome(t, m.Data, run.Kind(test.kind), test.text)
		}
	})

	t.Run("mail and a cancel message", func(t *testing.T) {
		sub := c.subscribe(t, "axe.live.run.slow.order3.>")
		result := c.subscribe(t, "axe.live.result.slow.order3")
		c.publish(t, "axe.submit.slow.order3", "x", nil)
		next(t, sub, ".r.call")
		first := nats.Header{"Nats-Expected-Last-Subject-Sequence": {"0"}}
		c.publish(t, "axe.run.slow.order3.r.in.mail.note1", `{"from":"ops","text":"Hurry"}`, first)
		next(t, sub, ".in.mail.note1")
		c.publish(t, "axe.run.slow.order3.r.cancel", "", nil)
		c.wantOutcome(t, next(t, result, "").Data, run.KindCancelled, "cancelled")
	})

	t.Run("a malformed id", func(t *testing.T) {
		sub := c.subscribe(t, "axe.live.dead.submit.>")
		c.publish(t, "axe.submit.echo.order-4711", "x", nil)
		m := next(t, sub, ".r")
		if m.Header.Get("Axe-Subject") != "axe.submit.echo.order-4711" ||
			!strings.Contains(m.Header.Get("Axe-Reason"), `tree id "order-4711": malformed: want 1 to 64 `) {
			t.Errorf("got a dead letter with the headers %v, want its subject and reason", m.Header)
		}
	})

	t.Run("a large result", func(t *testing.T) {
		m := c.ask(t, "axe.submit.large.order5", "x", nil)
		bucket, err := c.js.ObjectStore(t.Context(), "AXE_OBJECTS")
		if err != nil {
			t.Fatal(err)
		}
		body, err := bucket.GetBytes(t.Context(), m.Header.Get("Axe-Object"))
		if err != nil {
			t.Fatal(err)
		}
		c.wantOutcome(t, body, "", strings.Repeat("x", 2<<20))
	})

	t.Run("an agent", func(t *testing.T) {
		c.serveShell(t)
		m := c.ask(t, "axe.submit.lead.order6", "x", nil)
		c.wantOutcome(t, m.Data, "", "the shell says: ran date")
	})
}

// serveShell serves the agent shell without a worker: it takes calls and
// publishes outcomes.
func (c *stockClient) serveShell(t *testing.T) {
	t.Helper()
	cards, err := c.js.KeyValue(t.Context(), "AXE_AGENTS")
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := c.js.CreateOrUpdateConsumer(t.Context(), "AXE_RUNS", jetstream.ConsumerConfig{
		Durable: "agent_shell", FilterSubject: "axe.run.shell.*.*.call", AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	calls, err := consumer.Consume(func(m jetstream.Msg) {
		var call struct{ Task string }
		_ = json.Unmarshal(m.Data(), &call)
		outcome, _ := json.Marshal(map[string]string{"status": "completed", "result": "ran " + call.Task})
		reply := &nats.Msg{Subject: m.Headers().Get("Axe-Reply"), Data: outcome}
		reply.Header = nats.Header{"Axe-Schema": {"1"}}
		if _, err := c.js.PublishMsg(context.Background(), reply); err == nil {
			_ = m.Ack()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(calls.Stop)
	card := `{"name":"shell","description":"Runs a command","digest":"1","worker":"shell-1"}`
	if _, err := cards.PutString(t.Context(), "shell", card); err != nil {
		t.Fatal(err)
	}
}

// stockClient connects with the NATS library, without the packages bus and
// client.
type stockClient struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// newStockClient starts a server and a worker, and connects to the server.
func newStockClient(t *testing.T) *stockClient {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true, StoreDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	url := "nats://" + s.Addr().String()
	serveModels(t, url)
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return &stockClient{nc, js}
}

// serveModels runs a worker with the agents of these tests until the test ends.
func serveModels(t *testing.T, url string) {
	t.Helper()
	conn, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{URL: url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := conn.Provision(t.Context(), bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	open := func(model string) (provider.Provider, string, error) { return stockModel(model), model, nil }
	w, err := agentd.New(conn, agentd.Config{Open: open})
	if err != nil {
		t.Fatal(err)
	}
	agents := []configs.Agent{{Name: "lead", Model: "lead", SubAgents: []string{"shell"}}}
	for _, name := range []string{"echo", "slow", "large"} {
		agents = append(agents, configs.Agent{Name: name, Model: name})
	}
	if err := w.Serve(configs.Definitions{Agents: agents}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the worker ended with %v, want no error", err)
		}
	})
}

// stockModel is the model of an agent, with the name of the agent.
type stockModel string

// Send implements provider.Provider.
func (m stockModel) Send(ctx context.Context, req *provider.Request) (*provider.Response, error) {
	said := req.Messages[len(req.Messages)-1]
	switch {
	case m == "slow":
		<-ctx.Done()
		return nil, provider.ContextError(ctx)
	case m == "large":
		return &provider.Response{Content: strings.Repeat("x", 2<<20)}, nil
	case m == "lead" && len(req.Messages) == 1:
		return &provider.Response{ToolCalls: []provider.ToolCall{call("shell", "date")}}, nil
	case m == "lead":
		return &provider.Response{Content: "the shell says: " + said.ToolResults[0].Content}, nil
	}
	return &provider.Response{Content: said.Content}, nil
}

// publish stores a message, and waits for the acknowledgement of the server.
func (c *stockClient) publish(t *testing.T, subject, text string, header nats.Header) {
	t.Helper()
	m := &nats.Msg{Subject: subject, Data: []byte(text), Header: header}
	if _, err := c.js.PublishMsg(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// subscribe returns when the server knows the subscription.
func (c *stockClient) subscribe(t *testing.T, subject string) *nats.Subscription {
	t.Helper()
	sub, err := c.nc.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return sub
}

// ask submits a task and returns the message of its outcome.
func (c *stockClient) ask(t *testing.T, subject, text string, header nats.Header) *nats.Msg {
	t.Helper()
	sub := c.subscribe(t, strings.Replace(subject, "axe.submit.", "axe.live.result.", 1))
	c.publish(t, subject, text, header)
	return next(t, sub, "")
}

// next returns the next message with a subject that ends with end.
func next(t *testing.T, sub *nats.Subscription, end string) *nats.Msg {
	t.Helper()
	for {
		m, err := sub.NextMsg(waitTimeout)
		if err != nil {
			t.Fatalf("%s: %v", sub.Subject, err)
		}
		if strings.HasSuffix(m.Subject, end) {
			return m
		}
	}
}

// last returns the last stored message of a subject.
func (c *stockClient) last(t *testing.T, subject string) *jetstream.RawStreamMsg {
	t.Helper()
	s, err := c.js.Stream(t.Context(), "AXE_RUNS")
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantOutcome compares the kind of an outcome, and the beginning of its result
// or error.
func (c *stockClient) wantOutcome(t *testing.T, body []byte, kind run.Kind, text string) {
	t.Helper()
	var o run.Outcome
	if err := json.Unmarshal(body, &o); err != nil {
		t.Fatal(err)
	}
	if o.Kind != kind || !strings.HasPrefix(o.Result+o.Error, text) {
		t.Errorf("got kind %q, %.200q; want %q, %.200q", o.Kind, o.Result+o.Error, kind, text)
	}
}
