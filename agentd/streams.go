package agentd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/axebus/axe/bus"
	"github.com/axebus/axe/internal/pause"
)

// ErrStreamLost is wrapped by the error of Run if a stream of runs was removed.
// All trees on it are lost. The streams have to be provisioned again before
// another worker runs.
var ErrStreamLost = errors.New("a stream of runs was removed")

const (
	// streamInterval is the time between two looks at the faults of the
	// streams. The clocks measure the streams as often.
	streamInterval = 2 * time.Second
	// maxCorrectDelay is the longest pause between two corrections that fail.
	maxCorrectDelay = time.Minute
	// bucketInterval is the time between two looks at the buckets.
	bucketInterval = 16 * time.Second
)

// streamWatch watches over the streams for one worker. It logs each fault once,
// and corrects what a worker can.
type streamWatch struct {
	conn *bus.Conn
	log  *slog.Logger
	// longest is the longest time that a tree may take.
	longest time.Duration
	// removed is called after messages of runs were removed: the worker may
	// remember runs of which the messages are gone.
	removed func()
	// replaced is called after a bucket was removed and made again.
	replaced func()

	// faults are those of the last look.
	faults []bus.Fault
	// failures counts the corrections that have failed since the last one
	// that succeeded, and next is the time of the next one.
	failures int
	next     time.Time
}

// run looks at the streams until ctx ends. The error is ErrStreamLost if a
// stream of runs was removed.
func (s *streamWatch) run(ctx context.Context) error {
	for looks := 0; ; looks++ {
		if looks%int(bucketInterval/streamInterval) == 0 {
			if err := s.conn.Health.Look(ctx); err != nil {
				s.log.DebugContext(ctx, "buckets not looked at", slog.Any(keyError, err))
			}
		}
		if err := s.note(ctx, s.conn.Health.Faults(s.longest)); err != nil {
			return err
		}
		if err := pause.For(ctx, streamInterval); err != nil {
			return err
		}
	}
}

// note takes the faults of a look in place of those of the last one.
func (s *streamWatch) note(ctx context.Context, now []bus.Fault) error {
	before := s.faults
	s.faults = now
	correctable := false
	for _, f := range now {
		known := slices.Contains(before, f)
		if !known {
			s.logFault(ctx, f)
		}
		switch f.Kind {
		case bus.FaultRemoved:
			if !known {
				s.removed()
			}
		case bus.FaultReplaced:
			if f.OfRuns {
				return fmt.Errorf("%w: %s", ErrStreamLost, f)
			}
			if !known {
				s.replaced()
			}
		case bus.FaultMissing:
			if f.OfRuns {
				return fmt.Errorf("%w: %s", ErrStreamLost, f)
			}
			correctable = true
		case bus.FaultSettings:
			correctable = true
		case bus.FaultDrops, bus.FaultNoRoom:
		}
	}
	for _, f := range before {
		if f.Kind != bus.FaultRemoved && !slices.Contains(now, f) {
			s.log.InfoContext(ctx, "stream is right again", slog.String(keyStream, f.Stream),
				slog.String(keyKind, string(f.Kind)))
		}
	}
	if correctable && !time.Now().Before(s.next) {
		s.correct(ctx)
	}
	return nil
}

func (s *streamWatch) logFault(ctx context.Context, f bus.Fault) {
	attrs := []slog.Attr{slog.String(keyStream, f.Stream), slog.String(keyProblem, f.Problem)}
	if f.Limit != "" {
		attrs = append(attrs, slog.String(keyLimit, f.Limit))
	}
	if f.Advice != "" {
		attrs = append(attrs, slog.String(keyAdvice, f.Advice))
	}
	s.log.LogAttrs(ctx, slog.LevelError, "stream at fault", attrs...)
}

// correct corrects the streams. After a failure it pauses: the worker's user may
// not be allowed to do it.
func (s *streamWatch) correct(ctx context.Context) {
	if err := s.conn.Health.Correct(ctx); err != nil {
		if s.failures == 0 {
			s.log.WarnContext(ctx, "streams not corrected, trying again", slog.Any(keyError, err))
		}
		s.next = time.Now().Add(min(streamInterval<<s.failures, maxCorrectDelay))
		s.failures = min(s.failures+1, 5)
		return
	}
	s.failures = 0
	s.log.InfoContext(ctx, "streams corrected")
}
