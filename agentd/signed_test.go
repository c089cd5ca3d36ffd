package agentd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/axebus/axe/agentd/run"
	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/bus/grant"
	"github.com/axebus/axe/client"
	"github.com/axebus/axe/configs"
	"github.com/axebus/axe/subjects"
)

// operator grants agents to the keys of workers.
type operator struct {
	h       *harness
	account nkeys.KeyPair
	// signers is its public key, as a reader's configuration has it.
	signers []string
}

func newOperator(h *harness) *operator {
	account, err := nkeys.CreateAccount()
	if err != nil {
		h.tb.Fatal(err)
	}
	return &operator{h, account, []string{publicKey(h, account)}}
}

func publicKey(h *harness, key nkeys.KeyPair) string {
	public, err := key.PublicKey()
	if err != nil {
		h.tb.Fatal(err)
	}
	return public
}

// grant gives a new key some agents, or all.
func (o *operator) grant(agents ...string) nkeys.KeyPair {
	key, err := nkeys.CreateUser()
	if err != nil {
		o.h.tb.Fatal(err)
	}
	o.change(key, time.Time{}, agents...)
	return key
}

// change gives a key some agents until a time.
func (o *operator) change(key nkeys.KeyPair, ends time.Time, agents ...string) {
	g := grant.Grant{Key: publicKey(o.h, key), Ends: ends}
	for _, name := range agents {
		g.Agents = append(g.Agents, o.h.agent(name))
	}
	token, err := g.Sign(o.h.conn.Space(), o.account)
	if err == nil {
		_, err = bus.StoreGrant(o.h.ctx, o.h.conn, token)
	}
	if err != nil {
		o.h.tb.Fatal(err)
	}
}

// lockedBuffer is the log of a worker.
type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

// refusals returns the lines about refused outcomes.
func (b *lockedBuffer) refusals() (lines []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range strings.Lines(b.String()) {
		if strings.Contains(line, "outcome refused") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// forge stores a completed outcome of an agent, as the worker with a key writes
// it. A nil key signs nothing.
func forge(h *harness, key nkeys.KeyPair, subject, agent string, of subjects.Run, result string) {
	body, err := json.Marshal(run.Outcome{
		Status: run.StatusCompleted, Result: result, Agent: agent, Tree: of.Tree.String(), Path: of.Path.String(),
	})
	if err != nil {
		h.tb.Fatal(err)
	}
	conn := h.open(bus.Config{SignKey: key})
	defer conn.Close()
	// A worker knows the grants from its watch of the bucket.
	ctx, stop := context.WithCancel(h.ctx)
	d, err := conn.Directory(ctx)
	if err != nil {
		h.tb.Fatal(err)
	}
	caught, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Watch(ctx, func(string, []byte) {}, func() { close(caught) })
	}()
	<-caught
	if _, err := conn.Write(h.ctx, bus.Message{Subject: subject, Body: body, ID: subject, Sign: true}); err != nil {
		h.tb.Errorf("forge %s: %v", subject, err)
	}
	stop()
	<-ended
}

// leadAndReader are the agents of a tree: the lead asks the reader, for 20 s.
func leadAndReader(h *harness) []configs.Agent {
	h.models["lead"] = turns(calls(call("reader", "x")), joinsResults)
	h.models["reader"] = delayed(20*time.Second, says("true"))
	return []configs.Agent{define("lead", []string{"reader", "other"}), define("reader", nil), define("other", nil)}
}

// TestForgedOutcomeIsRefused: outcomes of the reader are forged in the reply
// slot of its call: one without a signature, two of a key that has a grant for
// another agent, one that the reader's own key has signed for another subject,
// and one that the forger has granted itself. Each is logged once by each
// worker that meets it, and the tree ends with the true answer. So it does if
// the lead's worker dies after it has read the forged ones and another one goes
// on.
func TestForgedOutcomeIsRefused(t *testing.T) {
	thorough(t)
	t.Parallel()
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprintf("dies %v", dies), func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) { forgedOutcome(h, dies) })
		})
	}
}

