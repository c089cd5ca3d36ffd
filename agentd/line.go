package agentd

import (
	"context"
	"log/slog"

	"github.com/axebus/axe/bus"
)

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
