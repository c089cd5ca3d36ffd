package agentd

import (
	"testing"
	"time"

	"github.com/nats-io/nkeys"

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
		writeTo(t, conn, bus.Message{Subject: subject})
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
		p, ok, err := (&Worker{conn: conn, runs: history.New(conn)}).peer(t.Context(), root, child)
		if err != nil || !ok || p.Ended != ended {
			t.Errorf("%s: peer %+v, found %t, %v; want ended %t", what, p, ok, err, ended)
		}
	}
	writeTo(t, conn, callOf(r, agent, reply))
	expect("a call", false, false)
	answer(reply)
	answer(r.Cancel())
	expect("an answer", false, false)
	write(reply)
	answer(reply)
	expect("an outcome between answers", true, true)
}

// callOf is the call of a run that an agent has made.
func callOf(r subjects.Run, parent subjects.Agent, reply string) bus.Message {
	header := subjects.Header{
		Tree: r.Tree, Path: r.Path, Parent: parent, Depth: r.Path.Depth(), MaxDepth: 3,
		Deadline: time.Now().Add(time.Hour), Reply: reply,
	}
	return bus.Message{Subject: r.Call(), Header: header.Pairs()}
}

func writeTo(t *testing.T, conn *bus.Conn, m bus.Message) {
	t.Helper()
	m.Body = []byte("{}")
	if _, err := conn.Write(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

// TestPeerEnds: the outcome that ends a peer is that of its own call. A result
// of another agent, the answer to a refused submission, ends no root. Where
// signatures are required, an unsigned outcome ends no run. A cancel message
// does.
func TestPeerEnds(t *testing.T) {
	t.Parallel()
	url := testbus.Listen(t)
	conn := testbus.Dial(t, url)
	signer, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	public, err := signer.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	strict, err := bus.Open(t.Context(), bus.Config{Dial: bus.Dial{URL: url}, Signers: []string{public}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(strict.Close)
	lead, err := subjects.ParseAgent("lead")
	if err != nil {
		t.Fatal(err)
	}
	other, err := subjects.ParseAgent("laed")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := subjects.ParseTree("T1")
	if err != nil {
		t.Fatal(err)
	}
	root := conn.Space().Run(lead, tree, subjects.Root)
	child, second := root, root
	child.Path = subjects.Root.Child(1, 0)
	second.Path = subjects.Root.Child(1, 1)
	expect := func(what string, c *bus.Conn, p subjects.Path, ended bool) {
		t.Helper()
		got, ok, err := (&Worker{conn: c, runs: history.New(c)}).peer(t.Context(), root, p)
		if err != nil || !ok || got.Ended != ended || got.Agent != "lead" {
			t.Errorf("%s: peer %+v, found %t, %v; want lead, ended %t", what, got, ok, err, ended)
		}
	}
	writeTo(t, conn, bus.Message{Subject: root.Space.Result(other, tree)})
	writeTo(t, conn, callOf(root, subjects.Agent{}, root.Result()))
	expect("a result of another agent", conn, subjects.Root, false)
	writeTo(t, conn, bus.Message{Subject: root.Result()})
	expect("a result", conn, subjects.Root, true)

	writeTo(t, conn, callOf(child, lead, root.Reply(1, 0)))
	writeTo(t, conn, bus.Message{Subject: root.Reply(1, 0)})
	expect("an unsigned outcome", conn, child.Path, true)
	expect("an unsigned outcome that does not count", strict, child.Path, false)
	writeTo(t, conn, bus.Message{Subject: child.Cancel()})
	expect("a cancel message", strict, child.Path, true)

	writeTo(t, conn, callOf(second, lead, root.Reply(1, 1)))
	expect("a call", conn, second.Path, false)
	writeTo(t, conn, bus.Message{Subject: second.Cancel()})
	expect("a cancel message", conn, second.Path, true)
}