func forgedOutcome(h *harness, dies bool) {
	agents := leadAndReader(h)
	o := newOperator(h)
	reader, other := o.grant("reader"), o.grant("other")
	var log lockedBuffer
	leads := func(name string) *worker {
		return h.startWorker(name, workerOptions{
			agents: agents[:1], signers: o.signers, signKey: o.grant("lead"), busLog: &log,
		})
	}
	lead := leads("lead")
	h.startWorker("reader", workerOptions{agents: agents[1:2], signers: o.signers, signKey: reader})
	h.awaitReady()
	root := h.submit("lead", "go")
	h.awaitRequests("reader", 1)

	slot, child := root.Reply(1, 0), h.child(root, "reader", 0)
	forge(h, nil, slot, "reader", child, "unsigned")
	forge(h, other, slot, "reader", child, "of another agent")
	forge(h, other, slot, "other", child, "of another agent, with its name")
	elsewhere := root.Reply(7, 0)
	forge(h, reader, elsewhere, "reader", child, "replayed")
	stored := h.readAll(elsewhere)[0]
	h.write(bus.Message{
		Subject: slot, Body: stored.Body,
		Header: [][2]string{{subjects.HeaderSignature, stored.Header.Get(subjects.HeaderSignature)}},
	})
	forge(h, newOperator(h).grant("reader"), slot, "reader", child, "granted by itself")
	time.Sleep(5 * time.Second)
	if dies {
		lead.kill()
		leads("second lead")
	}
	h.expectCompleted(root, "c0=true")
	lines := log.refusals()
	for _, why := range []string{
		"it is not signed", "the key has no grant for the agent", "the signature is not of this subject and body",
		"which is none of the signers", "key=" + publicKey(h, other), "tree=" + root.Tree.String(), "path=r-1-0",
		"agent=reader",
	} {
		if !strings.Contains(strings.Join(lines, "\n"), why) {
			h.tb.Errorf("no line says %q", why)
		}
	}
	if want := 5; !dies && len(lines) != want {
		h.tb.Errorf("%d lines, want %d", len(lines), want)
	}
	h.tb.Logf("%s", strings.Join(lines, "\n"))
	if got := len(h.requests("reader")); got != 1 {
		h.tb.Errorf("the reader was asked %d times, want once", got)
	}
	h.checkRefused(o, root)
}

// checkRefused checks that a client with the operator's key sees the tree with
// its true answer, and one outcome of the reader alone.
func (h *harness) checkRefused(o *operator, root subjects.Run) {
	conn := h.open(bus.Config{Signers: o.signers})
	defer conn.Close()
	c := client.New(conn)
	outcome, err := c.Wait(h.ctx, root.Tree)
	if err != nil || outcome.Result != "c0=true" {
		h.tb.Errorf("the client waits for %q, %v", outcome.Result, err)
	}
	s, err := c.Snapshot(h.ctx, root.Tree)
	if err != nil {
		h.tb.Fatal(err)
	}
	var ended []string
	for _, e := range s.Events {
		if e.Kind == client.ChildEnded {
			ended = append(ended, e.Outcome.Result)
		}
	}
	if len(ended) != 1 || ended[0] != "true" {
		h.tb.Errorf("the reader ended with %q, want true alone", ended)
	}
}

// TestLogSettlesOutcomes: the worker of the lead dies after it has counted an
// outcome that its successor would refuse: the key has lost its grant, or the
// outcome has no signature and only the successor requires one. The outcome
// goes on counting, since the lead's log does. An outcome that the log has
// refused does not count for the successor, though its key has a grant by then.
func TestLogSettlesOutcomes(t *testing.T) {
	thorough(t)
	t.Parallel()
	for _, which := range []string{"grant replaced", "requirement begins", "granted too late"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			withHarness(t, func(h *harness) { settledOutcome(h, which) })
		})
	}
}

func settledOutcome(h *harness, which string) {
	agents := leadAndReader(h)
	h.models["lead"] = turns(calls(call("reader", "x")), calls(call("other", "y")), joinsResults)
	h.models["other"] = delayed(time.Minute, says("late"))
	o := newOperator(h)
	reader, other := o.grant("reader"), o.grant("other")
	first := workerOptions{agents: agents[:1], signers: o.signers, signKey: o.grant("lead")}
	second := first
	if which == "requirement begins" {
		first.signers, reader = nil, nil
	}
	lead := h.startWorker("lead", first)
	h.startWorker("reader", workerOptions{agents: agents[1:2], signKey: reader})
	h.startWorker("other", workerOptions{agents: agents[2:], signKey: other})
	h.awaitReady()
	root := h.submit("lead", "go")
	h.awaitRequests("reader", 1)
	late := o.grant("other")
	if which == "granted too late" {
		forge(h, late, root.Reply(1, 0), "reader", h.child(root, "reader", 0), "forged")
	}
	h.awaitRequests("other", 1)
	lead.kill()
	switch which {
	case "grant replaced":
		o.change(reader, time.Time{}, "other")
	case "granted too late":
		o.change(late, time.Time{}, "reader")
	}
	h.startWorker("second lead", second)
	h.expectCompleted(root, "c0=late")
	asked := h.requests("lead")
	shown := fmt.Sprint(asked[len(asked)-1].Messages)
	if !strings.Contains(shown, "true") || strings.Contains(shown, "forged") {
		h.tb.Errorf("the lead is shown %s", shown)
	}
	if which != "granted too late" {
		h.checkVerified()
	}
}

