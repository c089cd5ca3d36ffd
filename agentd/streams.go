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

// ErrStreamLost is wrapped by the error of Worker.Run if a stream of runs was
// removed, or replaced by another one, perhaps from a backup. The trees that
// the stream does not have are lost. The caller has to provision the streams
// again before it runs another worker.
var ErrStreamLost = errors.New("the worker's stream of runs is gone")

const (
	// streamInterval is the time between two looks at the faults of the
	// streams. bus.Clocks reads the state of the streams as often.
	streamInterval = 2 * time.Second
	// maxCorrectDelay is the longest time from a correction that failed to
	// the next one.
	maxCorrectDelay = time.Minute
	// bucketInterval is the time between two looks at the buckets.
	bucketInterval = 16 * time.Second
)

// streamWatch watches over the streams for one worker. It logs each fault when
// it appears, and corrects the faults that a worker can correct.
type streamWatch struct {
	conn *bus.Conn
	log  *slog.Logger
	// longest is the longest time that a tree may take.
	longest time.Duration
	// removed is called after messages of runs were removed. The cache may
	// have states of runs whose messages are gone.
	removed func()

	// faults has the faults that the last look found.
	faults []bus.Fault
	// failures is the number of failed corrections since the last one that
	// succeeded, 5 at most.
	failures int
	// next is the earliest time of the next correction.
	next time.Time
}

// run looks at the streams until ctx ends, or until a stream of runs was
// removed. The error then wraps ErrStreamLost.
func (s *streamWatch) run(ctx context.Context) error {
	for looks := 0; ; looks++ {
		if looks%int(bucketInterval/streamInterval) == 0 {
			if err := s.conn.Health.Look(ctx); err != nil {
				s.log.DebugContext(ctx, "buckets not looked at", slog.Any(keyError, err))
			}
		}
		// Acknowledgements wait for this after a reconnect.
		if err := s.conn.Health.Confirm(ctx); err != nil {
			s.log.DebugContext(ctx, "streams not confirmed", slog.Any(keyError, err))
		}
		if err := s.note(ctx, s.conn.Health.Faults(s.longest)); err != nil {
			return err
		}
		if err := pause.AtMost(ctx, streamInterval, s.conn.Health.Replaced()); err != nil {
			return err
		}
	}
}

// note compares the faults of a look with those of the last one. It logs new
// faults and faults that are gone, calls removed, and corrects the streams. The
// error wraps ErrStreamLost if a stream of runs was removed.
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
		case bus.FaultMissing:
			if f.OfRuns {
				return fmt.Errorf("%w: %s", ErrStreamLost, f)
			}
			correctable = true
		case bus.FaultSettings:
			correctable = true
		case bus.FaultDrops, bus.FaultNoRoom, bus.FaultFull:
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

// correct corrects the streams. After each failure it puts the next correction
// off for longer: the worker's user may lack the permission.
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
