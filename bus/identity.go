package bus

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// ErrReplaced is wrapped by the error of a write to a stream of runs that was
// removed and made again, or restored from a backup, since this process began
// to work on it. Another message may have the sequence of one that the process
// has read, so no fence holds.
var ErrReplaced = errors.New("the stream was replaced")

// errUnconfirmed is the error of a request that is not sent: the streams may
// have been replaced since the last answer from them.
var errUnconfirmed = errors.New("the streams may have been replaced")

// identity says whether the streams of runs are those that this process works
// on. Only another connection, or a time without the stream, leaves room for a
// replacement that a write could miss.
type identity struct {
	// watched says that writes depend on it (Health.Guard).
	watched atomic.Bool
	// absences counts the writes that no stream has taken.
	absences atomic.Uint64
	// confirmed is 1 more than Health.doubts at the last time when the
	// streams were the same; 0 before the first time.
	confirmed atomic.Uint64
	// checking holds a token while the streams are asked.
	checking chan struct{}
}

// confirmTimeout bounds the question to each stream. A link on which five round
// trips take longer gets more.
const confirmTimeout = time.Second

// Guard makes writes to the streams of runs, and acknowledgements, depend on
// the streams' identity from now on: after a reconnect, or a time without a
// stream, the streams are asked first, and ErrReplaced is the error if one was
// replaced. A process that remembers messages needs that. The clocks have to be
// measured before. Provision ends the error.
func (h *Health) Guard() { h.identity.watched.Store(true) }

// doubts counts the occasions on which a stream may have been replaced.
func (h *Health) doubts() uint64 { return h.conn.inflight.dials.Load() + h.identity.absences.Load() }

// isConfirmed reports whether the streams are certainly the same.
func (h *Health) isConfirmed() bool {
	return !h.identity.watched.Load() || h.identity.confirmed.Load() == h.doubts()+1
}

// Confirm asks the streams if they are in doubt. One goroutine asks for all. A
// write asks by itself; acknowledgements are held back until some write has, or
// a caller of Confirm.
func (h *Health) Confirm(ctx context.Context) error {
	if h.isConfirmed() {
		return nil
	}
	select {
	case h.identity.checking <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-h.identity.checking }()
	if h.isConfirmed() {
		return nil
	}
	before := h.doubts()
	_, half := h.conn.Clocks.Offset()
	timeout := max(confirmTimeout, roundTrips*2*half)
	for _, name := range h.conn.streams.Load().names {
		ask, cancel := context.WithTimeout(ctx, timeout)
		_, err := h.info(ask, name)
		cancel()
		if err != nil {
			return fmt.Errorf("%w: %w", errUnconfirmed, err)
		}
		if h.wasReplaced(name) {
			return fmt.Errorf("%s: %w", name, ErrReplaced)
		}
	}
	h.identity.confirmed.Store(before + 1)
	return nil
}

// wasReplaced reports whether a stream was replaced since it was provisioned.
func (h *Health) wasReplaced(stream string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.of(stream).replaced()
}

// Replaced is ready after a stream was found to be replaced.
func (h *Health) Replaced() <-chan struct{} { return h.replaced }

// Restored reports whether the stream of a partition was restored from a
// backup, not longer ago than a time span.
func (h *Health) Restored(partition int, within time.Duration) bool {
	name := h.conn.streams.Load().names[partition]
	h.mu.Lock()
	defer h.mu.Unlock()
	info := h.of(name).info
	return info != nil && isRestored(info) && info.TimeStamp.Sub(info.Created) < within
}

// isRestored reports whether a stream has messages that are older than itself.
func isRestored(is *jetstream.StreamInfo) bool {
	return is.State.Msgs > 0 && is.State.FirstTime.Before(is.Created)
}
