package toolset_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/internal/toolset"
	"github.com/axebus/axe/internal/traceparent"
)

// connect starts a NATS server. It returns the connection of a worker, and one
// for a service.
func connect(t *testing.T) (*bus.Conn, *nats.Conn) {
	t.Helper()
	url := testbus.Listen(t)
	conn := testbus.Dial(t, url)
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return conn, nc
}

// TestNATSService: the endpoints of a micro service are tools. Their metadata
// describe them. A call returns the text of the service, or its error.
func TestNATSService(t *testing.T) {
	t.Parallel()
	conn, nc := connect(t)
	set := toolset.NATS(configs.Toolset{Kind: configs.ToolsetNATS, Service: "orders"}, conn)
	if _, err := set.Tools(t.Context()); err == nil || err.Error() != "no instance of the service orders is there" {
		t.Errorf("got %v, want that there is no service", err)
	}
	service, err := micro.AddService(nc, micro.Config{Name: "orders", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	const schema = `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`
	if err := service.AddEndpoint("get", micro.HandlerFunc(func(r micro.Request) {
		_ = r.Respond(
			[]byte(r.Headers().Get("Nats-Msg-Id") + " " + r.Headers().Get("Axe-Key") + " " + string(r.Data())),
		)
	}), micro.WithEndpointSubject("orders.get"), micro.WithEndpointMetadata(map[string]string{
		"description": "Returns an order.", "schema": schema, "effect": "read",
	})); err != nil {
		t.Fatal(err)
	}
	if err := service.AddEndpoint("refund", micro.HandlerFunc(func(r micro.Request) {
		_ = r.Error("409", "it was refunded", []byte("yesterday"))
	}), micro.WithEndpointMetadata(map[string]string{"effect": "sometimes", "schema": "{"})); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	tools, err := set.Tools(t.Context())
	if err != nil || len(tools) != 2 {
		t.Fatalf("got %+v, %v, want two tools", tools, err)
	}
	if get := tools[0]; get.Name != "get" || get.Description != "Returns an order." || string(get.Schema) != schema ||
		get.Effect != run.ToolReads {
		t.Errorf("get is %+v, want the description, the schema and the effect of its metadata", get)
	}
	if refund := tools[1]; refund.Effect != "" || string(refund.Schema) != `{"properties":{},"type":"object"}` {
		t.Errorf("refund is %+v, want no effect and the schema of any object", refund)
	}
	r, err := set.Call(t.Context(), toolset.Call{Tool: "get", Arguments: []byte(`{"id":"7"}`), Key: "k"})
	if err != nil || r.Text != `k k {"id":"7"}` {
		t.Errorf("call of get: got %q, error %v; want the key twice and the arguments", r.Text, err)
	}
	_, err = set.Call(t.Context(), toolset.Call{Tool: "refund", Arguments: []byte(`{}`)})
	if err == nil || err.Error() != "the service failed (409): it was refunded: yesterday" {
		t.Errorf("got %v, want the service's error", err)
	}
	if _, err = set.Call(t.Context(), toolset.Call{Tool: "none"}); err == nil {
		t.Error("a call of a tool that the service does not have succeeded")
	}
}

// TestNATSSubject: arguments become tokens of a subject, and the others are the
// body. A call without a subscriber ends with ErrNoResponder. A call without an
// answer ends with the cause of its context.
func TestNATSSubject(t *testing.T) {
	t.Parallel()
	conn, nc := connect(t)
	set := toolset.NATS(configs.Toolset{Kind: configs.ToolsetNATS, Tools: map[string]configs.ToolsetTool{
		"act": {Subject: "orders.{id}.get"}, "silent": {Subject: "silent"},
	}}, conn)
	if _, err := set.Call(t.Context(), callOf(`{"id":"7"}`)); !errors.Is(err, bus.ErrNoResponder) {
		t.Errorf("got %v, want that nothing answers", err)
	}
	if _, err := nc.Subscribe(
		"orders.*.get",
		func(m *nats.Msg) { _ = m.Respond([]byte(m.Subject + string(m.Data) + m.Header.Get("traceparent"))) },
	); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe("silent", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	r, err := set.Call(t.Context(), callOf(`{"id":"7","more":1}`))
	if err != nil || r.Text != `orders.7.get{"more":1}` {
		t.Errorf("call of act: got %q, error %v; want the subject and the other arguments", r.Text, err)
	}
	r, err = set.Call(traceparent.With(t.Context(), "00-1-2-01"), callOf(`{"id":"7"}`))
	if want := `orders.7.get{}00-1-2-01`; err != nil || r.Text != want {
		t.Errorf("call in a trace: got %q, error %v; want %q", r.Text, err, want)
	}
	for _, id := range []string{"", "a.b", "*", ">", "a b"} {
		if _, err := set.Call(t.Context(), callOf(`{"id":"`+id+`"}`)); err == nil {
			t.Errorf("the id %q was accepted, want an error", id)
		}
	}
	late := errors.New("late")
	ctx, cancel := contextWithTimeout(t, 50*time.Millisecond, late)
	defer cancel()
	if _, err := set.Call(ctx, toolset.Call{Tool: "silent", Arguments: []byte(`{}`)}); !errors.Is(err, late) {
		t.Errorf("got %v, want the cause of the context", err)
	}
}
