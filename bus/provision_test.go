package bus

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/axebus/axe/subjects"
)

// TestProvisionedMeansEverythingExists: a client asks repeatedly whether the
// bus is provisioned, while a worker provisions it. As soon as it is, the
// stream of submissions and the bucket of agents exist too.
func TestProvisionedMeansEverythingExists(t *testing.T) {
	server := serveT(t, ServerConfig{SyncAlways: true})
	worker, other := openT(t, Dial{Server: server}, false), openT(t, Dial{Server: server}, false)
	done := make(chan error, 1)
	go func() { done <- worker.Provision(t.Context(), Provision{}) }()
	for {
		err := other.Provisioned(t.Context())
		if err == nil {
			break
		}
		if !errors.Is(err, ErrNoStream) {
			t.Fatal(err)
		}
	}
	tree, err := subjects.ParseTree("tree")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := other.QueuedSubmission(t.Context(), other.Space().SubmissionOf(tree)...); err != nil {
		t.Errorf("read of the submissions: %v", err)
	}
	if _, err := other.Directory(t.Context()); err != nil {
		t.Errorf("directory: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("provision: %v", err)
	}
}

// TestBoundedStreamIsRefused: Provision refuses an existing stream with a bound
// on its bytes or messages, which would drop messages of unfinished runs. The
// error has the command that removes the bound.
func TestBoundedStreamIsRefused(t *testing.T) {
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, true)
	for _, bound := range []func(*jetstream.StreamConfig){
		func(c *jetstream.StreamConfig) { c.MaxBytes = 1 << 20 },
		func(c *jetstream.StreamConfig) { c.MaxMsgs = 1000 },
		func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 },
	} {
		s, err := c.js.Stream(t.Context(), "AXE_RUNS")
		if err != nil {
			t.Fatal(err)
		}
		was := s.CachedInfo().Config
		bounded := was
		bound(&bounded)
		if _, err := c.js.UpdateStream(t.Context(), bounded); err != nil {
			t.Fatal(err)
		}
		err = c.Provision(t.Context(), Provision{})
		if want := "nats stream edit AXE_RUNS --max-"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %s", err, want)
		}
		if _, err := c.js.UpdateStream(t.Context(), was); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Provision(t.Context(), Provision{}); err != nil {
		t.Errorf("without a bound: got %v, want no error", err)
	}
}

// TestStreamThatAnotherWorkerCreates: a server of a cluster refuses to create a
// stream that another worker is creating, and cannot find it yet. The worker
// waits until it is there.
func TestStreamThatAnotherWorkerCreates(t *testing.T) {
	t.Parallel()
	c := openT(t, Dial{Server: serveT(t, ServerConfig{})}, false)
	asked, err := c.nc.SubscribeSync("$JS.API.STREAM.INFO.OTHERS")
	if err != nil {
		t.Fatal(err)
	}
	found := make(chan error, 1)
	go func() { found <- allowBatches(t.Context(), c.js, "OTHERS", true) }()
	ctx, cancel := context.WithTimeout(t.Context(), answerTimeout)
	defer cancel()
	for range 2 { // the answer to the first request is that there is none
		if _, err := asked.NextMsgWithContext(ctx); err != nil {
			t.Fatal("it has not asked again: ", err)
		}
	}
	if _, err := c.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHERS"}); err != nil {
		t.Fatal(err)
	}
	if err := <-found; err != nil {
		t.Errorf("while it is created: got %v, want no error", err)
	}
}
