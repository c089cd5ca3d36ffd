package agentd

import (
	"context"
	"errors"
	"time"

	"github.com/axebus/axe/bus"
)

// sure is how long an outcome is tried to be stored before its worker looks
// whether another one has stored one: for so long, and some more, the server
// knows a second one by its ID.
const sure = 20 * time.Second

var errUnsure = errors.New("another worker may have stored an outcome")

// storeOutcome stores an outcome. There is true if another one was found in its
// place.
func (w *Worker) storeOutcome(ctx context.Context, m bus.Message) (there bool, _ error) {
	for limit := sure; ; limit *= 2 { // a large body takes its time
		try, cancel := context.WithTimeoutCause(ctx, limit, errUnsure)
		_, err := w.conn.Write(try, m)
		cancel()
		if !errors.Is(err, errUnsure) {
			return false, err
		}
		if _, there, err = w.outcomeAt(ctx, m.Subject); there || err != nil {
			return there, err
		}
	}
}
