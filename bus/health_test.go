package bus

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// inBubble runs a test with a connection in virtual time.
func inBubble(t *testing.T, do func(t *testing.T, c *Conn)) {
	t.Helper()
	ats.Register()
	defer ats.Unregister()
	synctest.Test(t, func(t *testing.T) { do(t, openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)) })
}

// editT changes the configuration of a stream.
func editT(t *testing.T, c *Conn, stream string, change func(*jetstream.StreamConfig)) {
	t.Helper()
	s, err := c.js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	change(&cfg)
	if _, err := c.js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// treeT parses the id of a tree.
func treeT(t *testing.T, id string) subjects.Tree {
	t.Helper()
	tree, err := subjects.ParseTree(id)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// submissionT returns a submission to the agent a, with a patience of a second.
func submissionT(t *testing.T, c *Conn, id string) Message {
	t.Helper()
	return Message{Subject: c.Space().Submit(agentT(t, "a"), treeT(t, id)), Patience: time.Second}
}

// faultsT waits for a clockInterval, and measures the streams. It returns their
// faults, a line each. A tree may take an hour.
func faultsT(t *testing.T, c *Conn) (lines []string) {
	t.Helper()
	time.Sleep(clockInterval)
	_ = c.Clocks.Measure(t.Context()) // a stream may be missing
	for _, f := range c.Health.Faults(time.Hour) {
		lines = append(lines, f.String())
	}
	return lines
}

// expectFault expects one fault with a text.
func expectFault(t *testing.T, got []string, text string) {
	t.Helper()
	if len(got) != 1 || !strings.Contains(got[0], text) {
		t.Errorf("faults %q, want one with %q", got, text)
	}
}

// TestStreamWithoutRoom: a stream that refuses writes is at fault, with the
// server's words, until it stores a message.
func TestStreamWithoutRoom(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Conn) {
		t.Helper()
		room := func(most int64) {
			editT(t, c, "AXE_SUBMIT", func(s *jetstream.StreamConfig) {
				s.MaxMsgs = most
				s.Discard = jetstream.DiscardNew
			})
		}
		room(1)
		if _, err := c.Write(t.Context(), submissionT(t, c, "first")); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(t.Context(), submissionT(t, c, "second")); !errors.Is(err, ErrNoRoom) {
			t.Fatalf("got %v, want %v", err, ErrNoRoom)
		}
		expectFault(t, faultsT(t, c), "AXE_SUBMIT stores nothing: the server says: maximum messages exceeded")
		room(-1)
		if _, err := c.Write(t.Context(), submissionT(t, c, "second")); err != nil {
			t.Fatal(err)
		}
		if got := faultsT(t, c); len(got) > 0 {
			t.Errorf("faults %q, want none", got)
		}
	})
}

// TestStreamThatDoesNotAnswer: a write with patience fails within two seconds
// if its stream answers no write and its server answers other requests. A
// write without patience goes on, and the stream is at fault.
func TestStreamThatDoesNotAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Conn) {
		t.Helper()
		editT(t, c, "AXE_SUBMIT", func(s *jetstream.StreamConfig) { s.NoAck = true })
		began := time.Now()
		_, err := c.Write(t.Context(), submissionT(t, c, "first"))
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the write took %v, want at most 2s", took)
		}
		if !errors.Is(err, ErrNoRoom) || !strings.Contains(err.Error(), "make room on the disk") {
			t.Errorf("got %v, want %v with advice about the disk", err, ErrNoRoom)
		}
		if got := faultsT(t, c); len(got) > 0 {
			t.Errorf("faults %q after two seconds, want none", got)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*answerTimeout)
		defer cancel()
		m := submissionT(t, c, "second")
		m.Patience = 0
		if _, err := c.Write(ctx, m); errors.Is(err, ErrNoRoom) || ctx.Err() == nil {
			t.Errorf("got %v, want a write that goes on until its context ends", err)
		}
		expectFault(t, faultsT(t, c), "AXE_SUBMIT stores nothing: the server answers requests and no write")
	})
}

