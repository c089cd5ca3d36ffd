package agentd

import (
	"testing"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/history"
	"github.com/axebus/axe/internal/testbus"
	"github.com/axebus/axe/subjects"
)

// TestMovedOn: an answer of the server at the reply subject of a run is no
// outcome: no worker takes the run for moved on, and no peer for ended. An
// outcome before such an answer counts.
func TestMovedOn(t *testing.T) {
	t.Parallel()
	conn := testbus.Dial(t, testbus.Listen(t))
	if err := conn.Provision(t.Context(), bus.Provision{}); err != nil {
		t.Fatal(err)
	}
	agent, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := subjects.ParseTree("T1")
	if err != nil {
		t.Fatal(err)
	}
	root := conn.Space().Run(agent, tree, subjects.Root)
	child, err := subjects.ParsePath("r-1-0")
	if err != nil {
		t.Fatal(err)
	}
	r, reply := conn.Space().Run(agent, tree, child), root.Reply(1, 0)
	write := func(subject string) {
		t.Helper()
		if _, err := conn.Write(t.Context(), bus.Message{Subject: subject, Body: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	// answer has the server store its answer to a read under a subject.
	answer := func(subject string) {
		t.Helper()
		before, err := conn.LastSeq(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		nc, _ := conn.NATS()
		if err := nc.PublishRequest("$JS.API.STREAM.INFO.AXE_RUNS", subject, nil); err != nil {
			t.Fatal(err)
		}
		for last := before; last == before; time.Sleep(time.Millisecond) {
			if last, err = conn.LastSeq(t.Context(), subject); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(what string, moved, ended bool) {
		t.Helper()
		got, err := movedOn(t.Context(), &Worker{conn: conn, runs: history.New(conn)}, r, reply, 0)
		if err != nil || got != moved {
			t.Errorf("%s: moved on %t, %v; want %t", what, got, err, moved)
		}
		p, ok, err := (&Worker{conn: conn}).peer(t.Context(), root, child)
		if err != nil || !ok || p.Ended != ended {
			t.Errorf("%s: peer %+v, found %t, %v; want ended %t", what, p, ok, err, ended)
		}
	}
	write(r.Call())
	expect("a call", false, false)
	answer(reply)
	answer(r.Cancel())
	expect("an answer", false, false)
	write(reply)
	answer(reply)
	expect("an outcome between answers", true, true)
}
