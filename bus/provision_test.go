package bus

import (
	"errors"
	"testing"

	"github.com/axebus/axe/subjects"
)

// Who finds the bus set up while a worker is at it finds all of it.
func TestProvisionedIsWhole(t *testing.T) {
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
	if _, _, err := other.Queued(t.Context(), other.Space().SubmissionOf(tree)); err != nil {
		t.Error(err)
	}
	if _, err := other.Directory(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