// TestRemovedStreams: a stream that was removed, made again or emptied is at
// fault. A stream that loses a few messages is not: workers remove timers.
func TestRemovedStreams(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Conn) {
		t.Helper()
		call := Message{Subject: c.Space().Run(agentT(t, "a"), treeT(t, "T1"), subjects.Root).Call()}
		for range 3 {
			if _, err := c.Write(t.Context(), call); err != nil {
				t.Fatal(err)
			}
		}
		s, err := c.js.Stream(t.Context(), "AXE_RUNS")
		if err != nil {
			t.Fatal(err)
		}
		if got := faultsT(t, c); len(got) > 0 {
			t.Fatalf("faults %q, want none", got)
		}
		if err := s.DeleteMsg(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if got := faultsT(t, c); len(got) > 0 {
			t.Errorf("faults %q after a message was removed, want none", got)
		}
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		expectFault(t, faultsT(t, c), "stream AXE_RUNS has lost its messages up to 3 before their age")
		for range 3 {
			if _, err := c.Write(t.Context(), call); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		expectFault(t, faultsT(t, c), "has lost its messages up to 6 before their age")
		if err := c.js.DeleteStream(t.Context(), "AXE_RUNS"); err != nil {
			t.Fatal(err)
		}
		expectFault(t, faultsT(t, c), "stream AXE_RUNS does not exist any more")
		cfg := s.CachedInfo().Config
		if _, err := c.js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		expectFault(t, faultsT(t, c), "stream AXE_RUNS was removed and made again")
		if err := c.Provision(t.Context(), Provision{}); err != nil {
			t.Fatal(err)
		}
		if got := faultsT(t, c); len(got) > 0 {
			t.Errorf("faults %q after the streams were provisioned, want none", got)
		}
	})
}

// TestProvisionRefusesShortAge: Provision refuses a stream of runs whose age is
// shorter than five quarters of the longest time that a tree may take. The
// error has the command that sets an age that is long enough.
func TestProvisionRefusesShortAge(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	editT(t, c, "AXE_RUNS", func(s *jetstream.StreamConfig) {
		s.MaxAge = time.Minute
		s.Duplicates = time.Minute
	})
	if err := c.Provision(t.Context(), Provision{Longest: 48 * time.Second}); err != nil {
		t.Errorf("trees of 48 seconds: got %v, want no error", err)
	}
	err := c.Provision(t.Context(), Provision{Longest: time.Hour})
	want := "stream AXE_RUNS drops messages that workers need after max-age=1m0s, and trees that may take 1h0m0s " +
		"need 1h15m0s; to correct it: nats stream edit AXE_RUNS --max-age=168h0m0s"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	err = c.Provision(t.Context(), Provision{Longest: 144 * time.Hour})
	if want := "--max-age=180h0m0s"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("trees of 6 days: got %v, want an error that ends with %s", err, want)
	}
}

// TestWorkerTellsItsTrouble: the answer of a worker to a request for a sign of
// life says that a stream of runs stores nothing.
func TestWorkerTellsItsTrouble(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	worker := subjects.WorkerOf("one")
	if err := c.Workers().Answer(t.Context(), worker, Answers{Recall: knowsNothing}); err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		if got, err := c.Workers().Ask(t.Context(), worker); err != nil || got != want {
			t.Errorf("trouble %q, error %v, want %q", got, err, want)
		}
	}
	if err := c.Clocks.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("")
	call := c.Space().Run(agentT(t, "a"), treeT(t, "T1"), subjects.Root).Call()
	c.Health.failed(call, &jetstream.APIError{
		Code: 503, ErrorCode: codeNoResources, Description: "insufficient resources",
	})
	expect("stream AXE_RUNS stores nothing: the server says: insufficient resources (10023); " +
		"to correct it: raise the JetStream limits of the account or the server, or remove old messages")
	if _, err := c.Write(t.Context(), Message{Subject: call}); err != nil {
		t.Fatal(err)
	}
	expect("")
}

// TestFailedWrites: a stream that leaves writes without an answer is at fault.
// Then a write ends with a conflict, which is an answer: the fault is gone.
func TestFailedWrites(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Conn) {
		t.Helper()
		call := c.Space().Run(agentT(t, "a"), treeT(t, "T1"), subjects.Root).Call()
		c.Health.failed(call, context.DeadlineExceeded)
		time.Sleep(unansweredTime)
		c.Health.failed(call, context.DeadlineExceeded)
		expectFault(t, faultsT(t, c), "AXE_RUNS stores nothing: the server answers requests and no write")
		c.Health.failed(call, &ConflictError{Subject: call, Last: 1})
		if got := faultsT(t, c); len(got) > 0 {
			t.Errorf("faults %q, want none", got)
		}
	})
}
