package agentd

import (
	"context"
	"log/slog"
	"slices"

	"github.com/axebus/axe/bus"
)

// poke leaves a token for who waits for one; one is as good as many.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is there already
	}
}

// leave takes somebody out of a line, and reports whether it was still in it.
func leave[T comparable](line *[]T, who T) bool {
	i := slices.Index(*line, who)
	if i >= 0 {
		*line = slices.Delete(*line, i, i+1)
	}
	return i >= 0
}

// insist does something until it works or ctx ends.
func insist(ctx context.Context, log *slog.Logger, what string, do func() error) {
	for {
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		log.WarnContext(ctx, "trying again", slog.String(keyKind, what), slog.Any(keyError, err))
		_ = bus.Pause(ctx, busRetryDelay)
	}
}
