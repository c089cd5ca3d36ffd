package bus

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestLost: a request to a stream without a leader counts as lost, and so does
// one without a responder or after a deadline. An error of the server about a
// missing stream or a permission is an answer.
func TestLost(t *testing.T) {
	for _, test := range []struct {
		err  error
		lost bool
	}{
		{&jetstream.APIError{Code: 503, ErrorCode: 10008}, true},
		// The text is "nats: JetStream system temporarily unavailable".
		{&jetstream.APIError{Code: 404, ErrorCode: 10059}, false},
		{nats.ErrNoResponders, true},
		{context.DeadlineExceeded, true},
		{nats.ErrPermissionViolation, false},
		{errors.New("anything else"), false},
	} {
		if err := fmt.Errorf("wrapped: %w", test.err); Lost(err) != test.lost {
			t.Errorf("%T %v: lost %t, want %t", test.err, test.err, Lost(err), test.lost)
		}
	}
}
