package bus

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestLost: what a server says while it has no leader is no answer, in the
// words of either half of the library; what it says of a stream that is not
// there is one.
func TestLost(t *testing.T) {
	for _, test := range []struct {
		err  error
		lost bool
	}{
		{&jetstream.APIError{Code: 503, ErrorCode: 10008}, true},
		// watch agents: nats: JetStream system temporarily unavailable
		{&nats.APIError{Code: 503, ErrorCode: 10008}, true},
		{&jetstream.APIError{Code: 404, ErrorCode: 10059}, false},
		{&nats.APIError{Code: 404, ErrorCode: 10059}, false},
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