// TestForgedResultIsRefused: the result of a root is forged before the root's
// timer is set. The timer is set all the same, the root's worker goes on after
// a death, and a client that requires signatures gets the true result.
func TestForgedResultIsRefused(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		agents := leadAndReader(h)
		o := newOperator(h)
		other := o.grant("other")
		lead := workerOptions{agents: agents[1:2], signers: o.signers, signKey: o.grant("reader")}
		first := h.startWorker("reader", lead)
		h.awaitReady()
		root := h.submit("reader", "go")
		h.awaitRequests("reader", 1)
		forge(h, other, root.Result(), "reader", root, "forged")
		time.Sleep(3 * time.Second)
		if n := len(h.readAll(root.Timer(0))); n != 1 {
			t.Errorf("%d timers of the root, want 1", n)
		}
		first.kill()
		h.startWorker("second reader", lead)
		conn := h.open(bus.Config{Signers: o.signers})
		defer conn.Close()
		outcome, err := client.New(conn).Wait(h.ctx, root.Tree)
		if err != nil || outcome.Result != "true" {
			t.Errorf("the client waits for %q, %v", outcome.Result, err)
		}
	})
}

// TestAnyWorkerEndsRoots: a root of an agent without a worker is cancelled. The
// worker of another agent ends it, and its failure counts. A completed result
// of that worker would not.
func TestAnyWorkerEndsRoots(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		agents := leadAndReader(h)
		o := newOperator(h)
		gone := h.startWorker("reader", workerOptions{
			agents: agents[1:2], signers: o.signers, signKey: o.grant("reader"),
		})
		h.startWorker("other", workerOptions{agents: agents[2:], signers: o.signers, signKey: o.grant("other")})
		h.awaitReady()
		root := h.submit("reader", "go")
		h.awaitRequests("reader", 1)
		gone.kill()
		conn := h.open(bus.Config{Signers: o.signers})
		defer conn.Close()
		c := client.New(conn)
		if err := c.Cancel(h.ctx, root.Tree, subjects.Root, "enough"); err != nil {
			t.Fatal(err)
		}
		outcome, err := c.Wait(h.ctx, root.Tree)
		if err != nil || outcome.Kind != run.KindCancelled {
			t.Errorf("the client waits for %v, %v", outcome, err)
		}
	})
}

// TestGrantEnds: outcomes count up to the end of the key's grant, and not from
// then on. Those from before go on counting.
func TestGrantEnds(t *testing.T) {
	t.Parallel()
	withHarness(t, func(h *harness) {
		agents := leadAndReader(h)
		o := newOperator(h)
		key := o.grant("reader")
		var log lockedBuffer
		conn := h.open(bus.Config{Signers: o.signers, Log: slog.New(slog.NewTextHandler(&log, nil))})
		defer conn.Close()
		c := client.New(conn)
		h.startWorker("reader", workerOptions{agents: agents[1:2], signKey: key})
		h.awaitReady()
		before := h.submit("reader", "go")
		if _, err := c.Wait(h.ctx, before.Tree); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second) // a grant ends with a second
		o.change(key, time.Now(), "reader")
		after := h.submit("reader", "go")
		h.awaitOutcome(after, time.Hour)
		ctx, stop := context.WithTimeout(h.ctx, time.Minute)
		defer stop()
		if outcome, err := c.Wait(ctx, after.Tree); err == nil {
			t.Errorf("the client has %v after the grant ended", outcome)
		}
		const ended = "the grant of the key ended at 2000-01-01T"
		if lines := log.refusals(); len(lines) != 1 || !strings.Contains(lines[0], ended) {
			t.Errorf("the log has %q", lines)
		}
		if outcome, err := c.Wait(h.ctx, before.Tree); err != nil || outcome.Result != "true" {
			t.Errorf("the client has %v, %v for a tree from before", outcome, err)
		}
	})
}
